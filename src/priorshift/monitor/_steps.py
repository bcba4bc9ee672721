"""MonitorStep: what a monitor knows after a batch; MonitorHistory: all steps, as arrays."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priorshift._results import Backend, make_frame, refuse_nan
from priorshift._typing import Indices, Mask, Vector
from priorshift.adapt import total_variation
from priorshift.estimators import PriorEstimate
from priorshift.text import brief

Time = str | int | float | None
"""The time of a step as it is kept: dates become ISO text."""

LEAST_P = 1e-300


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

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON, without the adapted probabilities."""
        priors = dict(zip(self.estimate.classes.tolist(), self.priors.tolist(), strict=True))
        return {
            "index": self.index,
            "time": self.time,
            "n_samples": self.n_samples,
            "priors": priors,
            "log_e_value": self.log_e_value,
            "log_threshold": self.log_threshold,
            "p_value": self.p_value,
            "alarm": self.alarm,
            "raised": self.raised,
        }

    def __repr__(self) -> str:
        when = f"{self.index}" if self.time is None else f"{self.index}, {self.time}"
        return f"MonitorStep({when}: {self.n_samples} rows, {describe(self)})"


def describe(step: Any) -> str:
    """Say in words what a step means."""
    if step.raised:
        return f"alarm, {_p_text(step.p_value)}"
    if step.alarm:
        return "the alarm stands"
    return f"no alarm, {_p_text(step.p_value)}"


def _p_text(p_value: float) -> str:
    """Write a p-value; after a long alarm it is too small for a float."""
    return f"p = {p_value:.2g}" if p_value > LEAST_P else f"p < {LEAST_P:g}"


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


@dataclass(frozen=True, eq=False)
class Record:
    """What a history keeps of a step: no rows, no solver."""

    index: int
    time: Time
    n_samples: int
    priors: Vector
    log_e_value: float
    p_value: float
    alarm: bool
    raised: bool

    @classmethod
    def of(cls, step: MonitorStep) -> "Record":
        """Copy the fields from a step."""
        return cls(**{field.name: getattr(step, field.name) for field in fields(cls)})


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
    priors : ndarray of shape (n_steps, n_classes)
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
    log_e_value: Vector
    p_value: Vector
    alarm: Mask
    raised: Mask

    def __post_init__(self) -> None:
        refuse_nan(self)

    @classmethod
    def of(cls, records: Iterable[Record], **about: Any) -> "MonitorHistory":
        """Turn records into arrays."""
        kept = list(records)
        K = about["classes"].size
        return cls(
            **about,
            index=np.array([record.index for record in kept], dtype=np.intp),
            time=tuple(record.time for record in kept),
            n_samples=np.array([record.n_samples for record in kept], dtype=np.intp),
            priors=np.array([record.priors for record in kept]).reshape(-1, K),
            log_e_value=np.array([record.log_e_value for record in kept], dtype=np.float64),
            p_value=np.array([record.p_value for record in kept], dtype=np.float64),
            alarm=np.array([record.alarm for record in kept], dtype=bool),
            raised=np.array([record.raised for record in kept], dtype=bool),
        )

    def records(self) -> list[Record]:
        """Return the steps as records again."""
        columns = (
            *(self.index.tolist(), self.time, self.n_samples.tolist(), self.priors),
            *(self.log_e_value.tolist(), self.p_value.tolist()),
            *(self.alarm.tolist(), self.raised.tolist()),
        )
        return [Record(*values) for values in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return len(self.time)

    @property
    def total_variation(self) -> Any:
        """How far the priors are from the source priors at each step, where these are known."""
        if self.source_priors is None:
            return None
        return total_variation(self.priors, self.source_priors)

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return a frame of the named library, one row per step; priors are `prior:<class>`."""
        columns: dict[str, Any] = {
            "index": self.index,
            "time": list(self.time),
            "n_samples": self.n_samples,
            "log_e_value": self.log_e_value,
            "p_value": self.p_value,
            "alarm": self.alarm,
            "raised": self.raised,
        }
        if self.source_priors is not None:
            columns["total_variation"] = self.total_variation
        names = [f"prior:{name}" for name in self.classes.tolist()]
        return make_frame(columns | dict(zip(names, self.priors.T, strict=True)), backend)

    def __repr__(self) -> str:
        raised = self.index[self.raised].tolist()
        alarms = f"alarms raised at {raised}" if raised else "no alarm"
        return (
            f"MonitorHistory({len(self)} steps of {self.n_samples.sum():,} rows, "
            f"{self.method}, {self.online}, {alarms})"
        )
