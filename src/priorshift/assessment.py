"""Assess: gather all evidence about a target, and let one rule say whether to adapt.

Estimators, tests and labels give numbers; `priorshift.verdict` turns numbers into a verdict, and
`priorshift.words` turns facts into sentences. Here both are called.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc

import priorshift.evidence as evidence  # the package itself is lazy
from priorshift._typing import Indices, Labels, Vector
from priorshift.adapt import IN_POINTS, Aim, Goal, GoalName, binary_cut, total_variation
from priorshift.border import (
    NO_PRIOR,
    Predictions,
    check_count,
    check_level,
    check_proba,
    column_of,
    draw_rows,
    known_labels,
    order_in_words,
    read_labelled,
    read_proba,
    take_rows,
    warn_if_adapted,
)
from priorshift.estimators import PPI, CalibratedMean, PriorEstimate, PriorEstimator, as_estimator
from priorshift.estimators.data import GIVEN
from priorshift.exceptions import argument
from priorshift.text import movers, plain
from priorshift.verdict import WELL, WORTH, Action, Gain, Kind, Promise, Ruling, Verdict, judge
from priorshift.words import (
    ADVICE,
    WORTHLESS,
    Fact,
    Headline,
    decisions_headline,
    fact,
    headline,
    say,
)

ACCURACY = Goal("accuracy")

FEWEST_TARGET_ROWS = 10
"""Target rows below which nothing is said of what changed."""

LABELS = 40
"""Labels of the target to ask for where a verdict is unclear."""

MOST_CLASSES, MOST_CLASSES_OF_ASSUMPTION = 500, 200
"""Classes beyond which the tests take too long."""

MANY_NUMBERS, MOST_NUMBERS = 2_000_000, 10_000_000
"""Rows times classes beyond which tests draw fewer resamples, or sides are thinned for them."""


@dataclass(frozen=True, eq=False, repr=False)
class Assessment:
    """What to do about a target, and why; frozen, picklable, without sample rows.

    Attributes
    ----------
    verdict : {"adapt", "leave", "unclear"}
        What to do.
    action : {"none", "calibrate", "adapt"}
        What `adapt` does to predictions.
    headline : Headline
        The verdict for a reader who knows no statistics, in two halves: `sentence` joins them.
    facts : tuple of Fact
        What it rests on, names with numbers: `reasons` are the same in sentences.
    gain : Expected
        Change of accuracy by adapting, with its interval: 0.05 is 5 points. With another goal,
        by how much balanced accuracy rises, or log loss or the expected cost per case falls.
    estimate : PriorEstimate
        The target's class priors with intervals. Its `adapt` does what the verdict says.
    shift_test : ShiftTest or None
        Whether the class balance changed; None where the test would take too long.
    assumption_test : AssumptionTest or None
        Whether only the class balance changed.
    diagnostics : Diagnostics or None
        Expected accuracy before and after, and what the estimate rests on.
    measured : Measured or None
        The goal's score on the labelled rows of the target, if there are any.
    ppi : PriorEstimate or None
        Class shares by these labels and all predictions, whatever changed: see `PPI`.
    kind : Kind
        Which kind of shift: how much of the change a change of class balance explains, with bounds,
        how much further the estimate moved than the calibrated mean, and a bound on the share of
        the target that looks like no mixture of validation's classes.
    calibrated_mean : PriorEstimate or None
        The other reading of the target: class shares if p(y|x) stayed. None for decisions.
    shares_to_report : PriorEstimate
        Class shares by all evidence, with an interval: see `priorshift.evidence`.
    backtest : Backtest or None
        What would have helped on past groups, if you gave `groups_val`.
    n_val, n_target : int
        Rows of validation and target.
    rows_looked_at : int
        Rows of the target that were assessed: a sample of a very large one.
    warnings : tuple of str
        What was warned of on the way.
    goal : {"accuracy", "balanced_accuracy", "log_loss", "cost"}
        What the gain is in.
    score_before, score_after : Expected or None
        What to expect on the target as predictions are, and after adapting: accuracy, or what
        `goal` names. After is before plus the gain (minus, for log loss and cost); None for
        decisions, which cannot be adapted.
    costs : ndarray of shape (n_classes, n_classes) or None
        What errors cost, rows true classes, if you said so.
    decided_shares : ndarray of shape (n_classes,) or None
        Shares of the decisions as counted, where there are decisions only: the estimate corrects
        them.
    """

    verdict: Verdict
    action: Action
    headline: Headline
    facts: tuple[Fact, ...]
    gain: evidence.Expected
    estimate: PriorEstimate
    shift_test: evidence.ShiftTest | None
    assumption_test: evidence.AssumptionTest | None
    diagnostics: evidence.Diagnostics | None
    measured: Measured | None
    ppi: PriorEstimate | None
    kind: Kind
    calibrated_mean: PriorEstimate | None
    shares_to_report: PriorEstimate
    backtest: evidence.Backtest | None
    n_val: int
    n_target: int
    rows_looked_at: int
    warnings: tuple[str, ...] = ()
    goal: Aim = "accuracy"
    score_before: evidence.Expected | None = None
    score_after: evidence.Expected | None = None
    costs: Vector | None = None
    decided_shares: Vector | None = None
    _full: PriorEstimate | None = None
    """Adapts in full, whatever was ruled."""

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        return str(self.headline)

    @property
    def reasons(self) -> tuple[str, ...]:
        """What the verdict rests on, one sentence each, and what would help if it is unclear."""
        return tuple(map(say, self.facts))

    @property
    def advice(self) -> str:
        """What would make an unclear verdict clear, in one sentence; empty otherwise."""
        return self.say(*ADVICE)

    def say(self, *names: str) -> str:
        """Return the sentences of the facts of these names; nothing where there are none."""
        return " ".join(say(one) for one in self.facts if one.name in names)

    @property
    def judged_by(self) -> Goal:
        """The goal, with its words and its scale."""
        return Goal(self.goal, self.costs, self.costs)

    @property
    def explained(self) -> float | None:
        """Share of the change in predictions that a change of class balance explains.

        None where predictions changed no more than noise does.
        """
        return self.kind.explained

    @property
    def explained_interval(self) -> tuple[float, float] | None:
        """Bounds of `explained`."""
        return None if self.explained is None else (self.kind.low, self.kind.high)

    def rows_to_label(
        self,
        y_proba: ArrayLike,
        n: int = LABELS,
        random_state: int | np.random.Generator | None = None,
    ) -> Indices:
        """Return the rows of the target whose labels would tell most, as sorted indices.

        Three quarters are drawn among rows where nothing, calibrating and adapting in full decide
        differently, the others among the rest. Label them all, whatever you see, and pass the
        labels to `assess` as `y_target`.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities of the target, as given to `assess`.
        n : int, default=40
            How many rows, of all kinds together.
        random_state : None, int or numpy.random.Generator, optional
            For the draw; None draws anew each time.
        """
        check_count(n, "n")
        if self.calibrated_mean is None or self._full is None:
            raise ValueError(
                "rows to label are chosen by probabilities; of decisions, label rows at random."
            )
        values = take_rows(read_proba(y_proba, self.estimate.classes, tables=True).values)
        target = evidence.act(self._full, self.calibrated_mean, values)
        goal = self.judged_by.at(self.estimate.priors)
        return evidence.draw_rows_to_label(goal, target, n, random_state)

    def adapt(self, y_proba: ArrayLike, **options: Any) -> NDArray[Any]:
        """Do what `action` says: adapt predictions, or return them as they are.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities of any rows of the target.
        **options
            As for `PriorEstimate.adapt`.
        """
        return self.estimate.adapt(y_proba, **options)

    def report(self, path: str | PathLike[str], **more: Any) -> Path:
        """Write the assessment as one self-contained HTML page.

        Parameters
        ----------
        path : path-like
            The file to write, whole or not at all.
        **more
            As for `priorshift.report.write_report`: `title`, and the data for further sections.
        """
        return self.estimate.report(path, assessment=self, **more)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON."""
        shares, names = self.decided_shares, self.estimate.classes.tolist()
        told: dict[str, Any] = {
            "verdict": self.verdict,
            "action": self.action,
            "sentence": self.sentence,
            "reasons": self.reasons,
            "facts": [{"name": one.name, **one.numbers} for one in self.facts],
            "goal": self.goal,
            "explained": self.explained,
            "explained_interval": self.explained_interval,
            "decided_shares": None if shares is None else dict(zip(names, shares, strict=True)),
            "n_val": self.n_val,
            "n_target": self.n_target,
            "rows_looked_at": self.rows_looked_at,
        }
        parts = (
            "gain score_before score_after estimate calibrated_mean shares_to_report shift_test "
            "assumption_test diagnostics measured ppi backtest"
        )
        for name in parts.split():
            part = getattr(self, name)
            told[name] = None if part is None else part.to_dict()
        return dict(plain(told | {"warnings": self.warnings}))

    @property
    def shares_title(self) -> str:
        """What heads the table of `shares_to_report`."""
        return f"Class shares {'to report' if self.trusted else 'not to be trusted'}"

    @property
    def trusted(self) -> bool:
        """Whether class shares mean anything: not if validation is worthless, without labels."""
        return self.ppi is not None or not any(one.name in WORTHLESS for one in self.facts)

    def __repr__(self) -> str:
        """Show the verdict, the reasons, and the shares to report."""
        reasons = "\n".join(f"  - {reason}" for reason in self.reasons)
        shares = f"{self.shares_title}:\n{self.shares_to_report.in_text()}"
        return f"{self.sentence}\n{reasons}\n{shares}"

    def _repr_html_(self) -> str:
        reasons = "".join(f"<li>{escape(reason)}</li>" for reason in self.reasons)
        return (
            f"<div><p><strong>{escape(self.sentence)}</strong></p><ul>{reasons}</ul>"
            f"<strong>{self.shares_title}</strong>{self.shares_to_report.in_html()}</div>"
        )


@dataclass(frozen=True)
class Measured:
    """What labelled rows of the target say of predictions before and after adapting.

    Attributes
    ----------
    n_labelled : int
        Labelled rows.
    before, after, gain : Expected
        Accuracy, or what the goal names, and by how much it gets better, with intervals.
    expected_before : float or None
        Accuracy before adapting that validation promises on these rows, from that on each class.
    p_value : float or None
        Of the hypothesis that it holds: that decisions within classes are as good as on
        validation. None where no class has rows enough.
    """

    n_labelled: int
    before: evidence.Expected
    after: evidence.Expected
    gain: evidence.Expected
    expected_before: float | None = None
    p_value: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON."""
        return asdict(self)


def assess(
    y_proba_val: ArrayLike | None = None,
    y_val: ArrayLike | None = None,
    y_proba_target: ArrayLike | None = None,
    *,
    y_pred_val: ArrayLike | None = None,
    y_pred_target: ArrayLike | None = None,
    source_priors: Any = None,
    source_label_priors: Any = None,
    classes: ArrayLike | None = None,
    method: str | PriorEstimator | PriorEstimate = "auto",
    y_target: ArrayLike | None = None,
    groups_val: ArrayLike | None = None,
    assume_prior_shift: bool = False,
    costs: Any = None,
    goal: GoalName = "accuracy",
    confidence_level: float = 0.95,
    random_state: int | np.random.Generator | None = None,
) -> Assessment:
    """Say whether to adapt predictions to a target, and why.

    Start here. `assess` estimates the target's class shares in two ways, says how much of what
    changed a change of class balance explains, works out what calibrating and adapting should gain,
    and weighs all of it into one verdict.

    Parameters
    ----------
    y_proba_val : array-like of shape (n_val, n_classes) or (n_val,)
        Predicted probabilities on validation, which the classifier was not trained on.
    y_val : array-like of shape (n_val,)
        Validation labels.
    y_proba_target : array-like of shape (n_target, n_classes) or (n_target,)
        Predicted probabilities on the target, from the same classifier. A target that is read in
        blocks is assessed by a sample of its rows.
    y_pred_val, y_pred_target : array-like of shape (n_val,) and (n_target,), optional
        Decisions on validation and target instead of probabilities. They cannot be adapted one by
        one; the assessment is about the class shares, corrected for the errors of the decisions.
    source_priors : array-like of shape (n_classes,) or mapping, optional
        Priors the classifier was trained under, as `fit` takes them.
    source_label_priors : array-like of shape (n_classes,) or mapping, optional
        Label frequencies of the training set.
    classes : array-like of shape (n_classes,), optional
        Class names in the order of the columns.
    method : str, PriorEstimator or PriorEstimate, default="auto"
        How to estimate the priors: a name, or an estimator. One that is fitted, which must be to
        the same validation set, is used as it is, and so is an estimate that you have. For
        decisions, "auto" is CM-L.
    y_target : array-like of shape (n_target,), optional
        Labels of the target, if you have some: None or NaN where a label is unknown, or -1 where
        that is no class. Label what `Assessment.rows_to_label` asks for, or rows at random.
    groups_val : array-like of shape (n_val,), optional
        The month, site, person or other group of each validation row. Folds, errors and promises
        then go by group, and `backtest` says what would have helped in the past.
    assume_prior_shift : bool, default=False
        Your word that each class looks as it did and only the class balance changed.
    costs : array-like of shape (n_classes, n_classes) or mapping, optional
        What errors cost, as for `decide`: the verdict then rests on expected cost, of decisions
        that weigh it, instead of accuracy.
    goal : {"accuracy", "balanced_accuracy", "log_loss"}, default="accuracy"
        What adapting is to improve, without `costs`.
    confidence_level : float, default=0.95
        Of all intervals.
    random_state : None, int or numpy.random.Generator, optional
        For folds and resamples. None gives the same ones every time.

    Returns
    -------
    Assessment
        `verdict` is "adapt", "leave" or "unclear".

    Examples
    --------
    >>> import priorshift as ps
    >>> data = ps.datasets.load_fashion_lt()
    >>> found = ps.assess(
    ...     data.y_proba_val,
    ...     data.y_val,
    ...     data.y_proba_target,
    ...     classes=data.classes,
    ...     source_priors=data.source_priors,
    ... )
    >>> found.verdict
    'adapt'
    >>> adapted = found.adapt(data.y_proba_target)
    """
    check_level(confidence_level, "confidence_level")
    if y_pred_val is not None or y_pred_target is not None:
        decided = (y_pred_val, y_val, y_pred_target, classes)
        classes, y_proba_val, y_proba_target = evidence.as_rows(
            *decided, y_proba_val, y_proba_target
        )
    needed = {"y_proba_val": y_proba_val, "y_val": y_val, "y_proba_target": y_proba_target}
    for name, part in needed.items():
        if part is None:
            raise ValueError(
                f"{name} is missing: pass y_proba_val, y_val and y_proba_target, or of decisions "
                "y_pred_val, y_val and y_pred_target."
            )
    if isinstance(method, PriorEstimate):
        classes = method.classes
        # source priors that come from validation are no second opinion on it
        source_priors = method.source_priors if method.source_priors_from == GIVEN else None
    data = _read(y_proba_val, y_val, y_proba_target, y_target, classes)
    given = {"source_priors": source_priors, "source_label_priors": source_label_priors}
    by_decisions = data.decided_shares is not None
    if by_decisions and isinstance(method, str) and method == "auto":
        method = "cm-l"
    if by_decisions and goal == "log_loss":
        raise ValueError('goal="log_loss" needs probabilities; decisions have none.')
    seed = 0 if random_state is None else random_state
    rows, labels = data.y_proba_val, data.classes[data.y_val]
    missing: list[Fact] = []
    fitted = past = mean = groups = None
    with warnings.catch_warnings(record=True) as caught:  # the assessment tells them
        warnings.simplefilter("always")
        # one reading of the target: as under prior shift
        if isinstance(method, PriorEstimate):
            estimate = method
        elif isinstance(method, PriorEstimator) and hasattr(method, "classes_"):
            fitted = method
        else:
            fitted = as_estimator(method)
            known = fitted.get_params()
            if isinstance(method, str) and random_state is not None and "random_state" in known:
                fitted.set_params(random_state=random_state)
            if "goal" in known and (costs is not None or goal != "accuracy"):
                fitted.set_params(costs=costs, goal=goal)
            fitted.fit(rows, labels, classes=data.classes, **given)
        if fitted is not None:
            if "goal" in (known := fitted.get_params()):
                costs, goal = known["costs"], known["goal"]
            needs = fitted.target_labels == "required"
            uses = fitted.target_labels == "used" and data.labelled.size
            told: Any = {"y_target": data.labels} if needs or uses else {}
            try:
                estimate = fitted.estimate(data.y_proba_target, confidence_level, seed, **told)
            except ValueError as error:  # the method has no interval
                estimate = fitted.estimate(data.y_proba_target, **told)
                missing.append(fact("no_interval", error=str(error)))
        aim = Goal.of(costs, goal, data.classes)
        # the other, as under covariate shift, and labelled history; decisions have neither
        if not by_decisions:
            if groups_val is not None:
                name = argument("groups_val")
                grouped = evidence.name_groups(groups_val, labels.size, None, name)
                history = (rows, data.y_val, grouped, data.classes)
                by = method.method if isinstance(method, PriorEstimate) else method
                past = evidence.replay(*history, by, aim, random_state, **given)
                groups = grouped[0]
            mean = evidence.fit_mean(fitted, data.classes, rows, labels, groups=groups, **given)
            if past is not None and past.n_groups < evidence.FEWEST_GROUPS:
                groups = None  # too few to tell how groups differ: rows count
        # all evidence, the verdict, and both in words
        case = Case(
            data,
            estimate,
            _test(data, given, seed, missing),
            level=confidence_level,
            goal=aim,
            fitted=mean,
            groups=groups,
            past=past,
            assumed=assume_prior_shift,
        )
        found = case.tell(missing)
    said = dict.fromkeys(str(warning.message) for warning in caught)
    return replace(found, warnings=tuple(said))


class Verdicts:
    """Give the verdict of `assess`, and nothing else, on many groups or windows.

    What a verdict does not need is left out, such as the size of the shift. Beyond a fixed amount
    of work there are no more verdicts, so that thousands of groups do not take hours.

    Parameters
    ----------
    y_proba_val, y_val, source_label_priors
        As for `assess`.
    budget : int
        Rows times classes, of validation and of the target, to go through in all.

    Examples
    --------
    >>> import priorshift as ps
    >>> from priorshift.assessment import Verdicts
    >>> data = ps.datasets.load_fashion_lt()
    >>> known = {"source_priors": data.source_priors, "classes": data.classes}
    >>> fitted = ps.SCML().fit(data.y_proba_val, data.y_val, **known)
    >>> verdicts = Verdicts(data.y_proba_val, data.y_val)
    >>> half = data.y_proba_target[:2500]
    >>> verdicts.on(fitted.estimate(half), half)
    'unclear'
    """

    def __init__(
        self,
        y_proba_val: ArrayLike,
        y_val: ArrayLike,
        source_label_priors: Any = None,
        *,
        budget: int = 40_000_000,
    ) -> None:
        self.validation = check_proba(y_proba_val, "y_proba_val"), y_val
        self.source_label_priors, self.budget = source_label_priors, budget
        self._mean: CalibratedMean | None = None

    def on(
        self, estimate: PriorEstimate, y_proba: ArrayLike, y: ArrayLike | None = None
    ) -> Verdict | None:
        """Return the verdict on some rows; None once the budget is spent.

        Parameters
        ----------
        estimate : PriorEstimate
            The priors of these rows.
        y_proba : array-like of shape (n_samples, n_classes)
        y : array-like of shape (n_samples,), optional
            Their labels, where known.
        """
        data = _read(*self.validation, y_proba, y, estimate.classes)
        K, n_rows = data.classes.size, data.y_val.size + data.n_target
        if K > MOST_CLASSES or self.budget < n_rows * (K + 10):
            self.budget = 0
            return None
        self.budget -= n_rows * (K + 10)
        if data.y_proba_val.decided is not None:
            return "leave"  # decisions cannot be adapted
        given = {"source_label_priors": self.source_label_priors}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self._mean is None:
                rows = data.y_proba_val, data.classes[data.y_val]
                self._mean = evidence.fit_mean(None, data.classes, *rows, **given)
            test = _test(data, given, 0, [], assumption=False)
            return Case(data, estimate, test, fitted=self._mean).ruling.verdict


# Inputs


class Data(NamedTuple):
    """Checked inputs; of a large target a sample.

    `labelled` are the rows of the target with a label, `y_target` their labels, and `labels` these
    by name, None elsewhere. `decided_shares` are those of decisions as counted, None where there
    are probabilities.
    """

    classes: Labels
    y_proba_val: Predictions
    y_val: Indices
    y_proba_target: Predictions
    labelled: Indices
    y_target: Indices
    labels: NDArray[np.object_]
    n_target: int
    decided_shares: Vector | None


def _read(y_proba_val: Any, y_val: Any, y_proba_target: Any, y_target: Any, classes: Any) -> Data:
    names, validation, y = read_labelled(
        y_proba_val, y_val, classes, name="y_proba_val", label_name="y_val"
    )
    y_proba_target, y_target = column_of(y_proba_target, y_target, "y_target", "y_proba_target")
    warn_if_adapted(y_proba_target, "y_proba_target")
    named = validation.named
    target = read_proba(y_proba_target, names, "y_proba_target", tables=True, named=named)
    n, K = target.shape
    index = draw_rows(n, K)
    target = target.take(index)
    known, truth = known_labels(y_target, names, n)
    position = np.searchsorted(index, known)
    kept = (position < index.size) & (index[np.minimum(position, index.size - 1)] == known)
    labelled, truth, shares = position[kept], truth[kept], None
    labels = np.full(index.size, None, dtype=object)
    labels[labelled] = names[truth]
    if target.decided is not None:
        shares = np.bincount(target.decided, minlength=K) / target.decided.size
    return Data(names, validation, y, target, labelled, truth, labels, n, shares)


# The evidence


class Case:
    """A target with all evidence about it, and the verdict.

    To build one is to gather the evidence (`_read_both_ways`, `_read_labels`), to look for what
    makes it worthless (`_find_obstacle`), and to ask `priorshift.verdict.judge`. `tell` then says
    all of it, and which shares to report (`choose_shares`), as an `Assessment`.

    Attributes
    ----------
    estimate, mean : PriorEstimate
        Both readings of the target; decisions have no calibrated mean.
    kind : Kind
    before : ndarray of shape (n_classes,)
        Class shares before, of both readings.
    moved : float
        How far the estimate moved from them, in total variation.
    promises : dict from action to Promise
        What actions gain by validation and predictions; empty for decisions.
    changed : float
        Share of the decisions that adapting in full changes.
    measured, ppi : Measured and PriorEstimate, or None
        The goal and the shares by labels of the target.
    errs_otherwise : bool
        Whether these labels show that decisions within classes are not as on validation.
    gains, shares : dict from action to Gain, and two arrays, or None
        What actions gain by labels of the target; class shares by them, and their variance.
    unknown_classes : list
        Classes that nothing is known of, so that predictions cannot be adapted to them.
    obstacle : Fact or None
        Why nothing can be judged.
    near : Backtest or None
        Labelled history, if some group of it moved as far as the target.
    ruling : Ruling
    """

    mean: PriorEstimate | None = None
    kind = Kind()
    moved = changed = 0.0
    measured: Measured | None = None
    ppi: PriorEstimate | None = None
    errs_otherwise = False
    gains: dict[Action, Gain] | None = None
    shares: tuple[Vector, Vector] | None = None

    def __init__(
        self,
        data: Data,
        estimate: PriorEstimate,
        test: evidence.ShiftTest | None = None,
        *,
        level: float = 0.95,
        goal: Goal = ACCURACY,
        fitted: CalibratedMean | None = None,
        groups: Indices | None = None,
        past: evidence.Backtest | None = None,
        assumed: bool = False,
    ) -> None:
        own, goal = estimate.decision, goal.at(estimate.priors)
        self.data, self.test, self.past, self.level, self.goal = data, test, past, level, goal
        self.given = self.estimate = estimate
        self.assumption = None if test is None else test.assumption
        self.unknown_classes: list[Any] = [] if own is None else list(own["unknown_classes"])
        self.class_counts = np.bincount(data.y_val, minlength=data.classes.size)
        self.promises: dict[Action, Promise] = {}

        # the evidence; decisions stay what they are, whatever is done
        actions = evidence.Acted(*[data.y_proba_target.values] * 3)
        if fitted is not None:
            actions = self._read_both_ways(fitted, groups)
        if data.labelled.size >= 2:
            self._read_labels(actions)
        far = 0.0 if past is None else max(group.moved for group in past.groups)
        self.near = past if far >= self.moved else None

        # the verdict
        self.obstacle = self._find_obstacle(assumed)
        self.assumed = assumed and self.obstacle is None
        why = None if self.obstacle is None else self.obstacle.name
        if self.mean is None:  # decisions cannot be adapted one by one, and are always left
            verdict: Verdict = "unclear" if why is not None and self.ppi is None else "leave"
            self.ruling = Ruling(verdict, "none", why or "decisions", Gain(0.0, 0.0))
            return
        # without a test, what the method decided tells whether the class balance changed
        by_method = own is None or own["reason"] != "no_shift"
        shifted = by_method if test is None else test.rejected
        self.ruling = judge(
            self.promises,
            self.kind,
            shifted=shifted or self.kind.explained is not None,
            measured=self.gains,
            past=None if self.near is None else self.near.gains,
            assumed=self.assumed,
            obstacle=why,
            worth=WORTH * goal.cost_of_error(estimate.priors),
        )

    def _read_both_ways(self, fitted: CalibratedMean, groups: Indices | None) -> evidence.Acted:
        """Read the target under prior and under covariate shift: shares, and what actions gain.

        Returns the target's predictions as each action leaves them.
        """
        data, goal, own = self.data, self.goal, self.estimate.decision
        mean = self.mean = fitted.estimate(data.y_proba_target, self.level)
        if own is not None:
            self.estimate = replace(self.estimate, calibration=mean.calibrator)
        rows, estimate = data.y_proba_val.values, self.estimate
        target = evidence.act(estimate, mean, data.y_proba_target.values)
        validation = evidence.act(estimate, mean, rows, fitted.out_of_fold())
        assert mean.source_priors is not None
        self.before = before = mean.source_priors
        p, m = estimate.priors, mean.priors
        self.moved, by_mean = float(total_variation(p, before)), float(total_variation(m, before))
        kind = Kind(1.0, 1.0, 1.0)  # nothing speaks against prior shift
        if data.classes.size <= MOST_CLASSES:
            kind = evidence.explain_by_priors(rows, data.y_val, target.y_proba, before, self.level)
        # a weak classifier amplifies a small drift many times
        amplification = 1.0 if self.moved == 0 else np.inf
        if by_mean > 0:
            amplification = self.moved / by_mean
        self.kind = kind._replace(amplification=amplification)
        shares, covariance = np.array([before, m, p]), evidence.share_covariance(estimate)
        known = (goal, validation, data.y_val, target, shares, covariance, groups)
        adapting = evidence.promise(*known, adapts=True)
        if own is not None and own["goal"] == goal.name and groups is None:
            expected = Gain(own["full_gain"], own["full_gain_se"])  # one gain, one number
            adapting = adapting._replace(prior=expected)
        calibrating = evidence.promise(*known, adapts=False)
        self.promises = {"calibrate": calibrating, "adapt": adapting}
        self.changed = float((goal.decide(target.adapted) != goal.decide(target.y_proba)).mean())
        return target

    def _read_labels(self, target: evidence.Acted) -> None:
        """Measure the goal before and after, what actions gain, and the shares, by target labels.

        Labels are weighed by stratum: those of `rows_to_label` were not drawn alike.
        """
        data, goal, level = self.data, self.goal, self.level
        n, y = data.labelled.size, data.y_target
        strata = evidence.Strata(evidence.rows_that_differ(goal, target), data.labelled, y)
        if self.mean is not None:
            self.shares = evidence.measure_shares(target.calibrated, strata)
            # labels tell what actions gain if any is on a row that they change
            if strata.changed[data.labelled].any() or not strata.changed.any():
                self.gains = evidence.measure_gains(goal, target, strata)
        # 1 over each label's chance of being asked for; labels drawn at random fall on changed
        # rows as often as rows are changed
        weight, share = np.ones(n), strata.changed.mean()
        on_changed = strata.changed[data.labelled]
        if abs(on_changed.sum() - n * share) > 3 * np.sqrt(n * share * (1 - share)):
            size = np.where(on_changed, share, 1 - share)
            weight = size / np.where(on_changed, on_changed.sum(), n - on_changed.sum())
        alike = np.allclose(weight, weight[0])
        before, after = (
            goal.scores(y, one[data.labelled]) for one in (target.y_proba, target.adapted)
        )
        if goal.name == "balanced_accuracy":  # every class that occurs weighs the same
            counts = np.bincount(y, weight)
            scale = weight.sum() / (np.count_nonzero(counts) * counts[y])
            before, after = before * scale, after * scale
        least, most = goal.bounds

        def mean(scores: Vector, low: float, high: float) -> evidence.Expected:
            value, variance = strata.mean(scores, 0.5)
            return evidence.Expected.of(float(value), float(np.sqrt(variance)), level, (low, high))

        saved = after - before if goal.name in IN_POINTS else before - after
        promised = p_value = None
        if alike or not strata.changed.any():
            right = (goal.decide(target.y_proba[data.labelled]) == y).astype(np.float64)
            hits = goal.decide(data.y_proba_val.values) == data.y_val
            promised, p_value = compare_recall(data.y_val, hits, y, right, data.classes.size)
            self.errs_otherwise = p_value is not None and p_value <= 1 - level
        scores = mean(before, least, most), mean(after, least, most)
        gain = mean(saved, least - most, most - least)
        self.measured = Measured(n, *scores, gain, promised, p_value)
        weights = None
        if not alike:
            weights = np.ones(len(target.y_proba))
            weights[data.labelled] = weight
        known: Any = {"y_target": data.labels, "sample_weight": weights}
        shares = PPI().fit(classes=data.classes).estimate(data.y_proba_target, level, **known)
        unseen = np.setdiff1d(np.array(self.estimate.unseen_classes), data.classes[y]).tolist()
        self.ppi = replace(shares, unseen_classes=tuple(unseen))

    def _find_obstacle(self, assumed: bool) -> Fact | None:
        """Say why nothing can be judged, if so: inputs that do not fit, or an unknown class."""
        data, kind, found = self.data, self.kind, self.assumption
        values, y = data.y_proba_val.values, data.y_val
        if self.mean is None:
            return found.fact_of_decisions() if found is not None and found.rejected else None
        if data.n_target < FEWEST_TARGET_ROWS:
            return fact("few_target_rows", n=data.n_target, least=FEWEST_TARGET_ROWS)
        if (said := order_in_words(values, y, data.classes)) is not None:
            return fact("columns_swapped", text=said)
        z, least = evidence.label_information(values, y)
        if z is not None and z < least:
            if y.size < evidence.FEW_ROWS:
                return fact("few_rows", n=y.size, least=evidence.FEW_ROWS)
            return fact("no_information", n=y.size, z=z, least=least)
        if unknown := self.unknown_classes:
            return fact("unknown_class", n=len(unknown))
        if self.gains is not None:  # labels of the target tell, whatever validation is worth
            return None
        if (seen := self._looks_trained_on()) is not None:
            return seen
        if not assumed:
            return None
        if (swapped := self._target_swapped()) is not None:
            return swapped
        # most targets have more once their columns are swapped or they were adapted before, and
        # hardly any natural one does
        refuted = not kind.possible or (found is not None and found.rejected)
        if kind.explained is None or kind.unexplained < 0.3 or not refuted:
            return None
        return fact("assumed_wrongly", unlike=min(kind.unexplained, 1.0), share=kind.explained)

    def _target_swapped(self) -> Fact | None:
        """Name an order of the target's columns that explains far more of it, if there is one.

        Other changes can look like that, so it is a question, but enough to take nobody's word.
        """
        data, unlike = self.data, self.kind.unexplained
        rows = data.y_proba_val.values, data.y_val, data.y_proba_target.values
        found = evidence.find_order(*rows, self.before, unlike)
        if found is None:
            return None
        order, left = found
        names = [str(name) for name in data.classes[np.argsort(order)]]
        return fact("target_swapped", names=names, unlike=min(unlike, 1.0), left=left)

    def _looks_trained_on(self) -> Fact | None:
        """Say that the model seems to have been trained on validation, if so.

        95% of validation or more is right, and the model is less sure of the target, by five
        points, than of validation's classes at the target's shares: new rows are harder than known
        ones.
        """
        priors, y = self.estimate.priors, self.data.y_val
        val, rows = self.data.y_proba_val.values, self.class_counts
        accuracy = float((val.argmax(axis=1) == y).mean())
        sure = np.bincount(y, val.max(axis=1), priors.size) / np.maximum(rows, 1)
        shares = np.where(rows > 0, priors, 0.0)
        expected = float(shares @ sure / max(shares.sum(), 1e-12))
        confidence = float(self.data.y_proba_target.values.max(axis=1).mean())
        if accuracy < 0.95 or expected - confidence < 0.05:
            return None
        return fact("seen_before", accuracy=accuracy, expected=expected, confidence=confidence)

    def choose_shares(self) -> PriorEstimate:
        """Choose the shares to report: by labels, by history, or between both readings."""
        estimate, mean, ppi = self.estimate, self.mean, self.ppi
        if mean is None:  # decisions: what labels say where they contradict the estimate, or more
            if ppi is None or ppi.interval is None or ppi.standard_error is None:
                return estimate
            low, high = ppi.interval.T
            outside = ((estimate.priors < low) | (estimate.priors > high)).any()
            if self.ruling.why == "drifted" or self.errs_otherwise or outside:
                return ppi
            error = estimate.standard_error
            return ppi if error is None or error.mean() > ppi.standard_error.mean() else estimate
        if self.near is not None and self.near.gains is not None and not self.assumed:
            reading = evidence.shares_by_history(estimate, mean, self.near, self.level)
        elif self.assumed and estimate.interval is not None:  # nothing else is possible, you say
            reading = estimate
        else:
            reading = evidence.hedge_shares(
                estimate,
                mean,
                self.kind,
                self.data.y_val.size,
                self.level,
                supported=self.assumed or self.ruling.why == "helps",
            )
        if self.shares is None:
            return reading
        return evidence.shares_by_labels(reading, *self.shares, self.level)

    def facts(
        self, report: PriorEstimate, diagnostics: evidence.Diagnostics | None, missing: list[Fact]
    ) -> Iterator[Fact]:
        """List what the verdict rests on, what is missing, and what would help if it is unclear."""
        data, estimate, mean, goal = self.data, self.estimate, self.mean, self.goal
        level, test, labels, kind = self.level, self.test, self.measured, self.kind
        found, sizes = self.assumption, {"n_val": data.y_val.size, "n_target": data.n_target}
        if self.obstacle is not None:
            yield self.obstacle
        if self.gains is not None and (seen := self._looks_trained_on()) is not None:
            yield seen
        if test is not None:  # how far it changed is what the estimate says, as everywhere
            yield test.fact((report if mean is None else estimate).total_variation)
        if mean is None and found is None:
            yield fact("by_decisions", n_target=data.n_target)
        elif mean is None and found is not None:
            if not (found.rejected or self.errs_otherwise):  # else it is said elsewhere
                yield found.fact_of_decisions()
        else:
            if kind.explained is None:
                noticed = test is not None and test.rejected
                yield fact("little_changed" if noticed else "nothing_changed", **sizes)
            elif data.classes.size <= MOST_CLASSES:
                yield fact("explained", share=kind.explained, low=kind.low, high=kind.high)
            if self.assumed:
                well = kind.explained is None or kind.explained >= WELL
                yield fact("assumed", share=None if well else kind.explained)
            if found is not None and (found.n_repeated_val or found.n_repeated_target):
                yield fact("repeated", n_val=found.n_repeated_val, n_target=found.n_repeated_target)
            full, possible = self.promises["adapt"], (-1.0, 1.0) if goal.name in IN_POINTS else None
            readings = {"if_prior_shift": full.prior, "if_covariate_shift": full.covariate}
            for name, gain in readings.items():
                bounds = asdict(evidence.Expected.of(*gain, level, possible))
                yield fact(name, goal=goal.name, **bounds, level=level, changed=self.changed)
        if self.past is not None:
            yield fact("history", text=self.past.sentence)
            if self.near is None:
                yield fact("moved_further", moved=self.moved)
        if labels is not None:
            n, before, after = labels.n_labelled, labels.before, labels.after
            if mean is None:
                yield fact("measured_decisions", n=n, right=before.value)
            else:
                yield fact(
                    "measured",
                    goal=goal.name,
                    n=n,
                    before=before.value,
                    after=after.value,
                    before_interval=(before.low, before.high),
                    after_interval=(after.low, after.high),
                )
            if self.errs_otherwise:
                promised = labels.expected_before
                yield fact("not_as_on_validation", p_value=labels.p_value, promised=promised)
            elif labels.p_value is not None:
                yield fact("as_on_validation", p_value=labels.p_value)
        if mean is not None:
            assert report.interval is not None
            apart = np.abs(estimate.priors - mean.priors)
            k = 1 if apart.size == 2 else int(apart.argmax())  # of two classes the positive one
            low, high = report.interval[k].tolist()
            yield fact(
                "readings",
                label=str(data.classes[k]),
                report=float(report.priors[k]),
                mean=float(mean.priors[k]),
                prior=float(estimate.priors[k]),
                before=float(self.before[k]),
                low=low,
                high=high,
                level=level,
            )
            # where one of two classes is rare, accuracy says little
            if data.classes.size == 2 and goal.name == "accuracy" and report.priors.min() < 0.05:
                label, other = map(str, data.classes[np.argsort(report.priors)].tolist())
                yield fact("rare", label=label, other=other, share=float(report.priors.min()))
            swapped = self._target_swapped()
            if swapped is not None and self.ruling.why != swapped.name:  # else it was said first
                yield swapped
        decided = estimate.decision
        if decided is not None and decided["mismatch"] is not None:
            yield fact("mismatch", text=decided["mismatch"])
        yield from missing
        if (looked_at := data.y_proba_target.shape[0]) < data.n_target:
            yield fact("sampled", n=looked_at, n_target=data.n_target)
        if self.ruling.verdict != "unclear" or self.obstacle is not None:
            return
        # more rows, and always a few labels
        counts, rarest = self.class_counts, int(self.class_counts.argmin())
        effective = evidence.FEW_ROWS if diagnostics is None else diagnostics.effective_sample_size
        if min(effective, counts[rarest]) < evidence.FEW_ROWS:
            few = {"label": str(data.classes[rarest]), "n": int(counts[rarest])}
            yield fact("more_validation", **few, n_val=data.y_val.size)
        elif data.n_target < evidence.FEW_ROWS * data.classes.size:
            yield fact("more_target", n=data.n_target)
        yield fact("label_rows", n=min(LABELS, data.n_target), more=labels is not None)

    def tell(self, missing: list[Fact]) -> Assessment:
        """Put everything together, and say it; `missing` is what could not be worked out."""
        data, estimate, goal, ruling = self.data, self.estimate, self.goal, self.ruling
        rows = data.y_proba_val, data.classes[data.y_val], data.y_proba_target
        diagnostics = before = after = None
        try:
            diagnostics = evidence.diagnose(*rows, self.given, confidence_level=self.level)
            before, after = diagnostics.accuracy_before, diagnostics.accuracy_after
        except ValueError as error:
            if data.decided_shares is None:  # of decisions, it is about adapting them
                missing.append(fact("no_diagnostics", error=str(error)))
        if goal.name != "accuracy":
            before, after = self._expect_scores()
        possible = (-1.0, 1.0) if goal.name in IN_POINTS else None
        gain = evidence.Expected.of(*ruling.gain, self.level, possible)
        decided = data.decided_shares
        if before is not None and after is not None:
            # before plus the gain by all evidence, with an interval as by validation
            moved = gain.value if goal.name in IN_POINTS else -gain.value
            after = after.moved_to(before.value + moved, goal.bounds) if decided is None else None
        report = self.choose_shares()
        if estimate.source_priors is not None:  # one "before" for all readings
            report = replace(
                report,
                source_priors=estimate.source_priors,
                source_priors_from=estimate.source_priors_from,
            )
        facts = list(self.facts(report, diagnostics, missing))
        acting = following(estimate, ruling.action, self.mean)
        if decided is None:
            said = headline(
                ruling,
                goal.name,
                (gain.value, gain.low, gain.high),
                scores=None if before is None or after is None else (before.value, after.value),
                shifted=self.test is not None and self.test.rejected,
                unknown=self.unknown_classes,
            )
            facts += threshold_facts(acting, goal.costs)
        else:
            # a verdict such as "unsure" that is no label of validation has no share
            shares, vague = report.priors, None
            labels = np.flatnonzero(~np.isin(report.classes, report.unseen_classes))
            if (k := vaguest_share(report)) is not None and report.interval is not None:
                vague = (report.classes[k], *report.interval[k].tolist())
            few = labels.size <= 3  # else the two that moved most are named
            most = labels if few else labels[movers((shares - decided)[labels], 2)]
            named = [(report.classes[k], float(shares[k]), float(decided[k])) for k in most]
            said = decisions_headline(
                named,
                all_named=few,
                vague=vague,
                drifted=ruling.verdict == "unclear",
                erred=self.errs_otherwise,
            )
        if acting.decision is not None:  # what is done, whatever the method would do by itself
            done = {"adapt": ruling.action == "adapt", "reason": ruling.why, "sentence": str(said)}
            done["strength"] = acting.strength
            acting = replace(acting, decision={**acting.decision, **done})
        return Assessment(
            verdict=ruling.verdict,
            action=ruling.action,
            headline=said,
            facts=tuple(facts),
            gain=gain,
            estimate=acting,
            shift_test=self.test,
            assumption_test=self.assumption,
            diagnostics=diagnostics,
            measured=self.measured,
            ppi=self.ppi,
            kind=self.kind,
            calibrated_mean=self.mean,
            shares_to_report=report,
            backtest=self.past,
            n_val=data.y_val.size,
            n_target=data.n_target,
            rows_looked_at=data.y_proba_target.shape[0],
            goal=goal.name,
            score_before=before,
            score_after=after,
            costs=goal.costs,
            decided_shares=decided,
            _full=None if self.mean is None else evidence.ungated(estimate),
        )

    def _expect_scores(self) -> tuple[evidence.Expected, evidence.Expected] | tuple[None, None]:
        """Return the goal's score to expect on the target, before and after adapting.

        Per class as on validation, weighted by the estimated shares; in balanced accuracy all
        classes weigh the same. The estimate that made the rule also scores it.
        """
        data, estimate, goal = self.data, self.given, self.goal
        rows, y, K = data.y_proba_val.values, data.y_val, data.classes.size
        seen, noise = self.class_counts > 0, np.zeros((K, K))
        shares = np.where(seen, estimate.priors, 0.0)
        if not shares.any():
            return None, None
        if goal.name == "balanced_accuracy":
            shares = seen.astype(np.float64)
        elif estimate.standard_error is not None:
            noise = np.diag(estimate.standard_error**2)
        adapted = evidence.adapt_rows(evidence.ungated(estimate), rows)
        known = (y, shares / shares.sum(), noise, self.level, goal.bounds)
        before = evidence.expected_score(goal.scores(y, rows), *known)
        return before, evidence.expected_score(goal.scores(y, adapted), *known)


def compare_recall(
    y_val: Indices, right_val: Vector | NDArray[Any], y: Indices, right: Vector, n_classes: int
) -> tuple[float | None, float | None]:
    r"""Test whether decisions within classes are as good as on validation.

    With :math:`a_k` of :math:`n_k` labelled rows of class k decided rightly, and :math:`A_k` of all
    :math:`T_k`, validation's :math:`m_k` among them, the sum over K classes

    .. math:: \chi^2_K = \sum_k \frac{(a_k - n_k A_k / T_k)^2}{n_k m_k A_k (T_k - A_k) /
              (T_k^2 (T_k - 1))}

    compares each class by the moments of the hypergeometric distribution, as in the test of
    Cochran, Mantel and Haenszel (1959), but whatever the direction.

    Returns the accuracy that validation promises on these rows, and the p-value.
    """
    K = n_classes
    m, n = np.bincount(y_val, minlength=K), np.bincount(y, minlength=K)
    both = (m > 0) & (n > 0)
    if not both.any():
        return None, None
    hits, found = np.bincount(y_val, right_val, K)[both], np.bincount(y, right, K)[both]
    m, n = m[both].astype(np.float64), n[both].astype(np.float64)
    promised = float((n * hits / m).sum() / n.sum())
    A, T = hits + found, m + n
    variance = n * m * A * (T - A) / (T**2 * np.maximum(T - 1, 1))
    tells = variance > 0  # not where all are right, or all wrong
    if not tells.any():
        return promised, None
    square = (found - n * A / T)[tells] ** 2 / variance[tells]
    return promised, float(chdtrc(np.count_nonzero(tells), square.sum()))


def _test(
    data: Data, given: dict[str, Any], seed: Any, missing: list[Fact], *, assumption: bool = True
) -> evidence.ShiftTest | None:
    """Test for a shift, and for nothing but a shift, unless that takes too long: then say so.

    Of a side that is too large, a random part is tested.
    """
    K = data.classes.size
    if K > MOST_CLASSES:
        missing.append(fact("too_many_classes", n=K))
        return None
    most, rng = MOST_NUMBERS // (K + 10), np.random.default_rng(0)
    validation, y, target = data.y_proba_val, data.y_val, data.y_proba_target
    if y.size > most:
        rows = np.sort(rng.choice(y.size, most, replace=False))
        validation, y = validation.take(rows), y[rows]
    if target.shape[0] > most:
        target = target.take(np.sort(rng.choice(target.shape[0], most, replace=False)))
    many = (y.size + target.shape[0]) * (K + 10) > MANY_NUMBERS
    try:
        return evidence.detect_shift(
            validation,
            data.classes[y],
            target,
            classes=data.classes,
            n_resamples=199 if many else 999,
            assumption=assumption and K <= MOST_CLASSES_OF_ASSUMPTION,
            effect=False,
            random_state=seed,
            **given,
        )
    except ValueError as error:
        missing.append(fact("no_test", error=str(error)))
        return None


def vaguest_share(estimate: PriorEstimate) -> int | None:
    """Return the class whose share is least known, if it is too vague to report."""
    if estimate.interval is None:
        return None
    width = np.ptp(estimate.interval, axis=1)
    # so wide an interval leaves nothing to report: a judgement, not a fit
    return int(width.argmax()) if width.max() >= 0.5 else None


def following(
    estimate: PriorEstimate, action: Action, mean: PriorEstimate | None = None
) -> PriorEstimate:
    """Return an estimate whose `adapt` does what the verdict says."""
    if action == "adapt":
        return evidence.ungated(estimate)
    found = estimate.with_action(action)
    if action == "calibrate" and found.calibrator is None and mean is not None:
        return replace(found, calibrator=mean.calibrator)
    return found


def threshold_facts(shift: PriorEstimate, costs: Vector | None = None) -> list[Fact]:
    """Tell from which score on two classes are decided for the second; nothing if it is 1/2."""
    before = shift.source_priors
    # a class that was never predicted in training has no ratio to adapt by
    known = shift.classes.size == 2 and before is not None and bool((before > NO_PRIOR).all())
    cut = binary_cut(costs) if known else None
    raw = None if cut is None else shift.threshold(costs)
    if cut is None or (costs is None and raw is not None and abs(raw - cut) < 1e-6):
        return []
    return [fact("threshold", label=str(shift.classes[1]), cut=cut, raw=raw)]
