"""The corrections of docs/guides/from-other-libraries.md, by hand: no other library is needed."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

import priorshift as ps

CELLS = 12
"""Values of the only feature: a classifier that counts them is exact."""


@pytest.fixture
def table():
    """Rows per value and class, shape (CELLS, 3): class 2 is rare."""
    rng = np.random.default_rng(0)
    return rng.multinomial(50_000, rng.dirichlet(np.full(CELLS * 3, 0.8))).reshape(CELLS, 3) + 1.0


def posterior(counts):
    return counts / counts.sum(axis=1, keepdims=True)


def shares(counts):
    return counts.sum(axis=0) / counts.sum()


def test_scale_pos_weight(table):
    counts, w = table[:, [0, 2]], 17.0
    real, share = posterior(counts)[:, 1], shares(counts)[1]
    q = posterior(counts * [1.0, w])[:, 1]  # positive rows count w times
    trained = w * share / (w * share + 1 - share)
    found = ps.adapt_proba(q, source_priors=trained, target_priors=share)
    np.testing.assert_allclose(found, real, rtol=1e-10)
    np.testing.assert_allclose(q / (q + w * (1 - q)), real, rtol=1e-10)


def test_class_weights(table):
    weights = np.array([0.3, 2.0, 25.0])
    labels = np.repeat(np.arange(3), table.sum(axis=0).astype(int))
    q = posterior(table * weights)
    trained = ps.priors_from_labels(labels, sample_weight=weights[labels])
    np.testing.assert_allclose(trained, shares(table * weights), rtol=1e-12)
    found = ps.adapt_proba(q, trained, ps.priors_from_labels(labels))
    np.testing.assert_allclose(found, posterior(table), rtol=1e-10)


def test_balanced_class_weights(table):
    balanced = table.sum() / (3 * table.sum(axis=0))  # scikit-learn's formula
    q = posterior(table * balanced)
    found = ps.adapt_proba(q, np.full(3, 1 / 3), shares(table))
    np.testing.assert_allclose(found, posterior(table), rtol=1e-10)


def test_outputs_divided_by_training_shares(table):
    balanced = posterior(table) / shares(table)  # as TabPFN does, then normalised
    balanced /= balanced.sum(axis=1, keepdims=True)
    found = ps.adapt_proba(balanced, np.full(3, 1 / 3), shares(table))
    np.testing.assert_allclose(found, posterior(table), rtol=1e-10)


def test_undersampled_rows():
    """Drawn rows, so right on average: corrected shares of cells are the real ones within noise."""
    rng = np.random.default_rng(1)
    y = (rng.random(400_000) < 0.02).astype(int)
    x = rng.binomial(CELLS - 1, 0.3 + 0.3 * y)
    kept = np.flatnonzero((y == 1) | (rng.random(y.size) < 0.04))
    counts = np.zeros((CELLS, 2))
    np.add.at(counts, (x[kept], y[kept]), 1)
    q = posterior(np.maximum(counts, 1e-9))[:, 1]
    found = ps.adapt_proba(q, source_priors=y[kept].mean(), target_priors=y.mean())
    assert found[x].mean() == pytest.approx(y.mean(), rel=0.05)
    assert q[x].mean() > 5 * y.mean()
    odds = np.log(0.02 / 0.98) + np.arange(CELLS) * np.log(0.6 / 0.3)
    odds += (CELLS - 1 - np.arange(CELLS)) * np.log(0.4 / 0.7)
    usual = counts.min(axis=1) > 200
    assert np.count_nonzero(usual) >= 4
    np.testing.assert_allclose(found[usual], (1 / (1 + np.exp(-odds)))[usual], rtol=0.15)


def test_boosted_trees_with_weighted_positives():
    """`scale_pos_weight` is a weight of the positive rows, and so it is here."""
    rng = np.random.default_rng(2)

    def draw(n):
        y = (rng.random(n) < 0.05).astype(int)
        return rng.normal(size=(n, 2)) + y[:, None], y

    (X, y), (X_new, y_new), w = draw(40_000), draw(40_000), 19.0
    model = HistGradientBoostingClassifier(max_iter=40, max_leaf_nodes=8, random_state=0)
    model.fit(X, y, sample_weight=np.where(y == 1, w, 1.0))
    q, share = model.predict_proba(X_new)[:, 1], y.mean()
    found = ps.adapt_proba(q, w * share / (w * share + 1 - share), share)
    real = 1 / (1 + (0.95 / 0.05) * np.exp(1 - X_new.sum(axis=1)))
    assert q.mean() > 4 * y_new.mean()
    assert found.mean() == pytest.approx(y_new.mean(), rel=0.1)
    assert np.abs(found - real).mean() < 0.012
