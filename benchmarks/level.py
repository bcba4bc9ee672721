"""Level and power of the shift test and of the test of its assumption.

python -m benchmarks.level [--repeats 400] [--classes 3 10 20 100 121] [--quick]
    [--part shift assumption hard effect] [--kind simulated real] [--data ../shared/data]

A level is the share of repeats without shift in which the test rejects at 5 %; it should be 0.05
but for the noise of counting, which the last column gives as two standard errors. Real outputs are
re-split in every repeat, without replacement, into validation and target.

The parts "hard" and "effect" hold what an audit found wanting at commit 9d1b327, on outputs nobody
had tuned on: rounded targets, repeated rows, many classes, and the size of a shift. "Before" is
what this command printed with the sources of that commit. Constants were chosen on the classifiers
marked "chosen on"; the others were only reported.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import softmax

from priorshift.exceptions import PriorShiftWarning
from priorshift.shift_test import check_assumption, detect_shift

SHIFT = 0.2
"""Total variation of the shifts that power is measured with."""

TEMPERATURE = 0.7
"""What logits are multiplied with where p(x|y) moves too."""

N_RESAMPLES = 199

Target = Callable[[np.ndarray, float], np.ndarray]
"""Draws target rows with given class shares, from logits multiplied with a number."""


@dataclass(frozen=True)
class Case:
    """One row of the table; `source` are the label priors, `per_class` rows of validation."""

    data: str
    K: int
    source: str
    per_class: int
    validation: str
    n_target: int

    def priors(self, own: np.ndarray) -> np.ndarray:
        """Return the source label priors, if they are not the pool's own."""
        if self.source == "own":
            return own
        ratio = 1.0 if self.source == "uniform" else 100.0
        priors = ratio ** (-np.arange(self.K) / (self.K - 1))
        return priors / priors.sum()


SIMULATED = [
    Case("simulated", 3, "uniform", 10, "drawn", 60),
    Case("simulated", 3, "uniform", 100, "chosen", 500),
    Case("simulated", 10, "long-tailed", 10, "drawn", 500),
    Case("simulated", 10, "long-tailed", 10, "chosen", 500),
    Case("simulated", 10, "uniform", 50, "chosen", 500),
    Case("simulated", 10, "long-tailed", 100, "chosen", 4000),
    Case("simulated", 100, "uniform", 10, "drawn", 500),
    Case("simulated", 100, "uniform", 10, "chosen", 500),
    Case("simulated", 100, "uniform", 10, "chosen", 4000),
    Case("simulated", 100, "long-tailed", 10, "chosen", 4000),
    Case("simulated", 100, "long-tailed", 50, "chosen", 4000),
]
REAL = [
    Case("MNIST AdaBoost", 10, "own", 100, "drawn", 2000),
    Case("MNIST AdaBoost", 10, "own", 200, "drawn, priors known", 4000),
    Case("MNIST AdaBoost", 10, "uniform", 50, "chosen", 2000),
    Case("MNIST AdaBoost", 10, "long-tailed", 10, "chosen", 1000),
    Case("CIFAR-10-LT resnet110", 10, "own", 100, "drawn", 2000),
    Case("CIFAR-10-LT resnet110", 10, "own", 200, "drawn, priors known", 4000),
    Case("CIFAR-10-LT resnet110", 10, "own", 50, "chosen", 2000),
    Case("20news", 20, "own", 50, "drawn", 2000),
    Case("20news", 20, "own", 10, "chosen", 2000),
    Case("plankton", 121, "own", 20, "drawn", 2000),
    Case("plankton", 121, "own", 40, "drawn, priors known", 4000),
    Case("plankton", 121, "own", 10, "chosen", 2000),
]


@dataclass(frozen=True)
class World:
    """A Gaussian mixture with a classifier trained on equal shares."""

    means: np.ndarray

    @classmethod
    def of(cls, K: int) -> "World":
        """Draw class means in sqrt(4 K) dimensions."""
        rng = np.random.default_rng(K)
        dim = round(np.sqrt(4 * K))
        return cls(1.6 * rng.standard_normal((K, dim)) / dim**0.25)

    @property
    def own_priors(self) -> np.ndarray:
        """A mixture has any shares that are asked for."""
        return np.full(self.means.shape[0], 1 / self.means.shape[0])

    def split(
        self, case: Case, priors: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, Target]:
        """Draw validation, and return how to draw targets."""
        y_val = np.repeat(np.arange(case.K), case.per_class)
        if case.validation != "chosen":
            y_val = rng.choice(case.K, case.per_class * case.K, p=priors)

        def target(shares: np.ndarray, sharpness: float) -> np.ndarray:
            return self._predict(rng.choice(case.K, case.n_target, p=shares), rng, sharpness)

        return self._predict(y_val, rng), y_val, target

    def _predict(
        self, y: np.ndarray, rng: np.random.Generator, sharpness: float = 1.0
    ) -> np.ndarray:
        x = self.means[y] + rng.standard_normal((y.size, self.means.shape[1]))
        return softmax(sharpness * (x @ self.means.T - 0.5 * (self.means**2).sum(axis=1)), axis=1)


@dataclass(frozen=True)
class Pool:
    """Held-out outputs of a real classifier with their labels."""

    y_proba: np.ndarray
    y: np.ndarray

    @property
    def own_priors(self) -> np.ndarray:
        """Shares of the classes."""
        return np.bincount(self.y, minlength=self.y_proba.shape[1]) / self.y.size

    def split(
        self, case: Case, priors: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, Target]:
        """Draw validation, and return how to draw targets from the other rows."""
        rows = rng.permutation(self.y.size)
        size = np.bincount(self.y, minlength=case.K)
        if case.validation == "chosen":  # at most half of a class
            held = self._first(rows, np.minimum(case.per_class, size // 2))
        else:
            held = rows[: case.per_class * case.K]
        rest = rows[~np.isin(rows, held)]

        def target(shares: np.ndarray, sharpness: float) -> np.ndarray:
            if shares is priors and case.source == "own" and case.validation != "chosen":
                drawn = rest[: case.n_target]
            else:
                drawn = self._first(rest, rng.multinomial(case.n_target, shares))
            flat = self.y_proba[drawn] ** sharpness
            return flat / flat.sum(axis=1, keepdims=True)

        return self.y_proba[held], self.y[held], target

    def _first(self, rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Take the first rows of each class; one that runs short (1 draw in 10,000) gives all."""
        order = rows[np.argsort(self.y[rows], kind="stable")]
        y = self.y[order]
        rank = np.arange(y.size) - np.searchsorted(y, y)
        return order[rank < wanted[y]]


def pools(folder: Path) -> Iterator[tuple[str, Pool]]:
    """Read the pools that the folder has."""
    for name, file, proba, y, is_logits in (
        ("MNIST AdaBoost", "mnist_probs_pycalib", "AdaBoost__probs", "y", False),
        ("CIFAR-10-LT resnet110", "cifar10lt_logits_4nets", "resnet110__val_lt_logits",
         "resnet110__val_lt_y", True),
        ("20news", "label_errors_cv_probs", "20news__cv_probs", "20news__y", False),
        ("plankton", "plankton121", "oof_logits", "y", True),
    ):  # fmt: skip
        if (path := folder / f"{file}.npz").exists():
            with np.load(path) as z:
                values = z[proba].astype(np.float64)
                values = softmax(values, axis=1) if is_logits else values
                yield name, Pool(values / values.sum(axis=1, keepdims=True), z[y].astype(int))


def shifted(priors: np.ndarray, rng: np.random.Generator, by: float = SHIFT) -> np.ndarray:
    """Make a random half of the classes more common, by a total variation of SHIFT."""
    while True:
        signs = np.where(rng.random(priors.size) < 0.5, -1.0, 1.0)
        way = priors * (signs - signs @ priors)
        size = np.abs(way).sum() / 2
        if size > 0 and (new := priors + by / size * way).min() >= 0:
            return new / new.sum()


def rates(case: Case, data: World | Pool, decision: str, repeats: int) -> tuple[float, ...]:
    """Return level, power (of a quarter of the repeats), and the mean power that is foretold."""
    found, priors = [], case.priors(data.own_priors)
    for seed in range(repeats):
        rng = np.random.default_rng([case.K, seed])
        y_proba_val, y_val, target = data.split(case, priors, rng)
        row: list[float] = []
        for shares in (priors, shifted(priors, rng))[: 1 if seed % 4 else 2]:
            test = detect_shift(
                y_proba_val,
                y_val,
                target(shares, 1.0),
                source_label_priors=None if case.validation == "drawn" else priors,
                classes=np.arange(case.K),
                decision=decision,  # type: ignore[arg-type]
                alternative=SHIFT,
                n_resamples=N_RESAMPLES,
                random_state=seed,
            )
            row += [test.rejected, test.power]
        found.append(row + [np.nan] * (4 - len(row)))
    level, foretold, power, _ = np.nanmean(found, axis=0)
    return float(level), float(power), float(foretold)


def assumption_rates(case: Case, data: World | Pool, repeats: int) -> tuple[float, ...]:
    """Return how often there is an answer under a shift of priors, level, power if p(x|y) moves."""
    found, priors = [], case.priors(data.own_priors)
    for seed in range(repeats):
        rng = np.random.default_rng([case.K, seed])
        y_proba_val, y_val, target = data.split(case, priors, rng)
        shares = shifted(priors, rng)
        found.append(
            [
                check_assumption(
                    y_proba_val,
                    y_val,
                    target(shares, sharpness),
                    classes=np.arange(case.K),
                    n_resamples=N_RESAMPLES,
                    random_state=seed,
                ).p_value
                for sharpness in (1.0, TEMPERATURE)
            ]
        )
    values = np.array(found, dtype=float)  # nan where there is no p-value
    answered = ~np.isnan(values)
    rejected = np.divide(
        (values <= 0.05).sum(axis=0), answered.sum(axis=0), out=np.full(2, np.nan),
        where=answered.any(axis=0),
    )  # fmt: skip
    return float(answered[:, 0].mean()), *rejected.tolist()


# Rounded, repeated, many classes: where the test of the assumption failed -------------------------

HARD_REPEATS = (200, 40)
"""Simulated and real."""

CHOSEN_ON = (
    "simulated 10", "kr-vs-k lt mlp", "penbased lt mlp", "nursery nat rf", "satimage lt nb",
    "CIFAR-10-LT densenet40", "banking77",
)  # fmt: skip


ZOO = (
    "kr-vs-k_lt_mlp", "penbased_lt_mlp", "nursery_nat_rf", "satimage_lt_nb",
    "kr-vs-k_nat_hgb", "penbased_lt_rf", "optdigits_lt_nb", "satimage_nat_rf",
)  # fmt: skip


def divided(rows: np.ndarray) -> np.ndarray:
    """Divide rows by their sums."""
    return rows / rows.sum(axis=1, keepdims=True)


def noisy(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Add noise of standard deviation 1 to the logits."""
    return softmax(np.log(np.maximum(rows, 1e-30)) + rng.standard_normal(rows.shape), axis=1)


HARD: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "level": lambda rows, _: rows,
    "4 decimals": lambda rows, _: rows.round(4),
    "2 decimals": lambda rows, _: divided(rows.round(2)),
    "repeated rows": lambda rows, rng: rows[rng.integers(0, len(rows), len(rows))],
    "noisy logits": noisy,
    "sharpness 0.8": lambda rows, _: divided(rows**0.8),
}
"""What happens to a target of shifted priors: the first four should be rejected in 5 %."""


def hard_pools(folder: Path, kinds: list[str]) -> Iterator[tuple[str, "World | Pool"]]:
    """Yield simulated classifiers, and real ones that the folder has."""
    if "simulated" in kinds:
        yield from ((f"simulated {K}", World.of(K)) for K in (3, 10, 26))
    if "real" not in kinds:
        return
    for name in ZOO:
        yield from joined(folder / "zoo" / f"{name}.npz", name.replace("_", " "))
    yield from joined(folder / "uci" / "letter.npz", "letter")
    if (path := folder / "cifar10lt_logits_4nets.npz").exists():
        with np.load(path) as z:
            for net in ("densenet40", "resnet110"):
                y_proba = softmax(z[f"{net}__test_logits"].astype(np.float64), axis=1)
                yield f"CIFAR-10-LT {net}", Pool(y_proba, z[f"{net}__test_y"].astype(int))
    for name, pool in pools(folder):
        if name in ("20news", "plankton"):
            yield name, pool
    for name in ("banking77", "clinc150"):
        if (path := folder / f"{name}.npz").exists():
            with np.load(path) as z:
                logits = np.vstack([z["train_oof_logits"], z["test_logits"]]).astype(np.float64)
                y = np.concatenate([z["train_y"], z["test_y"]]).astype(int)
            yield name, Pool(softmax(logits, axis=1), y)


def joined(path: Path, name: str) -> Iterator[tuple[str, "Pool"]]:
    """Yield the validation and test outputs of a file as one pool."""
    if path.exists():
        with np.load(path) as z:
            y_proba = divided(np.vstack([z["val_proba"], z["test_proba"]]).astype(np.float64))
            yield name, Pool(y_proba, np.concatenate([z["val_y"], z["test_y"]]).astype(int))


def hard_rates(data: "World | Pool", K: int, repeats: int) -> dict[str, tuple[float, int]]:
    """Return how often each kind of target is rejected, and how often there was an answer."""
    case = Case("", K, "own", 50, "drawn", 2000)
    values: dict[str, list[float]] = {name: [] for name in HARD}
    for seed in range(repeats):
        rng = np.random.default_rng([seed, 13])
        y_proba_val, y_val, target = data.split(case, data.own_priors, rng)
        rows = target(random_priors(data.own_priors, rng), 1.0)
        for name, change in HARD.items():
            found = check_assumption(
                y_proba_val,
                y_val,
                change(rows, rng),
                classes=np.arange(K),
                n_resamples=N_RESAMPLES,
                random_state=seed,
            )
            if found.p_value is not None:
                values[name].append(found.rejected)
    return {k: (float(np.mean(v)) if v else np.nan, len(v)) for k, v in values.items()}


def random_priors(own: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw priors around the pool's own, by factors of a gamma distribution."""
    priors = own * rng.gamma(2.0, size=own.size)
    return priors / priors.sum()


def with_error(share: float, n: int) -> str:
    """Return a share in % with its standard error."""
    if not n:
        return "-"
    return f"{100 * share:.0f} ± {100 * np.sqrt(share * (1 - share) / n):.0f}"


def print_hard(folder: Path, kinds: list[str], repeats: tuple[int, int]) -> None:
    """Print how often targets are rejected, before and now."""
    print("\n## Test of the assumption: % rejected where only the priors shifted, and beyond it\n")
    print("50 validation rows per class on average, up to 2000 target rows. Before -> now ± s.e.\n")
    names = ("classifier", "K", "half", "repeats", "answered", *HARD)
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}")
    for name, data in hard_pools(folder, kinds):
        K = data.own_priors.size
        n = repeats[isinstance(data, Pool)]
        found = hard_rates(data, K, n)
        half = "chosen on" if name in CHOSEN_ON else "reported"
        cells = [
            f"{BEFORE_HARD.get(name, {}).get(what, '?')} -> {with_error(*found[what])}"
            for what in HARD
        ]
        line_of(name, K, half, n, f"{found['level'][1] / n:.2f}", *cells)


# How large a shift is ---------------------------------------------------------------------------

SIZES = (50, 500)


def effect_rates(data: "World | Pool", K: int, n_target: int, size: float, repeats: int) -> list:
    """Return effect sizes, whether intervals hold 0 and the truth, and widths."""
    case = Case("", K, "own", 30, "drawn", n_target)
    found, own = [], data.own_priors
    for seed in range(repeats):
        rng = np.random.default_rng([seed, 17])
        y_proba_val, y_val, target = data.split(case, own, rng)
        shares = own if size == 0 else shifted(own, rng, size)
        test = detect_shift(
            y_proba_val,
            y_val,
            target(shares, 1.0),
            source_label_priors=own,
            classes=np.arange(K),
            n_resamples=N_RESAMPLES,
            random_state=seed,
        )
        low, high = test.effect_interval
        found.append([test.effect_size, low <= 0, low <= size <= high, high - low])
    return found


def print_effects(folder: Path, kinds: list[str], repeats: tuple[int, int]) -> None:
    """Print effect sizes and their intervals, before and now."""
    print("\n## Effect size of the shift test: mean, and % of intervals that hold 0 or the truth\n")
    print("30 validation rows per class on average. Before -> now ± s.e.\n")
    names = ("classifier", "K", "half", "repeats", "target rows", "true shift", "effect size",
             "interval holds 0", "holds the truth", "width")  # fmt: skip
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}")
    for name, data in hard_pools(folder, kinds):
        K, n = data.own_priors.size, repeats[isinstance(data, Pool)]
        for n_target in SIZES:
            for size in (0.0, SHIFT):
                rows = np.array(effect_rates(data, K, n_target, size, n), dtype=float)
                mean, error = rows.mean(axis=0), rows[:, 0].std() / np.sqrt(n)
                before = BEFORE_EFFECT.get((name, n_target, size), ("?",) * 4)
                cells = (
                    f"{before[0]} -> {mean[0]:.3f} ± {error:.3f}",
                    f"{before[1]} -> {with_error(mean[1], n)}",
                    f"{before[2]} -> {with_error(mean[2], n)}",
                    f"{before[3]} -> {mean[3]:.2f}",
                )
                half = "chosen on" if name in CHOSEN_ON else "reported"
                line_of(name, K, half, n, n_target, size, *cells)


def line_of(*cells: object) -> None:
    """Print a line of a table."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


BEFORE_HARD: dict[str, dict[str, str]] = {}
BEFORE_EFFECT: dict[tuple[str, int, float], tuple[str, ...]] = {}


def main() -> None:
    """Print Markdown tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--classes", type=int, nargs="+", default=[3, 10, 20, 100, 121])
    parts = ["shift", "assumption", "hard", "effect"]
    parser.add_argument("--part", choices=parts, nargs="+", default=parts)
    parser.add_argument("--quick", action="store_true", help="40 and 10 repeats: a rough look")
    parser.add_argument("--kind", choices=["simulated", "real"], nargs="+")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    options = parser.parse_args()
    warnings.simplefilter("ignore", PriorShiftWarning)  # rare classes that a split lacks
    kinds = options.kind or ["simulated", "real"]
    repeats = (40, 10) if options.quick else HARD_REPEATS
    if options.quick:
        options.repeats = min(options.repeats, 40)
    cases = [(case, World.of(case.K)) for case in SIMULATED if "simulated" in kinds]
    if "real" in kinds:
        known = dict(pools(options.data))
        cases += [(case, known[case.data]) for case in REAL if case.data in known]
        for name in sorted({case.data for case in REAL} - known.keys()):
            print(f"{name}: left out, {options.data} does not have its outputs; give --data.")
    cases = [pair for pair in cases if pair[0].K in options.classes]
    if "shift" in options.part:
        print(f"\n## Shift test: level, and power for a shift of {SHIFT}\n")
        head("decision", "level", "power", "power foretold", "2 s.e. of a level", "ms a test")
        for case, data in cases:
            for decision in ("soft", "hard"):
                start = time.perf_counter()
                level, power, foretold = rates(case, data, decision, options.repeats)
                ms = 800 * (time.perf_counter() - start) / options.repeats
                line(case, decision, f"{level:.3f}", f"{power:.2f}", f"{foretold:.2f}",
                     f"{noise(options.repeats):.3f}", f"{ms:.0f}")  # fmt: skip
    if "assumption" in options.part:
        print("\n## Test of the assumption: level where priors shift, power where p(x|y) moves")
        print("\nLevel and power are shares of the repeats that gave a p-value.\n")
        head("answered", "level", "power", "2 s.e. of a level")
        for case, data in cases:
            answered, level, power = assumption_rates(case, data, options.repeats)
            error = noise(max(1, round(answered * options.repeats)))
            line(case, f"{answered:.2f}", f"{level:.3f}", f"{power:.2f}", f"{error:.3f}")
    if "hard" in options.part:
        print_hard(options.data, kinds, repeats)
    if "effect" in options.part:
        print_effects(options.data, kinds, repeats)


def noise(repeats: int) -> float:
    """Return two standard errors of a level of 5 %."""
    return float(2 * np.sqrt(0.05 * 0.95 / repeats))


def head(*columns: str) -> None:
    """Print the head of a table."""
    names = ("data", "K", "source", "validation", "a class", "target rows", *columns)
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}")


def line(case: Case, *cells: str) -> None:
    """Print a line of a table."""
    first = (case.data, case.K, case.source, case.validation, case.per_class, case.n_target)
    print(f"| {' | '.join(map(str, (*first, *cells)))} |", flush=True)


if __name__ == "__main__":
    main()
