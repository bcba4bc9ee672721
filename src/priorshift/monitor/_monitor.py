"""PriorMonitor: follow the class priors of a stream of batches."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from priorshift._typing import Vector
from priorshift.border import (
    as_generator,
    check_choice,
    check_count,
    check_level,
    check_number,
    check_source_mass,
    column_of,
    read_proba,
    some,
)
from priorshift.counts import Confusion, DecisionCounts
from priorshift.estimators import CML, SCML, PriorEstimate, PriorEstimator, as_estimator
from priorshift.estimators.data import count_decisions
from priorshift.exceptions import PriorShiftWarning, warn_user
from priorshift.monitor import _state
from priorshift.monitor._alarm import Alarm
from priorshift.monitor._past import ONLINE, Online, Past
from priorshift.monitor._steps import MAX_HISTORY, MonitorHistory, MonitorStep, Record, plain_time


class PriorMonitor(BaseEstimator):
    r"""Follow the class priors of a stream, batch by batch, and raise an alarm when they change.

    Batches are reduced to counts of decisions, so memory does not grow with the stream. Each
    estimate uses a weighted sum of the counts of past batches:

    - "flh-ftl" finds out by itself how far back to look (Baby et al., 2023): far in quiet times,
      only back to the change after one.
    - "window": the last `window` batches, equally.
    - "exponential": all batches, with weights that halve every `half_life`.

    The alarm is a sequential test of whether hard decisions are as frequent as on validation and in
    the stream so far. **The chance that it is ever raised, over all time, is at most
    `alarm_level`** as long as nothing changes, whatever the size of validation. Repeating an
    ordinary test on every batch would raise a false alarm sooner or later.

    Parameters
    ----------
    estimator : PriorEstimator, optional
        A method for which counts of decisions suffice, such as SCML (the default), CML, CMM, SCMM,
        CM, SCM, BBSE, BBSES or RLLS. It is cloned and fitted.
    online : {"flh-ftl", "window", "exponential"}, default="flh-ftl"
        How each estimate weights the past.
    window : int, default=10
        Length of the window, in batches.
    half_life : float, default=5
        Half-life of the exponential weights, in batches.
    alarm_level : float, default=0.05
        Chance of a false alarm, over all time.
    random_state : None, int or numpy.random.Generator, optional
        Breaks ties in the test behind the alarm.

    Attributes
    ----------
    estimator_ : PriorEstimator
        Fitted.
    classes_ : ndarray of shape (n_classes,)
    source_priors_ : ndarray of shape (n_classes,) or None
        None where error rates are known but no source priors.
    n_features_in_ : int
        Number of classes.
    n_batches_ : int
        Batches seen.
    alarm_ : bool
        Whether an alarm is active.
    history : MonitorHistory
        The last steps.

    Notes
    -----
    The guarantee of the alarm assumes that rows of validation and stream are independent draws (of
    rows that belong together, such as frames of one film, keep one); that the classifier was not
    trained on validation; and that, until a change, the stream is like validation. The alarm
    notices any change in how often each class is predicted. A change of priors causes one, unless
    the classifier cannot see it; a change of p(x|y) does too, and `check_assumption` tells the two
    apart. A stream that drifts slowly is also compared with its own past, so evidence may come
    late; the estimates follow it all the same. See `priorshift.monitor._alarm` for the test.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> rng = np.random.default_rng(0)
    >>> def draw(priors, n):
    ...     y = rng.choice(2, n, p=priors)
    ...     x = 2 * y - 1 + rng.standard_normal(n)
    ...     return 1 / (1 + np.exp(-2 * x)), y
    >>> monitor = ps.PriorMonitor().fit(*draw([0.5, 0.5], 1000))
    >>> for day in range(5):
    ...     step = monitor.update(draw([0.5, 0.5], 200)[0], time=day)
    >>> step.alarm, step.priors.round(1)
    (False, array([0.5, 0.5]))
    >>> for day in range(5, 10):
    ...     step = monitor.update(draw([0.8, 0.2], 200)[0], time=day)
    >>> step.alarm, step.priors.round(1)
    (True, array([0.8, 0.2]))
    """

    _past: Past
    _alarm: Alarm
    _records: deque[Record]

    def __init__(
        self,
        estimator: PriorEstimator | None = None,
        *,
        online: Online = "flh-ftl",
        window: int = 10,
        half_life: float = 5.0,
        alarm_level: float = 0.05,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.estimator = estimator
        self.online, self.window, self.half_life = online, window, half_life
        self.alarm_level, self.random_state = alarm_level, random_state

    def fit(
        self,
        y_proba: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        y_pred: ArrayLike | None = None,
        confusion: Confusion | None = None,
        source_priors: Any = None,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Learn from a labelled validation set, ready for the first batch.

        Parameters
        ----------
        y_proba, y, y_pred, source_priors, classes
            As in the `fit` of every estimator; validation needs samples of every class, as often as
            the stream has them before a change. With decisions `y_pred`, the default estimator is
            CM-L.
        confusion : Confusion, optional
            Known error rates instead of a validation set, as in the `fit` of every estimator; the
            default estimator is CM-L. Nothing then tells what the stream was like before, so
            alarms compare it with its own past. Without `source_priors`, batches are not adapted.
        """
        default = SCML() if y_pred is None and confusion is None else CML()
        estimator = default if self.estimator is None else as_estimator(self.estimator)
        estimator.fit(
            y_proba,
            y,
            y_pred=y_pred,
            confusion=confusion,
            source_priors=source_priors,
            classes=classes,
        )
        found = getattr(estimator, "confusion_", None)
        if found is not None and not found.seen.all():
            lacking = some(estimator.classes_[~found.seen].tolist())
            raise ValueError(
                f"validation has no sample of class {lacking}, so counts of decisions cannot tell "
                "its share in a batch; add validation samples of every class."
            )
        if estimator.needs_rows:
            estimator.estimate_counts(DecisionCounts(np.zeros(0), "hard", 0))  # says why it cannot
        reference = np.zeros(estimator.classes_.size)  # rates are no sample of the source
        if confusion is None:
            if estimator._evidence.decisions_only:
                reference = estimator.confusion_.counts.sum(axis=1)
            else:
                values = read_proba(column_of(y_proba, y)[0], estimator.classes_).values
                reference = DecisionCounts.from_arrays(values, decision="hard").counts
            if reference.sum() < 50:  # hardly any change can be noticed
                warn_user(
                    f"alarms rest on {reference.sum():.0f} validation rows: only large shifts will "
                    "be noticed. Use a larger validation set.",
                    PriorShiftWarning,
                )
        seed = int(as_generator(self.random_state).integers(2**63))
        return self._begin(estimator, reference, seed)

    def update(
        self,
        y_proba: ArrayLike | None = None,
        *,
        y_pred: ArrayLike | None = None,
        time: Any = None,
        adapt: bool = True,
    ) -> MonitorStep:
        """Add the next batch.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities of the batch, from the same classifier.
        y_pred : array-like of shape (n_samples,), optional
            Decisions of the batch instead, for a monitor of hard decisions; there is nothing to
            adapt then.
        time : str, number or date, optional
            When the batch was observed, for history, plot and report.
        adapt : bool, default=True
            Whether to adapt the batch's probabilities to the new estimate.
        """
        check_is_fitted(self)
        when = plain_time(time)
        estimator = self.estimator_
        if y_pred is not None or estimator._evidence.decisions_only:
            hard = counts = count_decisions(estimator, y_pred, y_proba)
        else:
            values = read_proba(y_proba, self.classes_).values
            check_source_mass(self.source_priors_, values, self.classes_)
            hard = counts = DecisionCounts.from_arrays(values, decision="hard")
            if estimator.confusion_.decision == "soft":
                counts = DecisionCounts.from_arrays(values, decision="soft")
        past = self._past.add(counts.counts, window=self.window, half_life=float(self.half_life))
        estimate = self._estimate_from(past, self.online)
        adapted = None
        if adapt and y_proba is not None and self.source_priors_ is not None:
            adapted = estimate.adapt(y_proba)
        alarm = self._alarm.add(hard.counts)
        step = MonitorStep(
            index=self.n_batches_,
            time=when,
            n_samples=hard.n_samples,
            estimate=estimate,
            _solve_own=partial(estimator.estimate_counts, counts),
            y_proba=adapted,
            log_e_value=alarm.log_e_value,
            log_threshold=alarm.threshold,
            p_value=alarm.p_value,
            alarm=alarm.standing,
            raised=alarm.standing and not self._alarm.standing,
        )
        own: Vector | DecisionCounts = counts
        if not self._in_batch or not estimator._informative(counts.counts[None])[0]:
            own = step.own_priors  # what may refuse the batch does so now, not when somebody asks
        # all at once, so that a refused batch changes nothing
        self._past, self._alarm = past, alarm
        kept = {name: getattr(step, name) for name in Record._fields if name != "own_priors"}
        self._records.append(Record(**kept, own_priors=own))
        return step

    def estimate(self, online: Online | None = None) -> PriorEstimate:
        """Return the present estimate, by default as `online` says.

        All three ways are kept up to date, so you can ask for any of them at any time.
        """
        check_is_fitted(self)
        chosen = self.online if online is None else online
        check_choice(chosen, ONLINE, "online")
        if not self.n_batches_:
            raise ValueError("there is no batch yet; call update(y_proba) first.")
        return self._estimate_from(self._past, chosen)

    def acknowledge(self) -> Self:
        """Accept the present as normal: end an active alarm and start a new test.

        The stream is then compared with itself: with the batches after the one that raised
        the alarm, and with those to come. From then on the chance of a false alarm is again at most
        `alarm_level`. Estimates continue unchanged.
        """
        check_is_fitted(self)
        self._alarm = self._alarm.acknowledge()
        return self

    @property
    def n_batches_(self) -> int:
        """Batches seen."""
        return self._past.pools.n_batches

    @property
    def alarm_(self) -> bool:
        """Whether an alarm is active."""
        return self._alarm.standing

    @property
    def history(self) -> MonitorHistory:
        """The last steps, at most 10,000."""
        check_is_fitted(self)
        records = list(self._records)
        own = {i: r.own_priors for i, r in enumerate(records)}
        waiting = {i: one.counts for i, one in own.items() if isinstance(one, DecisionCounts)}
        if waiting:  # all batches by their own rows, solved together
            solved = self.estimator_._priors_of_groups(np.array(list(waiting.values())))
            for i, priors in zip(waiting, solved.value, strict=True):
                records[i] = records[i]._replace(own_priors=priors)
            self._records = deque(records, MAX_HISTORY)
        return MonitorHistory.of(
            records,
            method=self.estimator_.name,
            online=self.online,
            classes=self.classes_,
            source_priors=self.source_priors_,
            alarm_level=self.alarm_level,
        )

    save = _state.save
    load = classmethod(_state.load)

    def _begin(self, estimator: PriorEstimator, reference: Vector, seed: int) -> Self:
        """Check the parameters, and set the fitted attributes, with no batch seen."""
        check_choice(self.online, ONLINE, "online")
        check_count(self.window, "window")
        check_number(self.half_life, "half_life")
        check_level(self.alarm_level, "alarm_level")
        K = estimator.classes_.size
        self.estimator_, self.classes_ = estimator, estimator.classes_
        self.source_priors_, self.n_features_in_ = estimator._denominator, K
        certified = getattr(estimator, "solver", "certified") == "certified"
        concave = bool((estimator._hyper_prior >= 1).all())
        self._in_batch = estimator.batch == "counts" and certified and concave
        self._past = Past.empty(K)
        self._alarm = Alarm.against(reference, float(-np.log(self.alarm_level)), seed)
        self._records = deque(maxlen=MAX_HISTORY)
        return self

    def _estimate_from(self, past: Past, online: Online) -> PriorEstimate:
        pooled, decision = past.pooled(online), self.estimator_.confusion_.decision
        rows = max(round(float(pooled.sum())), 1)
        return self.estimator_.estimate_counts(DecisionCounts(pooled, decision, rows))
