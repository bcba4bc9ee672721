"""Windows, fading weights and FLH-FTL: what they are by hand, and how they follow a change."""

import numpy as np
import pytest

from priorshift.monitor._past import ONLINE, DyadicPools, Past


def follow(online, batches, window=10):
    """Return the frequencies after every batch."""
    past, found = Past.empty(batches.shape[1]), []
    for counts in batches:
        past = past.add(counts, window=window, half_life=5.0)
        pooled = past.pooled(online)
        found.append(pooled / pooled.sum())
    return np.array(found)


def running_mean(batches):
    totals = np.cumsum(batches, axis=0)
    return totals / totals.sum(axis=1, keepdims=True)


def draw(path, n, rng):
    return np.array([rng.multinomial(n, q) for q in path], dtype=float)


@pytest.fixture
def batches(rng):
    return rng.integers(1, 30, (40, 3)).astype(float)


def test_pools_hold_what_came_since_their_start(batches):
    pools = DyadicPools.empty(3)
    for counts in batches:
        pools = pools.add(counts)
    for start, total in zip(pools.starts, pools.sums, strict=True):
        np.testing.assert_array_equal(total, batches[start:].sum(axis=0))
    assert pools.n_batches == 40


def test_pools_are_few_and_of_all_lengths():
    pools = DyadicPools.empty(1)
    for t in range(3000):
        pools = pools.add(np.ones(1))
        assert pools.starts.size <= 4 * np.log2(t + 2) + 2
        assert pools.starts[0] == 0
    lengths = pools.n_batches - pools.starts
    for wanted in (1, 2, 5, 30, 200, 1500):
        longest = lengths[lengths <= wanted].max()
        assert longest >= wanted / 4


def test_a_window_is_its_last_batches(batches):
    found = follow("window", batches, window=4)
    expected = batches[-4:].sum(axis=0)
    np.testing.assert_allclose(found[-1], expected / expected.sum())


def test_weights_halve_every_half_life(batches):
    past = Past.empty(3)
    for counts in batches:
        past = past.add(counts, window=5, half_life=3.0)
    age = 39 - np.arange(40)
    np.testing.assert_allclose(past.pooled("exponential"), (2 ** (-age / 3.0)) @ batches)


def test_leading_history_weights_are_follow_the_leading_history(batches):
    """The algorithm again, in plain Python: one dictionary of learners, no arrays of pools."""
    past, weights, squares, last = Past.empty(3), {}, 0.0, None
    for t, counts in enumerate(batches):
        n = counts.sum()
        if t:
            m = last.sum()
            found = ((counts / n - last / m) ** 2).sum() / (1 / n + 1 / m)
            squares += found if t < 2 else min(found, 4 * squares / (t - 1))
            for start in weights:
                pool = batches[start:t].sum(axis=0)
                loss = ((pool / pool.sum() - counts / n) ** 2).sum()
                weights[start] *= np.exp(-n * loss / (2 * squares / t))
            total = sum(weights.values())
            power = {s: s & -s for s in weights}
            weights = {
                s: w / total * t / (t + 1)
                for s, w in weights.items()
                if s == 0 or t < s + 4 * power[s]
            }
        weights[t] = 1 / (t + 1)
        total = sum(weights.values())
        weights = {s: w / total for s, w in weights.items()}
        past, last = past.add(counts, window=1, half_life=5.0), counts
        assert past.pools.starts.tolist() == list(weights)
        found, expected = np.exp(past.log_weights), list(weights.values())
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-300)


@pytest.mark.parametrize("way", ["flh-ftl", "window", "exponential"])
def test_classes_may_come_in_any_order(way, batches, rng):
    order = rng.permutation(3)
    pasts, how = [Past.empty(3), Past.empty(3)], {"window": 5, "half_life": 4.0}
    for counts in batches:
        pasts = [pasts[0].add(counts, **how), pasts[1].add(counts[order], **how)]
    np.testing.assert_allclose(pasts[1].pooled(way), pasts[0].pooled(way)[order])
    assert ONLINE == ("flh-ftl", "window", "exponential")


def test_flh_ftl_forgets_what_was_before_a_change_and_nothing_else(rng):
    """Squared error against the truth: near the running mean in quiet times, far better after."""
    before, after = np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.3, 0.5])
    changed = np.array([before] * 60 + [after] * 60)
    errors = {
        "flh": [],
        "mean": [],
        "window": [],
        "flh quiet": [],
        "window quiet": [],
        "mean quiet": [],
    }
    for _ in range(12):
        for name, path in (("", changed), (" quiet", np.array([before] * 120))):
            batches = draw(path, 100, rng)
            for way, found in {
                "flh": follow("flh-ftl", batches),
                "window": follow("window", batches),
                "mean": running_mean(batches),
            }.items():
                errors[way + name].append(((found - path) ** 2).sum(axis=1)[10:].mean())
    mean = {name: np.mean(values) for name, values in errors.items()}
    assert mean["flh"] < 0.15 * mean["mean"]
    assert mean["flh"] < 0.6 * mean["window"]
    assert mean["flh quiet"] < 0.5 * mean["window quiet"]
    assert mean["flh quiet"] < 3 * mean["mean quiet"]


def test_flh_ftl_has_little_regret_against_the_best_pieces(rng):
    """Regret to the piecewise means in hindsight grows with the pieces, not with the time."""
    shares = np.array([[0.8, 0.2], [0.3, 0.7], [0.6, 0.4], [0.1, 0.9]])
    path = np.repeat(shares, 100, axis=0)
    batches = draw(path, 50, rng)
    frequencies = batches / 50
    played = follow("flh-ftl", batches)[:-1]  # what is known before the next batch
    loss = ((played - frequencies[1:]) ** 2).sum()
    pieces = frequencies.reshape(4, 100, 2)
    best = ((pieces - pieces.mean(axis=1, keepdims=True)) ** 2).sum()
    mean = ((running_mean(batches)[:-1] - frequencies[1:]) ** 2).sum()
    assert loss - best < 0.1 * (mean - best)


def test_batches_that_are_all_alike_do_no_harm():
    past = Past.empty(2)
    for _ in range(30):
        past = past.add(np.array([3.0, 1.0]), window=10, half_life=5.0)
    pooled = past.pooled("flh-ftl")
    np.testing.assert_allclose(pooled / pooled.sum(), [0.75, 0.25])
    assert np.exp(past.log_weights).sum() == pytest.approx(1)
