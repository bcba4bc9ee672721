"""Level and power of the shift test and of the test of its assumption, by simulation.

python -m benchmarks.level [--repeats 400] [--classes 3 10 100]

A level is the share of simulations without shift in which the test rejects at 5 %; it should be
0.05 but for the noise of counting, which the last column gives as two standard errors.
"""

import argparse
import time
from dataclasses import dataclass

import numpy as np

from priorshift.shift_test import check_assumption, detect_shift

SHIFT = 0.2
"""Total variation of the shifts that power is measured with."""

TEMPERATURE = 0.7
"""What logits are multiplied with where p(x|y) moves too."""

N_RESAMPLES = 199


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

    def predict(self, y: np.ndarray, rng: np.random.Generator, sharpness: float = 1.0):  # type: ignore[no-untyped-def]
        """Draw a sample of each label and return its posterior."""
        x = self.means[y] + rng.standard_normal((y.size, self.means.shape[1]))
        z = sharpness * (x @ self.means.T - 0.5 * (self.means**2).sum(axis=1))
        z -= z.max(axis=1, keepdims=True)
        proba = np.exp(z)
        return proba / proba.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    K: int
    source: str
    per_class: int
    validation: str
    n_target: int

    @property
    def priors(self) -> np.ndarray:
        """Source label priors."""
        if self.source == "uniform":
            return np.full(self.K, 1 / self.K)
        priors = 100.0 ** (-np.arange(self.K) / (self.K - 1))
        return priors / priors.sum()

    def labels(self, rng: np.random.Generator) -> np.ndarray:
        """Draw validation labels, or choose as many of each class."""
        if self.validation == "drawn":
            return rng.choice(self.K, self.per_class * self.K, p=self.priors)
        return np.repeat(np.arange(self.K), self.per_class)


CASES = [
    Case(3, "uniform", 10, "drawn", 60),
    Case(3, "uniform", 100, "chosen", 500),
    Case(10, "long-tailed", 10, "drawn", 500),
    Case(10, "long-tailed", 10, "chosen", 500),
    Case(10, "uniform", 50, "chosen", 500),
    Case(10, "long-tailed", 100, "chosen", 4000),
    Case(100, "uniform", 10, "drawn", 500),
    Case(100, "uniform", 10, "chosen", 500),
    Case(100, "uniform", 10, "chosen", 4000),
    Case(100, "long-tailed", 10, "chosen", 4000),
    Case(100, "long-tailed", 50, "chosen", 4000),
]


def shifted(priors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Make a random half of the classes more common, by a total variation of SHIFT."""
    while True:
        signs = np.where(rng.random(priors.size) < 0.5, -1.0, 1.0)
        way = priors * (signs - signs @ priors)
        size = np.abs(way).sum() / 2
        if size > 0 and (new := priors + SHIFT / size * way).min() >= 0:
            return new / new.sum()


def rates(case: Case, decision: str, repeats: int) -> tuple[float, float, float]:
    """Return level, power, and the mean of the power that the test itself foretells."""
    world, found = World.of(case.K), []
    for seed in range(repeats):
        rng = np.random.default_rng([case.K, seed])
        y_val = case.labels(rng)
        validation = world.predict(y_val, rng), y_val
        row = []
        for priors in (case.priors, shifted(case.priors, rng)):
            target = world.predict(rng.choice(case.K, case.n_target, p=priors), rng)
            test = detect_shift(
                *validation,
                target,
                source_label_priors=None if case.validation == "drawn" else case.priors,
                classes=np.arange(case.K),
                decision=decision,  # type: ignore[arg-type]
                alternative=SHIFT,
                n_resamples=N_RESAMPLES,
                random_state=seed,
            )
            row += [test.rejected, test.power]
        found.append(row)
    level, foretold, power, _ = np.mean(found, axis=0)
    return float(level), float(power), float(foretold)


def assumption_rates(case: Case, repeats: int) -> tuple[float, float]:
    """Return the level under a shift of priors, and the power where p(x|y) moves too."""
    world, found = World.of(case.K), []
    for seed in range(repeats):
        rng = np.random.default_rng([case.K, seed])
        y_val = case.labels(rng)
        validation = world.predict(y_val, rng), y_val
        y = rng.choice(case.K, case.n_target, p=shifted(case.priors, rng))
        found.append(
            [
                check_assumption(
                    *validation,
                    world.predict(y, rng, sharpness),
                    classes=np.arange(case.K),
                    n_resamples=N_RESAMPLES,
                    random_state=seed,
                ).rejected
                for sharpness in (1.0, TEMPERATURE)
            ]
        )
    level, power = np.mean(found, axis=0)
    return float(level), float(power)


def main() -> None:
    """Print Markdown tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--classes", type=int, nargs="+", default=[3, 10, 100])
    parser.add_argument("--part", choices=["shift", "assumption", "both"], default="both")
    options = parser.parse_args()
    cases = [case for case in CASES if case.K in options.classes]
    noise = 2 * np.sqrt(0.05 * 0.95 / options.repeats)
    if options.part != "assumption":
        print(f"\n## Shift test: level, and power for a shift of {SHIFT}\n")
        head("decision", "level", "power", "power foretold", "2 s.e. of a level", "ms a test")
        for case in cases:
            for decision in ("soft", "hard"):
                start = time.perf_counter()
                level, power, foretold = rates(case, decision, options.repeats)
                ms = 500 * (time.perf_counter() - start) / options.repeats
                line(case, decision, f"{level:.3f}", f"{power:.2f}", f"{foretold:.2f}",
                     f"{noise:.3f}", f"{ms:.0f}")  # fmt: skip
    if options.part != "shift":
        print(
            "\n## Test of the assumption: level under a shift of priors, power for flatter outputs"
        )
        print()
        head("level", "power", "2 s.e. of a level")
        for case in cases:
            level, power = assumption_rates(case, options.repeats)
            line(case, f"{level:.3f}", f"{power:.2f}", f"{noise:.3f}")


def head(*columns: str) -> None:
    """Print the head of a table."""
    names = ("K", "source", "validation", "a class", "target rows", *columns)
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}")


def line(case: Case, *cells: str) -> None:
    """Print a line of a table."""
    first = (case.K, case.source, case.validation, case.per_class, case.n_target)
    print(f"| {' | '.join(map(str, (*first, *cells)))} |", flush=True)


if __name__ == "__main__":
    main()
