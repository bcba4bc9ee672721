"""Run many estimators on the same data and compare their results."""

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from priorshift._results import Backend, make_frame
from priorshift._typing import Indices, Vector
from priorshift.adapt import Goal, GoalName, total_variation
from priorshift.border import (
    Predictions,
    Rows,
    check_proba,
    column_of,
    known_labels,
    ordered,
    read_labels,
    take_rows,
)
from priorshift.compare._scores import Scores, score_adapted
from priorshift.estimators import (
    FIRST,
    NoAdaptation,
    PriorEstimate,
    PriorEstimator,
    available_estimators,
    get_estimator,
    traits_of,
)
from priorshift.text import (
    html_paragraphs,
    html_table,
    listed,
    movers,
    number,
    plain,
    short_percent,
    text_table,
)

Progress = Callable[[Sequence[str]], Iterable[str]]
"""Wraps the methods while they run, as `tqdm.tqdm` or `rich.progress.track` do."""

CLOSE, SHARE = 0.05, 0.25
"""Methods agree if they are this close, or this share of what they say moved."""

HARDLY = 0.02
"""Share of cases in other classes up to which the class balance hardly changed."""

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
        judged = [r for r in self.results if r.disagreement is not None and r.estimate is not None]
        if len(judged) < 2:
            return None
        odd = max(judged, key=lambda r: r.disagreement or 0.0)
        k = int(np.flatnonzero(self.classes == odd.disagrees_on)[0])
        shares = [r.estimate.priors[k] for r in judged if r.estimate is not None]
        own = 0.0 if odd.estimate is None else float(odd.estimate.priors[k])
        far = sum((r.disagreement or 0.0) > FAR for r in judged)
        ratio = odd.disagreement or 1.0
        return Disagreement(ratio, odd.method, odd.disagrees_on, own, float(np.median(shares)), far)

    @property
    def conclusion(self) -> str:
        """Whether the main methods agree, on what, and which was best."""
        chosen = _chosen(self.results)
        if not chosen:
            return "No method has an answer: each row says why."
        said = [_in_agreement(chosen, self.classes), _best(self.results, self.goal)]
        return " ".join(sentence for sentence in said if sentence)

    @property
    def columns(self) -> dict[str, str]:
        """Meaning of each column of the table, except the method's name."""
        header, _ = self.table()
        return {name: COLUMNS[name] for name in header[1:]}

    @property
    def score_names(self) -> tuple[str, ...]:
        """What methods are scored by: names of `Scores`, with the cost where errors have one."""
        names = [field.name for field in fields(Scores)]
        return tuple(name for name in names if name != "cost" or self.goal == "cost")

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values for JSON; vectors become mappings from class to number."""
        truth = None if self.truth is None else self.truth.tolist()
        names = self.classes.tolist()
        return {
            "classes": names,
            "truth": None if truth is None else dict(zip(names, truth, strict=True)),
            "methods": [_plain(result, self.score_names) for result in self.results],
            "conclusion": self.conclusion,
        }

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return one row per method, as a frame of the named library."""
        columns: dict[str, Any] = {
            "method": [r.method for r in self.results],
            "status": [r.estimate and r.estimate.status for r in self.results],
            "gap": [r.estimate and r.estimate.gap for r in self.results],
            "disagreement": [r.disagreement for r in self.results],
            "seconds": [r.seconds for r in self.results],
        }
        if self.truth is not None:
            for name in self.score_names:
                columns[name] = [r.scores and getattr(r.scores, name) for r in self.results]
        columns["error"] = [r.error for r in self.results]
        return make_frame(columns, backend)

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return header and rows as text, for terminals and pages."""
        scored = self.truth is not None
        cost = ("cost",) if self.goal == "cost" else ()
        scores = ("accuracy", "balanced", "log loss", *cost, "L1 error") if scored else ()
        header = ("method", "moved", "differs", *scores, "time", "status")
        return header, [_row(r, header) for r in self.results]

    def __repr__(self) -> str:
        """Show one line per method."""
        header, rows = self.table()
        title = f"Comparison of {len(rows)} methods, {self.classes.size} classes"
        return "\n".join([title, *text_table([header, *rows]), self.conclusion])

    def _repr_html_(self) -> str:
        header, rows = self.table()
        title = f"of {len(rows)} methods, {self.classes.size} classes"
        table, said = html_table(rows, header), html_paragraphs([self.conclusion])
        return f"<div><strong>Comparison</strong> {title}{table}{said}</div>"


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
        raise ValueError(f"methods must be a list of names, such as ['scm-l']; got {methods!r}.")
    names = list(dict.fromkeys(methods))
    if not names:
        raise ValueError("methods is empty; name at least one, or leave it out for all.")
    for name in names:
        get_estimator(name)  # refuse a wrong name before anything runs
    given = {
        "source_priors": source_priors,
        "source_label_priors": source_label_priors,
        "classes": classes,
    }
    # refuse bad data here, once; what a single method refuses is in its row
    y_proba_val, y_val = column_of(y_proba_val, y_val, "y_val", "y_proba_val")
    y_proba_target, y_target = column_of(y_proba_target, y_target, "y_target", "y_proba_target")
    labels = read_labels(y_val, None, "y_val")
    validation = check_proba(
        y_proba_val, "y_proba_val", tables=True, classes=classes, labels=labels
    )
    settled = NoAdaptation().fit(validation, y_val, **given).classes_
    aim = Goal.of(costs, goal, settled)
    target = check_proba(y_proba_target, tables=True, classes=settled)
    target = ordered(target, settled, "y_proba_target")
    labelled, index = known_labels(y_target, settled, target.shape[0])
    truth = np.bincount(index, minlength=settled.size) / index.size if index.size else None
    rows = _labelled_rows(target.values, labelled)
    results = []
    for name in names if progress is None else progress(names):
        used = {"y_target": y_target} if _uses_labels(name, index.size, target) else {}
        method = _aimed(name, costs, goal)
        result = _run(method, (validation, y_val), given, target, used)
        if index.size and result.estimate is not None:
            scores = _quietly(score_adapted, result.estimate, rows, index, aim.costs)
            if used:
                scores = replace(scores, l1_error=None)  # no label judges what it was used for
            result = replace(result, scores=scores)
        results.append(result)
    return Comparison(tuple(_with_disagreement(results, settled)), settled, truth, aim.name)


def _uses_labels(name: str, n_labelled: int, target: Predictions) -> bool:
    """Tell whether a method gets the target's labels; all of them are kept to judge it by."""
    traits = traits_of(name)
    partly = 0 < n_labelled < target.shape[0]
    return traits.target_labels == "required" or (traits.target_labels == "used" and partly)


def _aimed(name: str, costs: Any, goal: GoalName) -> PriorEstimator:
    """Make an estimator; one that decides by itself is told what to improve."""
    estimator = get_estimator(name)
    if "goal" in estimator.get_params():
        estimator.set_params(costs=costs, goal=goal)
    return estimator


def _labelled_rows(values: Rows, labelled: Indices) -> Any:
    """Return the rows that methods are scored on."""
    if labelled.size in (0, values.shape[0]):
        return values
    return take_rows(values, labelled)


def _run(
    method: PriorEstimator,
    validation: tuple[Any, Any],
    given: dict[str, Any],
    target: Predictions,
    labels: dict[str, Any],
) -> MethodResult:
    """Fit and estimate; keep time, warnings and refusals."""
    estimate, error = None, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        try:
            estimate = method.fit(*validation, **given).estimate(target, **labels)
        except ValueError as refusal:
            error = str(refusal)
        seconds = time.perf_counter() - start
    notes = tuple(dict.fromkeys(str(warning.message) for warning in caught))
    return MethodResult(method.name, estimate, error, seconds, notes)


def _quietly(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call without warnings: they are already in the method's row."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments)


FAR = 1.5
"""Factor from the median of all methods beyond which one disagrees."""


def _with_disagreement(results: list[MethodResult], classes: NDArray[Any]) -> list[MethodResult]:
    """Add how far each method is from the median of all, on the class where it is farthest.

    Classes matter from a share of 1% on, or of many classes from twice the average share on; a
    share of less than a fifth of that counts as a fifth.
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
    factor = np.where(median >= least, np.maximum(floored / median, median / floored), 1.0)
    farthest = dict(zip(said, factor, strict=True))
    return [
        replace(r, disagreement=float(far.max()), disagrees_on=classes[far.argmax()])
        if (far := farthest.get(r.method)) is not None
        else r
        for r in results
    ]


def _plain(result: MethodResult, scored: Sequence[str]) -> dict[str, Any]:
    """Return a method's result as plain Python values."""
    estimate = None if result.estimate is None else result.estimate.to_dict()
    shown = ("priors", "status", "gap", "n_iter", "condition_number")
    return {
        "method": result.method,
        **{name: None if estimate is None else estimate[name] for name in shown},
        "disagreement": result.disagreement,
        "disagrees_on": None if result.disagrees_on is None else plain(result.disagrees_on),
        "seconds": result.seconds,
        "scores": result.scores and {name: getattr(result.scores, name) for name in scored},
        "warnings": list(result.warnings),
        "error": result.error,
    }


def _row(result: MethodResult, header: tuple[str, ...]) -> tuple[str, ...]:
    """Return a method's row as text."""
    if result.estimate is None:
        blank = [""] * (len(header) - 2)
        return (result.method, *blank, f"refused: {result.error}")
    found = result.scores
    scores: tuple[str, ...] = ()
    if found is not None:
        scores = (
            f"{found.accuracy:.1%}",
            f"{found.balanced_accuracy:.1%}",
            f"{found.log_loss:.3f}",
            *([f"{found.cost:.3g}"] if found.cost is not None else []),
            "" if found.l1_error is None else f"{found.l1_error:.3f}",
        )
    return (
        result.method,
        f"{result.estimate.total_variation:.1%}",
        "" if result.disagreement is None else f"{number(result.disagreement, 2)}×",
        *scores,
        f"{result.seconds:.3f} s",
        result.estimate.status,
    )


def _chosen(results: Iterable[MethodResult]) -> dict[str, PriorEstimate]:
    """Return the methods that a conclusion is about, by what to call them."""
    first: dict[str, PriorEstimate] = {}
    every: dict[str, PriorEstimate] = {}
    for result in results:
        traits = traits_of(result.method)
        if result.estimate is None or traits.outputs == "ignored":
            continue
        every[result.method] = result.estimate
        if result.method in FIRST:
            first.setdefault(FIRST[result.method], result.estimate)
    return dict(sorted(first.items())) or every


def _in_agreement(chosen: dict[str, PriorEstimate], classes: NDArray[Any]) -> str:
    """Say how far the methods are apart and, where they agree, what the first of them found."""
    priors = np.array([estimate.priors for estimate in chosen.values()])
    names, first = listed(list(chosen)), next(iter(chosen.values()))
    shares, source, moved = first.priors, first.source_priors, first.total_variation
    apart = float(total_variation(priors[:, None], priors[None]).max())
    agree = "says" if len(chosen) == 1 else "agree"
    if apart <= max(CLOSE, SHARE * moved):
        if moved <= HARDLY:
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


BEST = {
    "accuracy": ("is most accurate", "{:.1%}", 1),
    "balanced_accuracy": ("has the best balanced accuracy", "{:.1%}", 1),
    "log_loss": ("has the least log loss", "{:.3f}", -1),
    "cost": ("costs least per row", "{:.3g}", -1),
}
"""By goal: what is said of the best method, how its score is written, and whether more is better.

The goals are names of `Scores`.
"""


def _best(results: Iterable[MethodResult], goal: str) -> str:
    """Say which method was best by the goal, where the target has labels."""
    scored = {
        r.method: getattr(r.scores, goal)
        for r in results
        if r.scores is not None and r.scores.l1_error is not None  # it did not see the labels
    }
    if not scored:
        return ""
    said, form, sign = BEST[goal]
    best = max(scored, key=lambda name: sign * scored[name])
    said = f"By the target's labels {best} {said}: {form.format(scored[best])}"
    plain = [score for name, score in scored.items() if traits_of(name).outputs == "ignored"]
    return f"{said}, against {form.format(plain[0])} without adapting." if plain else f"{said}."
