"""What monitoring promises: errors of the estimates, false alarms, and how soon a true one comes.

python -m benchmarks.monitor [--part error level delay] [--streams 200] [--data ../shared/data]

An alarm hears nothing but how often each class is decided for, so simulated streams are draws of
decisions. Real ones are the decisions of stored outputs, re-split in every stream, without
replacement, into validation and batches.
"""

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

import priorshift as ps
from benchmarks.simulation import _draw
from priorshift.monitor._alarm import Alarm

LEVELS = (0.05, 0.5)
BATCHES = 200
CHANGE = 30
SHIFTS = (0.1, 0.2, 0.4)
POOLS = {
    "MNIST, AdaBoost": ("mnist_probs_pycalib.npz", "AdaBoost__probs", "y"),
    "CIFAR-10-LT": (
        "cifar10lt_logits_4nets.npz",
        "resnet110__val_lt_logits",
        "resnet110__val_lt_y",
    ),
}


def main() -> None:
    """Print one Markdown table a part."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parts = {"error": error_table, "level": level_table, "delay": delay_table}
    parser.add_argument("--part", nargs="+", default=list(parts), choices=list(parts))
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), metavar="FOLDER")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ps.PriorShiftWarning)
    for part in options.part:
        parts[part](options.streams, dict(read_pools(options.data)))


@dataclass(frozen=True)
class Pool:
    """Hard decisions and labels of a real classifier."""

    decisions: np.ndarray
    y: np.ndarray

    def counts(self, rows: np.ndarray) -> np.ndarray:
        """Count the decisions on some rows."""
        return np.bincount(self.decisions[rows], minlength=10).astype(float)


def read_pools(folder: Path) -> Iterator[tuple[str, Pool]]:
    """Yield the pools that the folder has."""
    for name, (file, outputs, y) in POOLS.items():
        if (path := folder / file).exists():
            with np.load(path) as z:
                yield name, Pool(z[outputs].argmax(axis=1), z[y].astype(int))


# Estimates


def error_table(_: int, __: dict[str, Pool], n_classifiers: int = 4) -> None:
    """Print the L1 error of the priors by how the past is weighed."""
    ways = {
        "flh-ftl": {},
        "window of 10": {"online": "window", "window": 10},
        "window of 30": {"online": "window", "window": 30},
        "everything": {"online": "window", "window": 120},
    }
    print("\n120 batches of 100 rows, 10 classes, L1 error of the priors\n")
    print(f"| stream | {' | '.join(ways)} |\n|---|{'---|' * len(ways)}")
    for stream in ("nothing changes", "one change, half way", "slow drift"):
        errors = {way: [] for way in ways}
        for seed in range(n_classifiers):
            rng = np.random.default_rng(seed)
            means = 1.6 * rng.standard_normal((10, 6)) / 6**0.25
            ends = rng.dirichlet(np.ones(10), 2)
            uniform = np.full(10, 0.1)
            validation = _draw(means, uniform, uniform, 2000, rng)
            monitors = {
                way: ps.PriorMonitor(**weighs).fit(*validation, source_priors=uniform)
                for way, weighs in ways.items()
            }
            for share in shares_of(stream):
                priors = (1 - share) * ends[0] + share * ends[1]
                batch, _y = _draw(means, uniform, priors, 100, rng)
                for way, monitor in monitors.items():
                    step = monitor.update(batch, adapt=False)
                    errors[way].append(np.abs(step.priors - priors).sum())
        row = " | ".join(f"{np.mean(error):.3f}" for error in errors.values())
        print(f"| {stream} | {row} |", flush=True)


def shares_of(stream: str) -> np.ndarray:
    """Return how far each batch is on the way from the first priors to the second."""
    if stream == "nothing changes":
        return np.zeros(120)
    return np.repeat([0.0, 1.0], 60) if "one change" in stream else np.linspace(0, 1, 120)


# Alarms


def level_table(n_streams: int, pools: dict[str, Pool]) -> None:
    """Print how many streams without a change have an alarm at any time."""
    print(f"\nShare of {n_streams} streams without a change that have an alarm at any time\n")
    print("| classes | validation rows | rows per batch | batches | level 0.05 | level 0.5 |")
    print("|---|---|---|---|---|---|")
    tail = [100.0 ** (-np.arange(K) / (K - 1)) for K in (10, 100)]
    cases = [
        ("2", np.array([0.5, 0.5]), 20, 20),
        ("2, one of them 0.5 %", np.array([0.995, 0.005]), 1000, 100),
        ("10, a long tail", tail[0], 50, 50),
        ("100, a long tail", tail[1], 500, 500),
    ]
    for name, weights, n_val, n_rows in cases:
        q = weights / weights.sum()
        streams = (
            np.random.default_rng(s).multinomial([n_val] + [n_rows] * BATCHES, q).astype(float)
            for s in range(n_streams)
        )
        print_level(name, n_val, n_rows, BATCHES, [least_p_value(counts) for counts in streams])
    for name, n_val, n_rows in (("MNIST, AdaBoost", 500, 100), ("CIFAR-10-LT", 2000, 50)):
        if name in pools:
            n_batches = (pools[name].y.size - n_val) // n_rows
            streams = (quiet(pools[name], n_val, n_rows, n_batches, s) for s in range(n_streams))
            found = [least_p_value(counts) for counts in streams]
            print_level(name, n_val, n_rows, n_batches, found)


def quiet(pool: Pool, n_val: int, n_rows: int, n_batches: int, seed: int) -> np.ndarray:
    """Return the decisions of validation and of batches that are drawn alike."""
    rows = np.random.default_rng(seed).permutation(pool.y.size)
    ends = n_val + n_rows * np.arange(n_batches + 1)
    return np.array([pool.counts(rows[a:b]) for a, b in pairwise([0, *ends])])


def least_p_value(counts: np.ndarray) -> float:
    """Return the smallest level at which a stream has an alarm; its first row is validation."""
    return list(p_values(counts))[-1]


def p_values(counts: np.ndarray) -> Iterator[float]:
    """Yield the p-value after every batch."""
    alarm = Alarm.against(counts[0], np.log(1 / LEVELS[0]), seed=0)
    for batch in counts[1:]:
        alarm = alarm.add(batch)
        yield alarm.p_value


def print_level(name: str, n_val: int, n_rows: int, n_batches: int, least: list[float]) -> None:
    """Print a row of the table of false alarms."""
    shares = " | ".join(f"{np.mean(np.array(least) <= level):.3f}" for level in LEVELS)
    print(f"| {name} | {n_val} | {n_rows} | {n_batches} | {shares} |", flush=True)


def delay_table(n_streams: int, pools: dict[str, Pool]) -> None:
    """Print after how many batches a change is noticed."""
    print(f"\nBatches until the alarm, median of {n_streams} streams with a change at {CHANGE}\n")
    print(f"| | {' | '.join(map(str, SHIFTS))} |\n|---|{'---|' * len(SHIFTS)}")
    for name, pool in pools.items():
        medians = [
            np.median([delay(pool, shift, seed) for seed in range(n_streams)]) for shift in SHIFTS
        ]
        print(f"| {name} | {' | '.join(f'{m:g}' for m in medians)} |", flush=True)


def delay(pool: Pool, shift: float, seed: int, n_val: int = 2000, n_rows: int = 100) -> float:
    """Return how many batches after the change the alarm is raised; inf if within 100 it is not."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(pool.y.size)
    ends = n_val + n_rows * np.arange(CHANGE + 1)
    counts = [pool.counts(rows[a:b]) for a, b in pairwise([0, *ends])]
    rest = rows[ends[-1] :]
    priors = moved(np.bincount(pool.y, minlength=10) / pool.y.size, shift, rng)
    after = rest[ps.sample_indices(pool.y[rest], priors, 100 * n_rows, random_state=seed)]
    counts += [pool.counts(part) for part in np.split(after, 100)]
    numbered = enumerate(p_values(np.array(counts)), 1 - CHANGE)
    return next((float(number) for number, p in numbered if p <= LEVELS[0]), np.inf)


def moved(priors: np.ndarray, shift: float, rng: np.random.Generator) -> np.ndarray:
    """Return priors at a total variation of `shift`: half of the classes, at random, gain it."""
    gain = rng.permutation(priors.size) < priors.size // 2
    if priors[~gain].sum() <= shift:
        gain = ~gain
    up, down = (np.where(side, priors, 0) / priors[side].sum() for side in (gain, ~gain))
    return priors + shift * (up - down)


if __name__ == "__main__":
    main()
