"""Relations between calls that must hold whatever the numbers are, on data of a fair size."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import priorshift as ps
from lab.fuzz.inputs import Rng, pick
from lab.fuzz.outcomes import BadAnswerError

METHODS = tuple(ps.available_estimators())
FOLDED = frozenset({"auto", "mean", "em-bcts", "em-labels", "joint", "scm-l-shrunk", "gls"})
"""They cut rows into folds, so the order of rows matters a little."""
PULLED = FOLDED | {"map", "cm-m", "scm-m", "mapls", "rlls", "elsa"}
"""A hyper-prior or a penalty weighs less when rows are repeated."""
CLOSE = 2e-4
COARSE = 5e-3


class SkippedError(Exception):
    """A relation that cannot be tried here, with the reason."""


@dataclass(frozen=True)
class Data:
    """Validation and target of one classifier, every class among them."""

    val: np.ndarray
    y: np.ndarray
    target: np.ndarray
    source_priors: np.ndarray | None
    rng: Rng

    @property
    def K(self) -> int:  # noqa: N802
        """How many classes there are."""
        return self.val.shape[1]


def draw(rng: Rng) -> Data:
    """Draw data on which every method has one answer."""
    K = int(rng.integers(2, 6))
    n, m = (int(size) for size in rng.integers(60, 400, size=2))
    y = np.concatenate([np.tile(np.arange(K), 5), rng.integers(K, size=n)])
    y_target = rng.choice(K, size=m, p=rng.dirichlet(np.full(K, 2.0)))
    z = 2.5 * np.eye(K)
    val, target = (_outputs(rng, labels, z) for labels in (y, y_target))
    while (val.argmax(axis=1) == y).all():  # the larger its slope, the better it is calibrated
        val = _outputs(rng, y, z)
    source = rng.dirichlet(np.full(K, 5.0)) if rng.random() < 0.4 else None
    return Data(val, y, target, source, rng)


def _outputs(rng: Rng, y: np.ndarray, centres: np.ndarray) -> np.ndarray:
    z = centres[y] + rng.normal(size=(y.size, len(centres)))
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


RELATIONS: dict[str, Callable[[Data], None]] = {}


def relation(function: Callable[[Data], None]) -> Callable[[Data], None]:
    """Make a function a relation that the fuzzer tries, by its name."""
    RELATIONS[function.__name__] = function
    return function


def make(name: str) -> ps.PriorEstimator:
    """Make an estimator that solves its problem well."""
    made = ps.get_estimator(name)
    known = made.get_params()
    options: dict[str, Any] = {"random_state": 0} if "random_state" in known else {}
    if name in ("joint", "elsa"):  # they have no certificate, and would go on for minutes
        return made.set_params(**options)
    if "tol" in known:
        options["tol"] = 1e-9
    if "max_iter" in known:
        options["max_iter"] = 100_000
    return made.set_params(**options)


def estimate(name: str, data: Data, target: Any = None, **changes: Any) -> np.ndarray:
    """Fit and estimate; `changes` replace what `fit` is given."""
    given = {"y_proba": data.val, "y": data.y, "source_priors": data.source_priors} | changes
    return make(name).fit(**given).estimate(data.target if target is None else target).priors


def require_close(one: Any, other: Any, what: str, tolerance: float = CLOSE) -> None:
    """Refuse answers that differ."""
    one, other = np.asarray(one), np.asarray(other)
    if one.shape != other.shape or not np.allclose(one, other, rtol=0, atol=tolerance):
        far = np.abs(one - other).max() if one.shape == other.shape else "other shapes"
        shown = f"{_short(one)} against {_short(other)}"
        raise BadAnswerError(f"{what}: largest difference {far}: {shown}")


def _short(values: np.ndarray) -> str:
    return np.array2string(values, threshold=20, edgeitems=2).replace("\n", "")


@relation
def class_permutation(data: Data) -> None:
    """Classes in another order: the same priors in that order."""
    name = pick(data.rng, METHODS)
    order = data.rng.permutation(data.K)
    moved = estimate(
        name,
        data,
        data.target[:, order],
        y_proba=data.val[:, order],
        y=np.argsort(order)[data.y],
        source_priors=None if data.source_priors is None else data.source_priors[order],
    )
    loose = COARSE if name in FOLDED | {"elsa"} else CLOSE
    require_close(moved, estimate(name, data)[order], f"{name}, classes permuted", loose)


@relation
def row_order(data: Data) -> None:
    """Rows in another order: the same priors."""
    name = pick(data.rng, sorted(set(METHODS) - FOLDED))
    val, target = (data.rng.permutation(len(rows)) for rows in (data.val, data.target))
    moved = estimate(name, data, data.target[target], y_proba=data.val[val], y=data.y[val])
    require_close(moved, estimate(name, data), f"{name}, rows permuted")


@relation
def weights_for_repeats(data: Data) -> None:
    """Validation rows given twice, or with weight 2: the same priors."""
    name = pick(data.rng, sorted(set(METHODS) - FOLDED))
    times = data.rng.integers(1, 4, size=len(data.val))
    again = np.repeat(np.arange(len(data.val)), times)
    weighted = estimate(name, data, sample_weight=times)
    repeated = estimate(name, data, y_proba=data.val[again], y=data.y[again])
    loose = COARSE if name in PULLED else CLOSE  # penalties count rows
    require_close(weighted, repeated, f"{name}, weights for repeated validation rows", loose)


@relation
def target_twice(data: Data) -> None:
    """The target given twice: the same priors, without a hyper-prior."""
    name = pick(data.rng, sorted(set(METHODS) - PULLED))
    twice = np.concatenate([data.target, data.target])
    require_close(estimate(name, data, twice), estimate(name, data), f"{name}, the target twice")


@relation
def weighted_functions(data: Data) -> None:
    """Weights for repeated rows in priors, calibrators and sets."""
    times = data.rng.integers(1, 4, size=len(data.val))
    again = np.repeat(np.arange(len(data.val)), times)
    by_weight = ps.priors_from_labels(data.y, sample_weight=times)
    require_close(by_weight, ps.priors_from_labels(data.y[again]), "priors_from_labels")
    by_weight = ps.priors_from_predictions(data.val, sample_weight=times)
    require_close(by_weight, ps.priors_from_predictions(data.val[again]), "priors_from_predictions")
    for kind in (ps.TemperatureScaling, ps.BCTS, ps.VectorScaling):
        one = kind(tol=1e-9).fit(data.val, data.y, times)
        other = kind(tol=1e-9).fit(data.val[again], data.y[again])
        # on the fitted rows, where the best fit is unique even if a class can be told apart exactly
        found = (made.predict_proba(data.val) for made in (one, other))
        require_close(*found, f"{kind.__name__}, weights for repeated rows")


@relation
def single_precision(data: Data) -> None:
    """float32 instead of float64: almost the same priors."""
    name = pick(data.rng, METHODS)
    single = estimate(name, data, data.target.astype(np.float32), y_proba=data.val.astype("f4"))
    require_close(single, estimate(name, data), f"{name}, float32", COARSE)


@relation
def in_blocks(data: Data) -> None:
    """A memory map: the same priors."""
    name = pick(data.rng, METHODS)
    expected = estimate(name, data)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "target.npy"
        np.save(path, data.target)
        mapped = np.load(path, mmap_mode="r")
        require_close(estimate(name, data, mapped), expected, f"{name}, a memory map")
        del mapped


@relation
def sparse(data: Data) -> None:
    """A sparse matrix: the same priors and predictions as the array, zeros and all."""
    name = pick(data.rng, sorted(set(METHODS) - FOLDED))
    target = np.where(data.target < 0.05, 0, data.target)
    target /= target.sum(axis=1, keepdims=True)
    fitted = make(name).fit(data.val, data.y, source_priors=data.source_priors)
    one, other = fitted.estimate(csr_array(target)), fitted.estimate(target)
    require_close(one.priors, other.priors, f"{name}, sparse")
    adapted = one.adapt(csr_array(target)).toarray()
    require_close(adapted, other.adapt(target), f"{name}, sparse rows adapted", COARSE)


@relation
def frames(data: Data) -> None:
    """Frames with named columns in any order: the same priors and predictions."""
    import pandas as pd
    import polars as pl

    name = pick(data.rng, METHODS)
    names = [f"class {k}" for k in range(data.K)]
    order = data.rng.permutation(data.K)
    val = pd.DataFrame(data.val, columns=names)
    target = pl.DataFrame(data.target[:, order], schema=[names[k] for k in order])
    y = pd.Series(np.asarray(names)[data.y])
    found = estimate(name, data, target, y_proba=val, y=y)
    require_close(found, estimate(name, data), f"{name}, frames")


@relation
def dask_chunks(data: Data) -> None:
    """A Dask array: the same priors."""
    if not find_spec("dask"):
        raise SkippedError("Dask is not installed")
    import dask.array

    name = pick(data.rng, sorted(set(METHODS) - FOLDED))
    chunks = (int(data.rng.integers(10, 60)), -1)
    target = dask.array.from_array(data.target, chunks=chunks)
    require_close(estimate(name, data, target), estimate(name, data), f"{name}, Dask")


@relation
def one_group(data: Data) -> None:
    """One group that is not pooled: what the target alone gives."""
    name = pick(data.rng, ("cm", "scm", "cm-l", "scm-l", "cm-m", "scm-m", "em", "map", "bbse"))
    fitted = make(name).fit(data.val, data.y, source_priors=data.source_priors)
    found = ps.estimate_groups(fitted, data.target, np.zeros(len(data.target)), pooling=None)
    require_close(found.priors[0], fitted.estimate(data.target).priors, f"{name}, one group")


@relation
def there_and_back(data: Data) -> None:
    """Adapted to other priors and back, by probabilities or logits: as before."""
    p, q = data.rng.dirichlet(np.full(data.K, 5.0), size=2)
    adapted = ps.adapt_proba(data.target, p, q)
    require_close(ps.adapt_proba(adapted, q, p), data.target, "adapted and back")
    by_logits = ps.adapt_proba(np.log(data.target), p, q, from_logits=True)
    require_close(by_logits, adapted, "adapted by logits")


@relation
def counted(data: Data) -> None:
    """Counts of decisions, counted in parts: what the rows give."""
    name = pick(data.rng, ("cm", "scm", "cm-l", "scm-l", "cm-m", "scm-m", "bbse", "bbse-s", "rlls"))
    fitted = make(name).fit(data.val, data.y, source_priors=data.source_priors)
    at = int(data.rng.integers(1, len(data.target)))
    decision = fitted.confusion_.decision
    parts = [
        ps.DecisionCounts.from_arrays(rows, decision=decision)
        for rows in (data.target[:at], data.target[at:])
    ]
    found = fitted.estimate_counts(parts[0] + parts[1]).priors
    require_close(found, fitted.estimate(data.target).priors, f"{name}, counts")


@relation
def parts_of_validation(data: Data) -> None:
    """Validation in parts: what it gives at once."""
    name = pick(data.rng, sorted(set(METHODS) - FOLDED - {"elsa"}))
    given = {"source_priors": data.source_priors, "classes": range(data.K)}
    half = len(data.y) // 2
    fitted = make(name).partial_fit(data.val[:half], data.y[:half], **given)
    fitted.partial_fit(data.val[half:], data.y[half:])
    expected = estimate(name, data)
    require_close(fitted.estimate(data.target).priors, expected, f"{name}, partial_fit")
