"""Alarms: rarely false over all time, soon where something changed."""

import numpy as np
import pytest
from scipy import stats

from priorshift.statistics import Confusion
from priorshift.streaming._alarm import Alarm, source_decisions
from priorshift.streaming._e_process import (
    VARIANCES,
    batch_scores,
    log_evidence,
    log_stakes,
    n_scores,
    normal_scores,
)
from priorshift.streaming._past import DyadicPools

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
    monkeypatch.setattr("priorshift.streaming._e_process.MAX_TERMS", 64)
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


def test_an_alarm_follows_one_stream_as_many_are_followed(rng):
    q = np.array([0.5, 0.3, 0.2])
    batches = rng.multinomial(40, q, size=(30, 1)).astype(float)
    reference = rng.multinomial(100, q).astype(float)
    alarm = Alarm.against(reference, np.log(20), seed=5)
    before, sums, rows = reference, np.zeros((30, 1, n_scores(3))), np.zeros(30)
    for t, counts in enumerate(batches[:, 0]):
        alarm = alarm.add(counts)
        scores = batch_scores(counts, before, np.random.default_rng([5, 0, t]))
        sums[: t + 1] += np.sqrt(40) * scores
        rows[: t + 1] += 40
        before = before + counts
    alive = alarm.pools.starts
    found = log_evidence(alive, sums[alive], rows[alive], 3)
    assert alarm.log_e_value == pytest.approx(float(found[0]))


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


@pytest.mark.parametrize(("change_at", "most"), [(0, 4), (60, 4)])
def test_a_shift_is_noticed_soon(change_at, most, rng):
    before, after = np.array([0.5, 0.3, 0.2]), np.array([0.3, 0.3, 0.4])
    delays = []
    for seed in range(10):
        alarm = Alarm.against(rng.multinomial(1000, before).astype(float), np.log(20), seed)
        for t in range(change_at + 30):
            counts = rng.multinomial(100, after if t >= change_at else before)
            alarm = alarm.add(counts.astype(float))
            if alarm.standing:
                break
        delays.append(t - change_at + 1)
    assert min(delays) >= 1
    assert np.median(delays) <= most


def test_one_class_among_many_is_noticed(rng):
    K = 100
    before = np.full(K, 1 / K)
    after = before + 0.1 * (np.eye(K)[7] - before)
    alarm = Alarm.against(rng.multinomial(5000, before).astype(float), np.log(20), 0)
    for _ in range(5):
        alarm = alarm.add(rng.multinomial(200, before).astype(float))
    assert not alarm.standing
    for _ in range(3):
        alarm = alarm.add(rng.multinomial(200, after).astype(float))
    assert alarm.standing


def test_an_acknowledged_shift_is_the_new_normal(rng):
    first, second = np.array([0.7, 0.3]), np.array([0.3, 0.7])
    alarm = Alarm.against(rng.multinomial(500, first).astype(float), np.log(20), 3)
    for _ in range(20):
        alarm = alarm.add(rng.multinomial(100, second).astype(float))
    assert alarm.standing
    alarm = alarm.acknowledge()
    assert not alarm.standing
    assert alarm.run == 1
    assert alarm.before.sum() > 1000  # what came since the alarm
    for _ in range(50):
        alarm = alarm.add(rng.multinomial(100, second).astype(float))
    assert not alarm.standing
    for _ in range(5):
        alarm = alarm.add(rng.multinomial(100, first).astype(float))
    assert alarm.standing


def test_source_decisions_are_validation_itself_without_label_priors(rng):
    counts = np.array([[30.0, 2.0], [10.0, 58.0]])
    confusion = Confusion(counts, counts.sum(axis=0), "hard", 100)
    found = source_decisions(confusion, None, np.arange(2), rng)
    np.testing.assert_array_equal(found, [32, 68])


def test_source_decisions_follow_the_label_priors(rng):
    counts = np.array([[4500.0, 500.0], [500.0, 4500.0]])
    confusion = Confusion(counts, counts.sum(axis=0), "hard", 10_000)
    priors = np.array([0.8, 0.2])
    draws = np.array([source_decisions(confusion, priors, np.arange(2), rng) for _ in range(50)])
    expected = confusion.conditional @ priors
    share = draws[:, 0] / draws.sum(axis=1)
    assert share.mean() == pytest.approx(expected[0], abs=0.003)
    # about 5000 / 0.8 rows can be drawn, and no class gives more than it has
    assert 5500 < draws.sum(axis=1).min() <= draws.sum(axis=1).max() <= 6250
    spread = np.sqrt(expected[0] * expected[1] / draws.sum(axis=1).mean())
    assert 0.5 * spread < share.std() < 1.5 * spread


def test_few_rows_of_a_class_are_warned_of(rng):
    counts = np.array([[1000.0, 2.0], [0.0, 3.0]])
    confusion = Confusion(counts, counts.sum(axis=0), "hard", 1005)
    with pytest.warns(UserWarning, match=r"validation rows drawn as the source was \(class 'b'"):
        source_decisions(confusion, np.array([0.1, 0.9]), np.array(["a", "b"]), rng)
