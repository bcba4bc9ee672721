"""Compare estimators on the same data, with or without target labels."""

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from priorshift._results import Backend, make_frame, refuse_nan
from priorshift._typing import Indices, Vector
from priorshift.adapt import Goal, GoalName, cheapest, total_variation
from priorshift.border import (
    Block,
    Predictions,
    Rows,
    column_of,
    dense,
    known_labels,
    map_reduce,
    read_labelled,
    read_proba,
    take_rows,
)
from priorshift.estimators import (
    FIRST,
    NoAdaptation,
    PriorEstimate,
    available_estimators,
    get_estimator,
    traits_of,
)
from priorshift.text import (
    brief,
    listed,
    movers,
    number,
    plain,
    quoted,
    short_percent,
    text_table,
)
from priorshift.words import by_other_goals

Progress = Callable[[Sequence[str]], Iterable[str]]
"""Wraps the methods while they run, as `tqdm.tqdm` or `rich.progress.track` do."""

COLUMNS = {
    "moved": "share of the cases that belong to other classes than before",
    "differs": "by which factor, from the median of all methods, on the class where it is "
    "farthest off; shares below 1% do not count",
    "accuracy": "right decisions of adapted predictions, by the target's labels",
    "balanced": "the same, averaged over classes",
    "log loss": "of adapted predictions, lower is better",
    "cost": "per row, of the cheapest decisions by adapted predictions, lower is better",
    "L1 error": "of the priors against the target's labels, lower is better; none for a method "
    "that uses them",
    "time": "of fitting and estimating",
    "status": "certified: a proven optimum; stationary: one of possibly several; direct: a formula",
}
"""What the columns of the table mean."""

BEST = {
    "accuracy": ("is most accurate", "{:.1%}", 1),
    "balanced_accuracy": ("has the best balanced accuracy", "{:.1%}", 1),
    "log_loss": ("has the least log loss", "{:.3f}", -1),
    "cost": ("costs least per row", "{:.3g}", -1),
}
"""By goal: what is said of the best method, how its score is written, and whether more is better.

The goals are names of `Scores`.
"""


# Scores


@dataclass(frozen=True)
class Scores:
    """Hold the quality of adapted predictions and of the priors they were adapted to.

    Attributes
    ----------
    accuracy : float
        Share of correct decisions.
    balanced_accuracy : float
        Mean recall over the classes that occur in the target.
    log_loss : float
        Mean of -log(probability of the true class), in nats. As in scikit-learn, probabilities
        are at least the smallest step of float64.
    l1_error : float or None
        Sum over classes of `abs(estimated - true prior)`, from 0 (perfect) to 2 (worst). None for
        a method that used the labels.
    cost : float or None
        Mean cost of the decisions of least expected cost; None where errors have no costs.
    """

    accuracy: float
    balanced_accuracy: float
    log_loss: float
    l1_error: float | None
    cost: float | None = None

    def __post_init__(self) -> None:
        refuse_nan(self)


def score_adapted(
    estimate: PriorEstimate,
    rows: Rows,
    index: Indices,
    costs: Vector | None = None,
    *,
    adapts: bool = True,
) -> Scores:
    """Adapt clean rows and score them against true column numbers, block by block."""
    kernel = partial(_score_block, estimate if adapts else None, index, costs)
    hits, loss, paid = map_reduce(kernel, dense(rows))
    counts = np.bincount(index, minlength=estimate.priors.size)
    present = counts > 0
    return Scores(
        accuracy=float(hits.sum() / index.size),
        balanced_accuracy=float((hits[present] / counts[present]).mean()),
        log_loss=float(loss / index.size),
        l1_error=float(np.abs(estimate.priors - counts / index.size).sum()),
        cost=None if costs is None else paid / index.size,
    )


def _score_block(
    estimate: PriorEstimate | None, index: Indices, costs: Vector | None, block: Block, rows: slice
) -> tuple[Vector, float, float]:
    """Adapt a block; count its hits per class, sum -log(probability of the truth), and costs."""
    values: Any = block
    if estimate is not None:
        values = estimate.adapt(Predictions.from_checked(block))
    y = index[rows]
    hits = np.bincount(y[values.argmax(axis=1) == y], minlength=values.shape[1])
    of_truth = values[np.arange(y.size), y].astype(np.float64)
    loss = -np.log(of_truth.clip(min=np.finfo(np.float64).eps)).sum()
    paid = 0.0 if costs is None else float(costs[y, cheapest(values, costs)].sum())
    return hits.astype(np.float64), float(loss), paid


# Comparisons


@dataclass(frozen=True, eq=False)
class MethodResult:
    """Hold the result of one method, or the reason why it failed.

    Attributes
    ----------
    method : str
        Name, as in `available_estimators()`.
    estimate : PriorEstimate or None
        None if the method rejected the data.
    error : str or None
        Why it rejected them.
    seconds : float
        Time of fitting and estimating.
    warnings : tuple of str
        Messages of the warnings that it raised.
    disagreement : float or None
        Largest factor between its share of a class and the median of all methods', over the classes
        that matter: 1 if it is the median. None for "na", which estimates nothing, and if no other
        method succeeded.
    disagrees_on : object
        The class of that factor.
    scores : Scores or None
        None without target labels.
    """

    method: str
    estimate: PriorEstimate | None
    error: str | None
    seconds: float
    warnings: tuple[str, ...] = ()
    disagreement: float | None = None
    disagrees_on: Any = None
    scores: Scores | None = None


class Disagreement(NamedTuple):
    """Which method is farthest from the median of all, on which class, and how many are far."""

    ratio: float
    method: str
    name: Any
    share: float
    median: float
    n_methods: int
    """Methods whose share of some class is more than 1.5 times the median, or less."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Hold the results of several methods on the same validation and target data.

    Attributes
    ----------
    results : tuple of MethodResult
        One per method, in the order in which they ran.
    classes : ndarray of shape (n_classes,)
        Class names.
    truth : ndarray of shape (n_classes,) or None
        Label frequencies of the target, if its labels were given.
    goal : {"accuracy", "balanced_accuracy", "log_loss", "cost"}
        What the conclusion judges methods by.
    """

    results: tuple[MethodResult, ...]
    classes: NDArray[Any]
    truth: Vector | None = None
    goal: str = "accuracy"

    @property
    def estimates(self) -> dict[str, PriorEstimate]:
        """The methods that succeeded, by name."""
        return {r.method: r.estimate for r in self.results if r.estimate is not None}

    @property
    def disagreement(self) -> Disagreement | None:
        """The method farthest from the others; None where there are no two to compare."""
        judged = {r.method: r.disagreement for r in self.results if r.disagreement is not None}
        if len(judged) < 2:
            return None
        odd = max(self.results, key=lambda r: r.disagreement or 0.0)
        k = int(np.flatnonzero(self.classes == odd.disagrees_on)[0])
        shares = {method: float(self.estimates[method].priors[k]) for method in judged}
        far = sum(ratio > 1.5 for ratio in judged.values())  # as `Disagreement` says
        median = float(np.median(list(shares.values())))
        name, ratio = odd.disagrees_on, judged[odd.method]
        return Disagreement(ratio, odd.method, name, shares[odd.method], median, far)

    @property
    def conclusion(self) -> str:
        """Whether the main methods agree, on what, and which was best."""
        first: dict[str, PriorEstimate] = {}
        every: dict[str, PriorEstimate] = {}
        for method, estimate in self.estimates.items():
            if traits_of(method).outputs != "ignored":
                every[method] = estimate
                if method in FIRST:
                    first.setdefault(FIRST[method], estimate)
        chosen = dict(sorted(first.items())) or every
        if not chosen:
            return "No method has an answer: each row says why."
        return f"{_in_agreement(chosen, self.classes)} {self._best()}".rstrip()

    def _best(self) -> str:
        """Say which method was best by the goal, where the target has labels."""
        scored = {
            r.method: getattr(r.scores, self.goal)
            for r in self.results
            if r.scores is not None and r.scores.l1_error is not None  # it did not see the labels
        }
        if not scored:
            return ""
        said, form, sign = BEST[self.goal]
        best = max(scored, key=lambda name: sign * scored[name])
        said = f"By the target's labels {best} {said}: {form.format(scored[best])}"
        plain = [value for name, value in scored.items() if traits_of(name).outputs == "ignored"]
        said += f", against {form.format(plain[0])} without adapting." if plain else "."
        if self.goal == "accuracy" and self.truth is not None and self.classes.size == 2:
            always, other = self.truth.max(), self.classes[self.truth.argmin()]
            if scored[best] <= always:  # it holds where one class is rare
                said += (
                    f" Never answering {quoted(str(other))} is right as often or more often: "
                    f"{form.format(always)}. Judge {by_other_goals()}."
                )
        return said

    @property
    def score_names(self) -> tuple[str, ...]:
        """What methods are scored by: names of `Scores`, with the cost where errors have one."""
        names = [field.name for field in fields(Scores)]
        return tuple(name for name in names if name != "cost" or self.goal == "cost")

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values for JSON; vectors become mappings from class to number."""
        names, methods = self.classes.tolist(), []
        for r in self.results:
            found: Any = {} if r.estimate is None else r.estimate.to_dict()
            kept = ("priors", "status", "gap", "n_iter", "condition_number")
            methods.append(
                {
                    "method": r.method,
                    **{name: found.get(name) for name in kept},
                    "disagreement": r.disagreement,
                    "disagrees_on": plain(r.disagrees_on),
                    "seconds": r.seconds,
                    "scores": r.scores and {of: getattr(r.scores, of) for of in self.score_names},
                    "warnings": list(r.warnings),
                    "error": r.error,
                }
            )
        truth = None if self.truth is None else dict(zip(names, self.truth.tolist(), strict=True))
        return {
            "classes": names,
            "truth": truth,
            "methods": methods,
            "conclusion": self.conclusion,
        }

    def columns(self) -> dict[str, list[Any]]:
        """Return one entry per method in each column; `prior:NAME` is that of a class."""
        found = [result.estimate for result in self.results]
        columns: dict[str, list[Any]] = {
            "method": [r.method for r in self.results],
            "status": ["refused" if one is None else one.status for one in found],
            "gap": [None if one is None else one.gap for one in found],
            "disagreement": [r.disagreement for r in self.results],
            "seconds": [r.seconds for r in self.results],
            "error": [r.error for r in self.results],
        }
        for name in self.score_names if self.truth is not None else ():
            columns[name] = [getattr(r.scores, name, None) for r in self.results]
        for k, name in enumerate(self.classes.tolist()):
            columns[f"prior:{name}"] = [None if one is None else one.priors[k] for one in found]
        return columns

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return one row per method, as a frame of the named library."""
        return make_frame(self.columns(), backend)

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return header and rows as text, for terminals and pages."""
        scored = self.truth is not None
        cost = ("cost",) if self.goal == "cost" else ()
        scores = ("accuracy", "balanced", "log loss", *cost, "L1 error") if scored else ()
        header = ("method", "moved", "differs", *scores, "time", "status")
        rows: list[tuple[str, ...]] = []
        for r in self.results:
            if r.estimate is None:
                rows.append((r.method, *[""] * (len(header) - 2), f"refused: {r.error}"))
                continue
            written = [""] * len(scores)
            if r.scores is not None:
                s = r.scores
                written = [f"{s.accuracy:.1%}", f"{s.balanced_accuracy:.1%}", f"{s.log_loss:.3f}"]
                written += [f"{s.cost:.3g}"] if s.cost is not None else []
                written += ["" if s.l1_error is None else f"{s.l1_error:.3f}"]
            differs = "" if r.disagreement is None else f"{number(r.disagreement, 2)}×"
            moved, took = f"{r.estimate.total_variation:.1%}", f"{r.seconds:.3f} s"
            rows.append((r.method, moved, differs, *written, took, r.estimate.status))
        return header, rows

    def __repr__(self) -> str:
        """Show one line per method."""
        header, rows = self.table()
        title = f"Comparison of {len(rows)} methods, {self.classes.size} classes"
        return "\n".join([title, *text_table([header, *rows]), self.conclusion])


def compare(
    y_proba_val: ArrayLike,
    y_val: ArrayLike,
    y_proba_target: ArrayLike | Rows,
    y_target: ArrayLike | None = None,
    *,
    methods: Sequence[str] | None = None,
    source_priors: Any = None,
    source_label_priors: Any = None,
    classes: ArrayLike | None = None,
    costs: Any = None,
    goal: GoalName = "accuracy",
    progress: Progress | None = None,
) -> Comparison:
    """Run many methods on the same data.

    Parameters
    ----------
    y_proba_val : array-like of shape (n_val, n_classes)
        Predicted probabilities on validation.
    y_val : array-like of shape (n_val,)
        Validation labels.
    y_proba_target : array-like or Table of shape (n_target, n_classes)
        Predicted probabilities on the target; a table is never loaded into memory as a whole.
    y_target : array-like of shape (n_target,), optional
        Target labels, if you have some. Use None or NaN for unknown labels, or -1 if that is not a
        class. Every method is then scored on the labelled rows, and PPI, which uses the labels, is
        included. If some labels are unknown, EM with labels uses the others too.
    methods : sequence of str, optional
        Names of methods; by default all that can run on the data.
    source_priors, source_label_priors, classes
        As for `PriorEstimator.fit`.
    costs, goal
        What adapting should improve, as for `assess`. Auto decides by it, and the conclusion names
        the method that is best by it.
    progress : callable, optional
        Wraps the methods while they run, such as `tqdm.tqdm`.

    Examples
    --------
    >>> from priorshift.datasets import load_fashion_lt
    >>> from priorshift.compare import compare
    >>> data = load_fashion_lt()
    >>> comparison = compare(
    ...     data.y_proba_val,
    ...     data.y_val,
    ...     data.y_proba_target,
    ...     data.y_target,
    ...     methods=["na", "scm-l"],
    ...     source_priors=data.source_priors,
    ...     classes=data.classes,
    ... )
    >>> before, after = (result.scores.accuracy for result in comparison.results)
    >>> after > before
    True
    """
    if methods is None:
        methods = available_estimators(target_labels=y_target is not None)
    if isinstance(methods, str) or not isinstance(methods, Iterable):
        raise ValueError(
            f"methods must be a list of names, such as ['scm-l']; got {brief(methods)}."
        )
    names = list(dict.fromkeys(methods))
    if not names:
        raise ValueError("methods is empty; name at least one, or leave it out for all.")
    for name in names:
        get_estimator(name)  # refuse a wrong name before anything runs
    # refuse bad data here, once; what a single method refuses is in its row
    settled, validation, y = read_labelled(
        y_proba_val, y_val, classes, name="y_proba_val", label_name="y_val", tables=True
    )
    y_labels = settled[y]
    given = {
        "source_priors": source_priors,
        "source_label_priors": source_label_priors,
        "classes": settled,
    }
    NoAdaptation().fit(validation, y_labels, **given)
    aim = Goal.of(costs, goal, settled)
    y_proba_target, y_target = column_of(y_proba_target, y_target, "y_target", "y_proba_target")
    target = read_proba(y_proba_target, settled, "y_proba_target", tables=True)
    labelled, index = known_labels(y_target, settled, target.shape[0])
    truth = np.bincount(index, minlength=settled.size) / index.size if index.size else None
    rows = target.values
    if 0 < index.size < rows.shape[0]:
        rows = take_rows(rows, labelled)
    results = []
    for name in names if progress is None else progress(names):
        method, wants = get_estimator(name), traits_of(name).target_labels
        if "goal" in method.get_params():  # it decides by itself what to do
            method.set_params(costs=costs, goal=goal)
        # what labels are used for, all of them judge
        used = wants == "required" or (wants == "used" and 0 < index.size < target.shape[0])
        labels: dict[str, Any] = {"y_target": y_target} if used else {}
        estimate, error, scores = None, None, None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            start = time.perf_counter()
            try:
                fitted = method.fit(validation, y_labels, **given)
                estimate = fitted.estimate(target, **labels)
            except Exception as refusal:
                known = type(method).__module__.startswith("priorshift.")
                if known and not isinstance(refusal, ValueError):
                    raise
                error = str(refusal) or type(refusal).__name__
            seconds = time.perf_counter() - start
        notes = tuple(dict.fromkeys(str(warning.message) for warning in caught))
        if index.size and estimate is not None:
            with warnings.catch_warnings():  # they are already in the method's row
                warnings.simplefilter("ignore")
                adapts = target.decided is None  # decisions stay as they are
                scores = score_adapted(estimate, rows, index, aim.costs, adapts=adapts)
            if used:
                scores = replace(scores, l1_error=None)  # no label judges what it was used for
        results.append(MethodResult(method.name, estimate, error, seconds, notes, scores=scores))
    return Comparison(tuple(_with_disagreement(results, settled)), settled, truth, aim.name)


def _with_disagreement(results: list[MethodResult], classes: NDArray[Any]) -> list[MethodResult]:
    """Add how far each method is from the median of all, on the class where it is farthest.

    Classes matter from a share of 1% on, or of many classes from twice the average share on, or
    where one method says five times that; a share of less than a fifth of it counts as a fifth.
    """
    said = {
        r.method: r.estimate.priors
        for r in results
        if r.estimate is not None and traits_of(r.method).outputs != "ignored"
    }
    if len(said) < 2:
        return results
    least = min(0.01, 2 / classes.size)
    floored = np.maximum(list(said.values()), least / 5)
    median = np.median(floored, axis=0)
    matters = (median >= least) | (floored.max(axis=0) >= 5 * least)
    factor = np.where(matters, np.maximum(floored / median, median / floored), 1.0)
    farthest = dict(zip(said, factor, strict=True))
    return [
        replace(r, disagreement=float(far.max()), disagrees_on=classes[far.argmax()])
        if (far := farthest.get(r.method)) is not None
        else r
        for r in results
    ]


def _in_agreement(chosen: dict[str, PriorEstimate], classes: NDArray[Any]) -> str:
    """Say how far the methods are apart and, where they agree, what the first of them found."""
    priors = np.array([estimate.priors for estimate in chosen.values()])
    names, first = listed(list(chosen)), next(iter(chosen.values()))
    shares, source, moved = first.priors, first.source_priors, first.total_variation
    apart = float(total_variation(priors[:, None], priors[None]).max())
    agree = "says" if len(chosen) == 1 else "agree"
    # methods agree if they are close, or within a share of what they say moved
    if apart <= max(0.05, 0.25 * moved):
        if moved <= 0.02:
            return f"{names} {agree}: the class balance hardly changed."
        k = int(movers(shares - source, 1)[0])
        how = "grew" if shares[k] > source[k] else "fell"
        return (
            f"{names} {agree}: about {moved:.0%} of the cases belong to other classes than before; "
            f"{classes[k]} {how} most, from {short_percent(source[k])} to "
            f"{short_percent(shares[k])}."
        )
    k = int(np.ptp(priors, axis=0).argmax())
    low, high = short_percent(priors[:, k].min()), short_percent(priors[:, k].max())
    return (
        f"{names} disagree about {apart:.0%} of the cases, most on {classes[k]}: {low} to {high}. "
        "Do not rely on one of them alone."
    )
