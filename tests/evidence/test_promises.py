"""What actions gain under each reading: formulas by hand, and simulated truth of either kind."""

import numpy as np
import pytest

from priorshift.adapt import Goal
from priorshift.evidence import Acted, promise

ACCURACY = Goal("accuracy")


def simulated(rng, n, shares):
    y = rng.choice(2, n, p=shares)
    x = rng.normal(2.0 * y - 1.0)
    raw = 1 / (1 + np.exp(-2 * x + 1.5))  # trained at other shares
    return np.column_stack([1 - raw, raw]), x, y


def calibrated(x):
    q = 1 / (1 + np.exp(-2 * x))
    return np.column_stack([1 - q, q])


def adapted(x, shares):
    A = calibrated(x) * shares / 0.5
    return A / A.sum(axis=1, keepdims=True)


def gathered(rng, n):
    even, shares = np.full(2, 0.5), np.array([0.25, 0.75])
    P, x, y = simulated(rng, n, even)
    T, x_target, y_target = simulated(rng, n, shares)
    Q = calibrated(x_target)
    return (
        (Acted(P, calibrated(x), adapted(x, shares)), y),
        Acted(T, Q, adapted(x_target, shares)),
        (np.array([even, Q.mean(axis=0), shares]), np.zeros((2, 2))),
        y_target,
    )


def test_each_reading_is_its_formula():
    validation, target, shares, _ = gathered(np.random.default_rng(0), 500)
    found = promise(ACCURACY, *validation, target, *shares, adapts=True)
    validation, y = validation
    saved = (validation.adapted.argmax(1) == y) * 1.0 - (validation.y_proba.argmax(1) == y)
    d = np.bincount(y, saved, 2) / (np.bincount(y) + 2)
    assert found.unchanged.mean == pytest.approx(shares[0][0] @ d)
    assert found.mean.mean == pytest.approx(shares[0][1] @ d)
    assert found.prior.mean == pytest.approx(shares[0][2] @ d)
    Q, i = target.calibrated, np.arange(500)
    expected = Q[i, target.adapted.argmax(1)] - Q[i, target.y_proba.argmax(1)]
    assert found.covariate.mean == pytest.approx(expected.mean())


def test_a_covariance_that_rounding_made_negative_is_none():
    all_of_one, y = np.tile([0.9, 0.1], (6, 1)), np.array([0, 0, 0, 1, 1, 1])
    acted = Acted(all_of_one, all_of_one, all_of_one[:, ::-1])
    shares = np.full((3, 2), 0.5)
    none, negative = (
        promise(ACCURACY, acted, y, acted, shares, size * np.eye(2), adapts=True).prior
        for size in (0.0, -1.0)
    )
    assert negative == none


def test_under_prior_shift_the_promise_of_prior_shift_is_kept():
    rng, apart = np.random.default_rng(1), []
    for _ in range(60):
        validation, target, shares, y = gathered(rng, 800)
        gain = promise(ACCURACY, *validation, target, *shares, adapts=True).prior
        right = [(one.argmax(1) == y).mean() for one in (target.adapted, target.y_proba)]
        noise = np.hypot(gain.error, gain.error)  # of the promise, and of as many target rows
        apart.append((right[0] - right[1] - gain.mean) / noise)
    assert abs(np.mean(apart)) < 0.35
    assert 0.6 < np.std(apart) < 1.3


def test_under_covariate_shift_the_promise_of_meaning_is_kept():
    rng, apart = np.random.default_rng(2), []
    for _ in range(40):
        validation, target, shares, _ = gathered(rng, 2000)
        y = (rng.uniform(size=2000) < target.calibrated[:, 1]).astype(int)
        gain = promise(ACCURACY, *validation, target, *shares, adapts=True).covariate
        right = [(one.argmax(1) == y).mean() for one in (target.adapted, target.y_proba)]
        apart.append((right[0] - right[1] - gain.mean) / gain.error)
    assert np.mean(apart) < 0.5
    assert np.mean(np.abs(apart) < 2.5) > 0.9


def test_rows_of_one_group_err_together():
    """Forty copies of a hundred rows are a hundred rows."""
    rng = np.random.default_rng(3)
    validation, target, shares, _ = gathered(rng, 100)
    copies = np.repeat(np.arange(100), 40)
    acted, y = validation
    repeated = Acted(*(part[copies] for part in acted)), y[copies]
    alone = promise(ACCURACY, *validation, target, *shares, adapts=True)
    naive = promise(ACCURACY, *repeated, target, *shares, adapts=True)
    grouped = promise(ACCURACY, *repeated, target, *shares, copies, adapts=True)
    assert naive.prior.error < alone.prior.error / 4
    assert grouped.prior.error == pytest.approx(alone.prior.error, rel=0.1)


def test_uncertain_shares_add_to_the_error():
    validation, target, shares, _ = gathered(np.random.default_rng(4), 1000)
    unsure = shares[0], 0.01 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    one, other = (
        promise(ACCURACY, *validation, target, *known, adapts=True) for known in (shares, unsure)
    )
    assert other.prior.error > one.prior.error
    assert other.covariate == one.covariate


def test_log_loss_counts_every_row():
    validation, target, shares, _ = gathered(np.random.default_rng(5), 1000)
    found = promise(Goal("log_loss"), *validation, target, *shares, adapts=False)
    Q, P = target.calibrated, target.y_proba
    assert found.covariate.mean == pytest.approx((Q * np.log(Q / P)).sum(axis=1).mean(), rel=1e-6)
    assert found.covariate.mean > 0
