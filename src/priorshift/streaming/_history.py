"""MonitorHistory: all steps of a monitor, as arrays."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priorshift._frames import Backend, make_frame
from priorshift._frozen import refuse_nan
from priorshift._typing import Indices, Mask, Vector
from priorshift.streaming._step import MonitorStep, Time


@dataclass(frozen=True, eq=False)
class Record:
    """What is kept of a step: no rows, no solver."""

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
        """Keep what a history needs."""
        return cls(**{field.name: getattr(step, field.name) for field in fields(cls)})


@dataclass(frozen=True, eq=False, repr=False)
class MonitorHistory:
    """Steps of a `PriorMonitor`, the oldest first; every array has one entry a step.

    Attributes
    ----------
    method, online : str
        Estimator, and how it weighs the past.
    classes : ndarray of shape (n_classes,)
    source_priors : ndarray of shape (n_classes,)
        Priors the classifier was trained under.
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
    source_priors: Vector
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
        """Put records beside each other."""
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
        """Take the steps apart again."""
        columns = (
            *(self.index.tolist(), self.time, self.n_samples.tolist(), self.priors),
            *(self.log_e_value.tolist(), self.p_value.tolist()),
            *(self.alarm.tolist(), self.raised.tolist()),
        )
        return [Record(*values) for values in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return len(self.time)

    @property
    def total_variation(self) -> Vector:
        """How far the priors are from those of the source, at each step."""
        return 0.5 * np.abs(self.priors - self.source_priors).sum(axis=1)

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return one row a step, as a frame of the named library; priors are `prior:<class>`."""
        columns: dict[str, Any] = {
            "index": self.index,
            "time": list(self.time),
            "n_samples": self.n_samples,
            "log_e_value": self.log_e_value,
            "p_value": self.p_value,
            "alarm": self.alarm,
            "raised": self.raised,
            "total_variation": self.total_variation,
        }
        names = [f"prior:{name}" for name in self.classes.tolist()]
        return make_frame(columns | dict(zip(names, self.priors.T, strict=True)), backend)

    def __repr__(self) -> str:
        raised = self.index[self.raised].tolist()
        alarms = f"alarms raised at {raised}" if raised else "no alarm"
        return (
            f"MonitorHistory({len(self)} steps of {self.n_samples.sum():,} rows, "
            f"{self.method}, {self.online}, {alarms})"
        )
