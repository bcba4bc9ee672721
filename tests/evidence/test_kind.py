"""How much of a change the class balance explains: simulated shifts of either kind, invariances."""

import numpy as np
import pytest

from priorshift.evidence import explain_by_priors

MEANS = np.array([[1.5, 0.0], [0.0, 1.5], [-1.0, -1.0]])
EVEN = np.full(3, 1 / 3)


def classifier(x):
    z = x @ MEANS.T
    P = np.exp(z - z.max(axis=1, keepdims=True))
    return P / P.sum(axis=1, keepdims=True)


def by_class(rng, n, shares):
    y = rng.choice(3, n, p=shares)
    return classifier(MEANS[y] + rng.normal(size=(n, 2))), y


@pytest.mark.parametrize("shares", [[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]])
def test_prior_shift_is_explained(shares):
    rng = np.random.default_rng(0)
    P, y = by_class(rng, 3000, EVEN)
    found = [explain_by_priors(P, y, by_class(rng, 2000, shares)[0], EVEN) for _ in range(20)]
    assert np.mean([one.explained for one in found]) > 0.93
    assert np.mean([one.high >= 0.99 for one in found]) > 0.85
    assert np.mean([one.unexplained for one in found]) < 0.06


def test_a_shift_within_classes_is_not():
    rng = np.random.default_rng(1)
    P, y = by_class(rng, 3000, EVEN)
    y_target = rng.choice(3, 2000)
    moved = classifier(1.8 * MEANS[y_target] + 0.5 * rng.normal(size=(2000, 2)))
    found = explain_by_priors(P, y, moved, EVEN)
    assert found.explained < 0.3
    assert found.high < 0.5
    assert found.unexplained > 0.1


def test_no_change_is_none_about_as_often_as_noise_allows():
    rng = np.random.default_rng(2)
    values = []
    for _ in range(60):
        P, y = by_class(rng, 800, EVEN)
        values.append(explain_by_priors(P, y, by_class(rng, 700, EVEN)[0], EVEN).explained)
    assert np.mean([value is None for value in values]) > 0.9


def test_noise_is_taken_off():
    """Where nothing changed, the distance is 0 on average, and its spread is as stated."""
    rng = np.random.default_rng(3)
    pool, _ = by_class(rng, 200_000, EVEN)
    reference, label = by_class(rng, 200_000, EVEN)
    found = []
    for _ in range(80):
        i, j = rng.integers(200_000, size=500), rng.integers(200_000, size=500)
        found.append(explain_by_priors(reference[i], label[i], pool[j], EVEN).unexplained)
    assert np.mean(2 * np.square(found)) < 0.01  # never below 0; about .02 with the noise in it


def test_the_interval_holds_what_large_samples_show():
    rng = np.random.default_rng(4)

    def target(n):
        y = rng.choice(3, n, p=[0.15, 0.25, 0.6])
        return classifier(MEANS[y] + rng.normal(size=(n, 2)) + 0.4)

    def validation(n):
        return by_class(rng, n, EVEN)

    truth = explain_by_priors(*validation(50_000), target(50_000), EVEN).explained
    held = []
    for _ in range(40):
        _, low, high, *_ = explain_by_priors(*validation(1500), target(1200), EVEN)
        held.append(low <= truth <= high)
    assert np.mean(held) > 0.85


def test_order_of_rows_and_classes_does_not_matter():
    rng = np.random.default_rng(5)
    P, y = by_class(rng, 900, EVEN)
    T, _ = by_class(rng, 700, [0.2, 0.2, 0.6])
    turned = np.array([2, 0, 1])
    back = np.argsort(turned)
    one = explain_by_priors(P, y, T, EVEN)
    rows = rng.permutation(900)
    other = explain_by_priors(P[rows][:, turned], back[y[rows]], T[::-1][:, turned], EVEN)
    assert other.explained == pytest.approx(one.explained, abs=1e-6)
    assert other[1:3] == pytest.approx(one[1:3], abs=1e-6)


def test_two_classes_a_missing_class_and_ties():
    rng = np.random.default_rng(6)
    y = rng.integers(2, size=2000)
    score = np.round(1 / (1 + np.exp(-rng.normal(2 * y - 1))), 1)  # a few values only
    P = np.column_stack([1 - score, score])
    target = np.concatenate([P[y == 1][:800], P[y == 0][:100]])
    assert explain_by_priors(P, y, target, np.full(2, 0.5)).explained > 0.9
    three = np.column_stack([P, np.zeros(len(P))])
    found = explain_by_priors(three, y, three[:900], np.array([0.5, 0.5, 0.0]))
    assert found.explained is None
