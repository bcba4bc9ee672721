"""MonitorStep: what is known after a batch."""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priorshift._frozen import refuse_nan
from priorshift._typing import Vector
from priorshift.estimators import PriorEstimate

Time = str | int | float | None
"""What a step keeps of the time it was given: dates become ISO text."""

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
        The priors by now, from this batch and those before it, as far as they count.
    y_proba : ndarray or None
        The batch's probabilities, adapted to those priors.
    log_e_value : float
        Evidence, in nats, that the stream does not go on as it began. It may fall again.
    log_threshold : float
        Evidence that raises the alarm.
    p_value : float
        Valid at any time: the smallest level at which the alarm would stand by now.
    alarm : bool
        Whether the alarm stands: it was raised at this step or before, and not acknowledged since.
    raised : bool
        Whether it was raised at this very step.
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
        """The estimated priors by now, in the order of the classes."""
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
    """Write a p-value; after a long alarm it is too small for a number."""
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
    raise ValueError(f"time must be text, a finite number or a date; got {time!r}.")
