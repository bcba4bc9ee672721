"""The evidence behind an alarm: exact scores, fair bets, a level that holds over all time."""

import numpy as np
import pytest
from scipy import stats

from priorshift.monitor._alarm import (
    VARIANCES,
    batch_scores,
    log_evidence,
    log_stakes,
    n_scores,
    normal_scores,
)
from priorshift.monitor._past import DyadicPools

LEVEL = 0.2
"""High, so that a test whose level is not kept is found out with few streams."""


def largest_evidence(batches, references, rng):
    """Return the largest log-evidence of each stream, all followed at once.

    `batches` has the shape (n_batches, n_streams, n_classes).
    """
    K, rows = batches.shape[-1], batches[0, 0].sum()
    before, largest = references, np.full(len(references), -np.inf)
    pools = DyadicPools.empty(len(references) * n_scores(K) + 1)
    for counts in batches:
        scores = np.sqrt(rows) * batch_scores(counts, before, rng)
        pools, before = pools.add(np.append(scores.ravel(), rows)), before + counts
        sums = pools.sums[:, :-1].reshape(-1, len(references), n_scores(K))
        found = log_evidence(pools.starts, sums, pools.sums[:, -1], K)
        largest = np.maximum(largest, found)
    return largest


@pytest.mark.parametrize("rows", [3, 40, 3000])
def test_scores_are_those_of_the_hypergeometric_distribution(rng, rows):
    total = rng.integers(1, rows, 60)
    of_kind, draws = rng.binomial(total, 0.3), rng.binomial(total, rng.random(60))
    drawn, u = rng.hypergeometric(of_kind, total - of_kind, draws), rng.random(60)
    scores = normal_scores(*(v.astype(float) for v in (drawn, of_kind, draws, total)), u)
    law = stats.hypergeom(total, of_kind, draws)
    np.testing.assert_allclose(stats.norm.cdf(scores), law.cdf(drawn - 1) + u * law.pmf(drawn))


def test_scores_are_right_far_into_the_tails():
    one = np.ones(1)
    score = normal_scores(90 * one, 1000 * one, 100 * one, 10_000 * one, 0 * one)
    log_tail = stats.hypergeom(10_000, 1000, 100).logsf(89)
    np.testing.assert_allclose(stats.norm.logsf(score), log_tail, rtol=1e-6)
    assert np.isfinite(normal_scores(500 * one, 500 * one, 500 * one, 1e6 * one, one)).all()


def test_summing_tails_in_parts_changes_nothing(rng, monkeypatch):
    total = rng.integers(500, 900, 30).astype(float)
    of_kind, draws = np.floor(total / 3), np.floor(total / 4)
    given = np.floor(draws / 3), of_kind, draws, total, rng.random(30)
    whole = normal_scores(*given)
    monkeypatch.setattr("priorshift.monitor._alarm.MAX_TERMS", 64)
    np.testing.assert_allclose(normal_scores(*given), whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("K", [2, 3, 5])
def test_scores_of_an_unchanged_stream_are_independent_standard_normals(K, rng):
    n_streams, q = 5000, rng.dirichlet(np.ones(K))
    before, scores = rng.multinomial(12, q, size=n_streams).astype(float), []
    for n in (5, 9, 20):
        counts = rng.multinomial(n, q, size=n_streams).astype(float)
        scores.append(batch_scores(counts, before, rng))
        before = before + counts
    every = np.concatenate(scores, axis=1)
    p_values = [stats.kstest(column, "norm").pvalue for column in every.T]
    assert min(p_values) > 0.01 / len(p_values)
    n_tree = n_scores(K) - (K if K > 2 else 0)
    tree = np.concatenate([part[:, :n_tree] for part in scores], axis=1)
    for values in (tree, tree**2):
        correlation = np.corrcoef(values.T)[np.triu_indices(tree.shape[1], 1)]
        assert np.abs(correlation).max() < 4.5 / np.sqrt(n_streams)


def test_evidence_is_the_mixture_of_gaussian_likelihood_ratios():
    """Integrate over the mean numerically: no closed form shared with the library."""
    n, z = np.array([10.0, 30.0, 20.0]), np.array([0.5, 2.0, 1.0])
    starts, expected = np.arange(3), 0.0
    for start in starts:
        rows, scores = n[start:], z[start:]
        for variance in VARIANCES:
            theta = np.sqrt(variance) * np.linspace(-10, 10, 20_001)
            terms = np.outer(theta, np.sqrt(rows)) * scores - np.outer(theta**2, rows) / 2
            prior = stats.norm.pdf(theta, scale=np.sqrt(variance))
            value = (np.exp(terms.sum(axis=1)) * prior).sum() * (theta[1] - theta[0])
            expected += np.exp(log_stakes(starts[[start]]))[0] * value / VARIANCES.size
    sums = np.array([(np.sqrt(n) * z)[start:].sum() for start in starts])[:, None, None]
    found = log_evidence(starts, sums, np.array([n[start:].sum() for start in starts]), 2)
    np.testing.assert_allclose(np.exp(found), expected, rtol=1e-6)


def test_stakes_sum_to_at_most_one():
    total = np.exp(log_stakes(np.arange(1_000_000))).sum()
    assert 0.95 < total <= 1


@pytest.mark.parametrize(
    ("K", "n_val", "n_batch"), [(2, 5, 20), (2, 300, 50), (4, 30, 40), (8, 20, 60)], ids=str
)
def test_the_chance_of_ever_alarming_is_at_most_the_level(K, n_val, n_batch):
    """200 batches: a p-value a batch, against validation, is below the level at some time."""
    rng, n_streams = np.random.default_rng(K * n_val), 100
    q = rng.dirichlet(np.ones(K), size=n_streams)
    batches = np.array([rng.multinomial(n_batch, p, size=200) for p in q], dtype=float)
    references = np.array([rng.multinomial(n_val, p) for p in q], dtype=float)
    found = largest_evidence(batches.transpose(1, 0, 2), references, rng)
    for level in (0.5, LEVEL, 0.05):
        false = (found >= -np.log(level)).sum()
        assert stats.binom.sf(false - 1, n_streams, level) > 0.01
    share = (references[:, :1] + 0.5) / (n_val + 1)
    spread = np.sqrt(n_batch * share * (1 - share) * (1 + n_batch / n_val))
    repeated = stats.norm.sf(np.abs(batches[..., 0] - n_batch * share) / spread) * 2
    assert np.mean(repeated.min(axis=1) < LEVEL) > 0.6
