"""MonitorStep: what a monitor knows after a batch; MonitorHistory: all steps, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from priorshift._results import Backend, make_frame, refuse_nan
from priorshift._typing import Indices, Mask, Vector
from priorshift.adapt import total_variation
from priorshift.border import LockFree
from priorshift.counts import DecisionCounts
from priorshift.estimators import PriorEstimate
from priorshift.text import brief

Time = str | int | float | None
"""The time of a step as it is kept: dates become ISO text."""

LEAST_P = 1e-300

MAX_HISTORY = 10_000
"""Steps that a history keeps."""

KINDS = {"index": np.intp, "n_samples": np.intp, "alarm": np.bool_, "raised": np.bool_}
"""Types of the columns of a history that are not float64."""


@dataclass(frozen=True, eq=False, repr=False)
class MonitorStep:
    """What a `PriorMonitor` knows after a batch.

    Attributes
    ----------
    index : int
        Number of the batch, from 0.
    time : str, int, float or None
        As given; dates as ISO text.
    n_samples : int
        Rows of the batch.
    estimate : PriorEstimate
        The present priors, from this batch and those before it as far as they count.
    own : PriorEstimate
        The priors of this batch by its rows alone: noisier, but nothing of the past is in them.
        Solved for when you first ask.
    y_proba : ndarray or None
        The batch's probabilities, adapted to those priors.
    log_e_value : float
        Evidence, in nats, that the stream is no longer as it was at the start. It may fall again.
    log_threshold : float
        Evidence that raises the alarm.
    p_value : float
        The smallest level at which the alarm would have been raised by now; valid at any time.
    alarm : bool
        Whether the alarm is active: raised at this step or before, and not acknowledged since.
    raised : bool
        Whether it was raised at this step.
    """

    index: int
    time: Time
    n_samples: int
    estimate: PriorEstimate
    _solve_own: Callable[[], PriorEstimate]
    y_proba: NDArray[Any] | None
    log_e_value: float
    log_threshold: float
    p_value: float
    alarm: bool
    raised: bool

    def __post_init__(self) -> None:
        refuse_nan(self)

    @property
    def priors(self) -> Vector:
        """The present estimate of the priors, in the order of the classes."""
        return self.estimate.priors

    @LockFree
    def own(self) -> PriorEstimate:
        """The estimate of this batch by its rows alone.

        It costs as much as the one that is followed, and many streams never need it.
        """
        return self._solve_own()

    def __getstate__(self) -> dict[str, Any]:
        """Keep the estimate alone: what solves for it may hold the rows of validation."""
        return {**vars(self), "own": self.own, "_solve_own": None}

    @property
    def own_priors(self) -> Vector:
        """The priors of this batch by its rows alone."""
        return self.own.priors

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON, without the adapted probabilities."""
        names = self.estimate.classes.tolist()
        named = {name: getattr(self, name) for name in (*Record._fields, "log_threshold")}
        for name in ("priors", "own_priors"):
            named[name] = dict(zip(names, named[name].tolist(), strict=True))
        return named

    def __repr__(self) -> str:
        when = f"{self.index}" if self.time is None else f"{self.index}, {self.time}"
        return f"MonitorStep({when}: {self.n_samples} rows, {describe(self)})"


def describe(step: Any) -> str:
    """Say in words what a step means."""
    if step.alarm and not step.raised:
        return "the alarm stands"
    # after a long alarm a p-value is too small for a float
    p = f"p = {step.p_value:.2g}" if step.p_value > LEAST_P else f"p < {LEAST_P:g}"
    return f"alarm, {p}" if step.raised else f"no alarm, {p}"


def plain_time(time: Any) -> Time:
    """Turn a time into what JSON can hold.

    Examples
    --------
    >>> from datetime import date
    >>> plain_time(date(2026, 5, 1)), plain_time(np.datetime64("2026-05-01T12")), plain_time(7)
    ('2026-05-01', '2026-05-01T12', 7)
    """
    if isinstance(time, np.datetime64):
        return str(time)
    if isinstance(time, np.generic):
        time = time.item()
    if isinstance(time, datetime | date):
        return time.isoformat()
    if time is None or (isinstance(time, str | int) and not isinstance(time, bool)):
        return time
    if isinstance(time, float) and np.isfinite(time):
        return time
    raise ValueError(f"time must be text, a finite number or a date; got {brief(time)}.")


class Record(NamedTuple):
    """What a history keeps of a step: no rows."""

    index: int  # type: ignore[assignment]
    time: Time
    n_samples: int
    priors: Vector
    own_priors: Vector | DecisionCounts  # counts until somebody asks for the history
    log_e_value: float
    p_value: float
    alarm: bool
    raised: bool


@dataclass(frozen=True, eq=False, repr=False)
class MonitorHistory:
    """Steps of a `PriorMonitor`, the oldest first; every array has one entry per step.

    Attributes
    ----------
    method, online : str
        Name of the estimator, and how past batches are weighted.
    classes : ndarray of shape (n_classes,)
    source_priors : ndarray of shape (n_classes,) or None
        Priors the classifier was trained under; None where they are not known.
    alarm_level : float
    index : ndarray of shape (n_steps,)
        Number of the batch.
    time : tuple
        As given to `update`; dates as ISO text.
    n_samples : ndarray of shape (n_steps,)
    priors, own_priors : ndarray of shape (n_steps, n_classes)
        Present estimate after each batch, and that of the batch alone.
    log_e_value, p_value : ndarray of shape (n_steps,)
    alarm, raised : ndarray of bool of shape (n_steps,)
        See `MonitorStep`.
    """

    method: str
    online: str
    classes: NDArray[Any]
    source_priors: Any  # a Vector, or None
    alarm_level: float
    index: Indices
    time: tuple[Time, ...]
    n_samples: Indices
    priors: Vector
    own_priors: Vector
    log_e_value: Vector
    p_value: Vector
    alarm: Mask
    raised: Mask

    def __post_init__(self) -> None:
        refuse_nan(self)

    @classmethod
    def of(cls, records: Iterable[Record], **about: Any) -> MonitorHistory:
        """Turn records into arrays."""
        columns = zip(*records, strict=True)
        found: dict[str, Any] = dict.fromkeys(Record._fields, ())
        found |= zip(Record._fields, columns, strict=False)
        K = about["classes"].size
        for name in Record._fields:
            if name != "time":
                shape = (-1, K) if "priors" in name else (-1,)
                found[name] = np.array(found[name], KINDS.get(name, np.float64)).reshape(shape)
        return cls(**about, **found)

    def records(self) -> list[Record]:
        """Return the steps as records again."""
        columns = (getattr(self, name) for name in Record._fields)
        return list(map(Record._make, zip(*columns, strict=True)))

    def __len__(self) -> int:
        return len(self.time)

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return a frame of the named library, one row per step.

        Priors are `prior:<class>`, those of the batch alone `own_prior:<class>`.
        """
        columns: dict[str, Any] = {
            name: getattr(self, name) for name in Record._fields if "priors" not in name
        }
        columns["time"] = list(self.time)
        if self.source_priors is not None:
            columns["total_variation"] = total_variation(self.priors, self.source_priors)
        for name, shares in (("prior", self.priors), ("own_prior", self.own_priors)):
            of_class = [f"{name}:{label}" for label in self.classes.tolist()]
            columns |= dict(zip(of_class, shares.T, strict=True))
        return make_frame(columns, backend)

    def __repr__(self) -> str:
        raised = self.index[self.raised].tolist()
        alarms = f"alarms raised at {raised}" if raised else "no alarm"
        return (
            f"MonitorHistory({len(self)} steps of {self.n_samples.sum():,} rows, "
            f"{self.method}, {self.online}, {alarms})"
        )
