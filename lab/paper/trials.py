"""Trials: draw validation and target rows for a seed, estimate, adapt, and measure accuracy."""

import csv
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.special import softmax
from sklearn.base import clone

from lab.paper.distributions import Indices, Vector, distribution, largest_sample
from lab.paper.images import read_list
from lab.paper.outputs import Floats, StoredOutputs
from priorshift import (
    BCTS,
    ConvergenceWarning,
    PriorEstimate,
    PriorEstimator,
    PriorShiftWarning,
    adapt_proba,
    get_estimator,
)

SHARE = 0.8
"""Part of validation and of the target that every seed draws. The paper trains several classifiers;
here one stored classifier stands in for them, so standard deviations are those of the data alone.
"""

NO_PRIOR = 1e-30
"""A source prior up to this counts as 0: a ratio to it would mean nothing."""

Solver = Literal["paper", "released", "certified"]
SOLVERS: tuple[Solver, ...] = ("paper", "released", "certified")
"""The paper's text, the code that its authors released, and our solvers: a column each."""

COLUMNS = {"paper": "text"}
"""What a column is called where that is not the name of its solver."""

CALIBRATORS: dict[Solver, BCTS] = {
    "paper": BCTS(balance="weights", logits=True),
    "released": BCTS(solver="released", logits=True),
    "certified": BCTS(logits=True),
}
"""Each column has its own BCTS: rows of validation weighted to the classes of training, to the best
fit or as released; and, in ours, the likelihood of labels that were sampled class by class."""


@dataclass(frozen=True, eq=False)
class Trial:
    """Probabilities to estimate on and adapt, with the paper's two versions of trained priors.

    Attributes
    ----------
    y_proba_val, y_val, y_proba_target, y_target : ndarray
    mean_prediction : ndarray of shape (n_classes,)
        Mean prediction on the training set.
    label_frequencies : ndarray of shape (n_classes,)
        Label frequencies of the training set.
    rows : ndarray
        Test rows that form the target.
    """

    y_proba_val: Floats
    y_val: Indices
    y_proba_target: Floats
    y_target: Indices
    mean_prediction: Vector
    label_frequencies: Vector
    rows: Indices

    @property
    def truth(self) -> Vector:
        """The target's own class frequencies, which the oracle knows."""
        return np.bincount(self.y_target, minlength=self.mean_prediction.size) / self.y_target.size

    def accuracy(self, y_proba: Floats) -> float:
        """Return the share of correct decisions on the target, in percent."""
        return float(100 * (y_proba.argmax(axis=1) == self.y_target).mean())

    def adapted(self, priors: Vector, source: Vector | None = None) -> float:
        """Return the accuracy after adapting to priors."""
        weights = prior_ratio(priors, self.mean_prediction if source is None else source)
        # as weights of a uniform source, so that a class without training labels is not an error
        uniform = np.full(weights.size, 1 / weights.size)
        return self.accuracy(adapt_proba(self.y_proba_target, uniform, weights / weights.sum()))

    def estimated(self, estimator: PriorEstimator, n_samples: int | None = None) -> PriorEstimate:
        """Estimate the priors from the whole target, or from its first rows."""
        with without_warnings():
            estimator.fit(
                self.y_proba_val,
                self.y_val,
                source_priors=self.mean_prediction,
                source_label_priors=self.label_frequencies,
                classes=np.arange(self.mean_prediction.size),
            )
            return estimator.estimate(self.y_proba_target[:n_samples])

    def adapted_by(self, estimate: PriorEstimate) -> float:
        """Return the accuracy after adapting by an estimate."""
        with without_warnings():
            return self.accuracy(estimate.adapt(self.y_proba_target))


@dataclass(frozen=True, eq=False)
class Setting:
    """What a trial depends on: a classifier, a target distribution, calibration, a seed.

    The target is the name of a distribution, a file of priors, or priors: see `target_priors`.
    """

    outputs: StoredOutputs
    target: str | Path | Vector
    calibrated: bool
    seed: int
    share: float = SHARE
    network: str = "0"

    @property
    def target_name(self) -> str:
        """Name of the distribution, or of the file without its ending."""
        return self.target.stem if isinstance(self.target, Path) else self.target

    def draw(self, solver: Solver = "paper") -> Trial:
        """Draw validation and target rows for the seed; calibrate with BCTS if asked.

        BCTS is fitted on validation in the way of a solver's column: see `CALIBRATORS`. The rows do
        not depend on it.
        """
        train, val, test = self.outputs.train, self.outputs.val, self.outputs.test
        K, frequencies = self.outputs.n_classes, train.label_frequencies()
        rng = np.random.default_rng([self.seed, K])
        val = val[largest_sample(val.y, val.label_frequencies(), self.share, rng)]
        priors = target_priors(self.target, K)
        rows = rng.permutation(largest_sample(test.y, priors, self.share, rng))
        if self.calibrated:
            given = {"source_label_priors": frequencies, "classes": np.arange(K)}
            proba = clone(CALIBRATORS[solver]).fit(val.logits, val.y, **given).predict_proba
        else:
            proba = partial(softmax, axis=1)
        mean = proba(train.logits).mean(axis=0, dtype=np.float64)
        target = proba(test.logits[rows]), test.y[rows]
        return Trial(proba(val.logits), val.y, *target, mean / mean.sum(), frequencies, rows)


def target_priors(target: str | Path | Vector, n_classes: int) -> Vector:
    """Return priors by the name of a distribution, or from a file, or as they are.

    A CSV has the columns `class` (0 to K - 1, each once) and `prior`, whose values are divided by
    their sum. Any other file is a list of `path label`, and the priors are its class frequencies:
    Places_LT_train.txt gives the paper's target of Places365 UNI -> LT.
    """
    if isinstance(target, np.ndarray):
        return target
    if isinstance(target, str):
        return distribution(target, n_classes)
    if target.suffix == ".csv":
        classes, values = _read_columns(target)
        fits = np.array_equal(np.sort(classes), np.arange(n_classes))
    else:
        classes, values = np.unique(read_list(target)[1], return_counts=True)
        fits = classes[-1] < n_classes
    if not fits:
        raise ValueError(
            f"{target} should give a prior to each class from 0 to {n_classes - 1} once, as the "
            f"outputs have {n_classes} columns."
        )
    priors = np.zeros(n_classes)
    priors[classes] = values
    return priors / priors.sum()


def _read_columns(path: Path) -> tuple[Indices, Vector]:
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    try:
        classes = np.array([int(row["class"]) for row in rows], dtype=np.intp)
        values = np.array([float(row["prior"]) for row in rows])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} should have the columns class and prior, of numbers ({error})."
        ) from error
    if not (np.isfinite(values).all() and values.min(initial=0.0) >= 0 and values.sum() > 0):
        raise ValueError(f"priors in {path} should be finite, not negative, and not all 0.")
    return classes, values


def draws(
    outputs: Sequence[StoredOutputs],
    targets: Sequence[str | Path],
    n_seeds: int,
    share: float,
    *,
    calibrated: Sequence[bool] = (False, True),
) -> Iterator[Setting]:
    """Yield the settings of an experiment; runs of one name get seeds of their own.

    Outputs of one name are different networks, unless they name the same one.
    """
    earlier: Counter[str] = Counter()
    for one in outputs:
        first, network = n_seeds * earlier[one.name], one.network or str(earlier[one.name])
        earlier[one.name] += 1
        for target, by_bcts, seed in product(targets, calibrated, range(n_seeds)):
            yield Setting(one, target, by_bcts, first + seed, share, network)


def prior_ratio(priors: Vector, source: Vector) -> Vector:
    """Return priors / source, and 0 for a class that the source does not have."""
    return np.divide(priors, source, out=np.zeros_like(source), where=source > NO_PRIOR)


def solvers_of(method: str) -> tuple[Solver, ...]:
    """Return the solvers of a method: all if it has the choice, else ours."""
    has_choice = get_estimator(method).get_params().get("solver") in SOLVERS
    return SOLVERS if has_choice else ("certified",)


def estimator_of(method: str, solver: str) -> PriorEstimator:
    """Make the estimator of a column; methods without a choice of solver ignore `solver`."""
    return get_estimator(method, **({"solver": solver} if len(solvers_of(method)) > 1 else {}))


@contextmanager
def without_warnings() -> Iterator[None]:
    """Silence what methods warn of on every trial: clipping, classes never seen, slow progress."""
    with warnings.catch_warnings():
        for category in (PriorShiftWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        yield
