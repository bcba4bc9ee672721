"""What monitoring promises: errors of the estimates, false alarms, and how soon a true one comes.

    python -m lab monitor [--part error level delay] [--streams 200]

An alarm hears nothing but how often each class is decided for, so simulated streams are draws of
decisions. Real ones are the decisions of our own networks on test images, re-split in every stream,
without replacement, into validation and batches.
"""

import warnings
from collections.abc import Iterator

import numpy as np

import priorshift as ps
from lab.pools import Pool, own_network
from lab.show import head, parse, row
from lab.worlds import class_means, draw, tail

LEVELS = (0.05, 0.5)
BATCHES = 200
CHANGE = 30
SHIFTS = (0.1, 0.2, 0.4)
NETWORKS = {"Fashion-MNIST": "fashion-mnist-LT450-0", "CIFAR-10": "cifar-10-LT450-0"}


def main(arguments: list[str] | None = None) -> None:
    """Print one table a part."""
    parts = {"error": error_table, "level": level_table, "delay": delay_table}
    options = parse(__doc__, arguments, part=tuple(parts), streams=200)
    warnings.simplefilter("ignore", ps.PriorShiftWarning)
    pools = {}
    for name, network in NETWORKS.items():
        y_proba, y = own_network(network, "test")
        pools[name] = y_proba.argmax(axis=1), y
    for part in options.part:
        parts[part](options.streams, pools)


def error_table(_: int, __: dict[str, Pool], n_classifiers: int = 4) -> None:
    """Print the L1 error of the priors by how the past is weighed."""
    ways = {
        "flh-ftl": {},
        "window of 10": {"online": "window", "window": 10},
        "window of 30": {"online": "window", "window": 30},
        "everything": {"online": "window", "window": 120},
    }
    streams = {
        "nothing changes": np.zeros(120),
        "one change, half way": np.repeat([0.0, 1.0], 60),
        "slow drift": np.linspace(0, 1, 120),
    }
    head("120 batches of 100 rows, 10 classes, L1 error of the priors", "stream", *ways)
    for stream, shares in streams.items():
        errors = {way: [] for way in ways}
        for seed in range(n_classifiers):
            rng = np.random.default_rng(seed)
            means, ends = class_means(10, rng), rng.dirichlet(np.ones(10), 2)
            uniform = np.full(10, 0.1)

            def rows(priors, n, rng=rng, means=means, uniform=uniform):
                y = rng.choice(10, n, p=priors)
                return draw(means, uniform, y, rng), y

            validation = rows(uniform, 2000)
            monitors = {
                way: ps.PriorMonitor(**weighs).fit(*validation, source_priors=uniform)
                for way, weighs in ways.items()
            }
            for share in shares:
                priors = (1 - share) * ends[0] + share * ends[1]
                batch, _y = rows(priors, 100)
                for way, monitor in monitors.items():
                    step = monitor.update(batch, adapt=False)
                    errors[way].append(np.abs(step.priors - priors).sum())
        row(stream, *(f"{np.mean(error):.3f}" for error in errors.values()))


def level_table(n_streams: int, pools: dict[str, Pool]) -> None:
    """Print how many streams without a change have an alarm at any time."""
    title = f"Share of {n_streams} streams without a change that have an alarm at any time"
    columns = ("classes", "validation rows", "rows per batch", "batches", "level 0.05", "level 0.5")
    head(title, *columns)
    cases = [
        ("2", np.array([0.5, 0.5]), 20, 20),
        ("2, one of them 0.5 %", np.array([0.995, 0.005]), 1000, 100),
        ("10, a long tail", tail(10, 100.0), 50, 50),
        ("100, a long tail", tail(100, 100.0), 500, 500),
    ]
    for name, q, n_val, n_rows in cases:
        sizes = [n_val] + [n_rows] * BATCHES

        def simulated(seed: int, q: np.ndarray = q, sizes: list[int] = sizes) -> list[np.ndarray]:
            counts = np.random.default_rng(seed).multinomial(sizes, q)
            return [np.repeat(np.arange(q.size), of_batch) for of_batch in counts]

        print_level(name, q.size, sizes, map(simulated, range(n_streams)))
    for (name, (decisions, _)), (n_val, n_rows) in zip(
        pools.items(), ((500, 100), (2000, 50)), strict=True
    ):
        sizes = [n_val] + [n_rows] * ((decisions.size - n_val) // n_rows)
        streams = (
            np.split(np.random.default_rng(seed).permutation(decisions), np.cumsum(sizes))[:-1]
            for seed in range(n_streams)
        )
        print_level(name, 10, sizes, streams)


def print_level(name: str, K: int, sizes: list[int], streams: Iterator[list[np.ndarray]]) -> None:
    """Print a row of the table of false alarms."""
    least = np.array([list(p_values(stream, K, at))[-1] for at, stream in enumerate(streams)])
    shares = (f"{np.mean(least <= level):.3f}" for level in LEVELS)
    row(name, sizes[0], sizes[1], len(sizes) - 1, *shares)


def p_values(stream: list[np.ndarray], K: int, seed: int) -> Iterator[float]:
    """Yield the p-value after every batch of decisions; the first batch is validation.

    Alarms draw at random, so every stream has its own seed; the fastest method estimates, as
    alarms do not look at that.
    """
    validation, *batches = stream
    monitor = ps.PriorMonitor(ps.CM(), online="window", window=1, random_state=seed)
    labels = np.arange(validation.size) % K  # of every class some: alarms do not look at them
    monitor.fit(y_pred=validation, y=labels, classes=np.arange(K))
    for batch in batches:
        yield monitor.update(y_pred=batch).p_value


def delay_table(n_streams: int, pools: dict[str, Pool]) -> None:
    """Print after how many batches a change is noticed."""
    title = f"Batches until the alarm, median of {n_streams} streams with a change at {CHANGE}"
    head(title, "", *SHIFTS)
    for name, pool in pools.items():
        found = ([delay(pool, shift, seed) for seed in range(n_streams)] for shift in SHIFTS)
        medians = (np.median(delays) for delays in found)
        row(name, *(f"{median:g}" if median < np.inf else "more than 100" for median in medians))


def delay(pool: Pool, shift: float, seed: int, n_val: int = 2000, n_rows: int = 100) -> float:
    """Return how many batches after the change the alarm is raised; inf if within 100 it is not."""
    decisions, y = pool
    rng = np.random.default_rng(seed)
    rows = rng.permutation(y.size)
    *before, rest = np.split(rows, n_val + n_rows * np.arange(CHANGE + 1))
    priors = moved(np.bincount(y, minlength=10) / y.size, shift, rng)
    after = rest[ps.sample_indices(y[rest], priors, 100 * n_rows, random_state=seed)]
    stream = [decisions[part] for part in (*before, *np.split(after, 100))]
    numbered = enumerate(p_values(stream, 10, seed), 1 - CHANGE)
    return next((float(number) for number, p in numbered if p <= LEVELS[0]), np.inf)


def moved(priors: np.ndarray, shift: float, rng: np.random.Generator) -> np.ndarray:
    """Return priors at a total variation of `shift`: half of the classes, at random, gain it."""
    gain = rng.permutation(priors.size) < priors.size // 2
    if priors[~gain].sum() <= shift:
        gain = ~gain
    up, down = (np.where(side, priors, 0) / priors[side].sum() for side in (gain, ~gain))
    return priors + shift * (up - down)
