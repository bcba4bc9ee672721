"""A monitor as a file: signed JSON, versioned, never pickled.

A checksum reveals damage. It does not reveal a file that somebody edited with care, or that other
code wrote. So kinds, shapes and ranges are checked too, and a monitor made of a file has to take a
batch, on trial, before it is handed out.
"""

from __future__ import annotations

import math
import os
import warnings
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from priorshift._version import __version__
from priorshift.border import check_classes, check_priors, some
from priorshift.estimators import PriorEstimator, available_estimators, get_estimator
from priorshift.estimators.data import Evidence
from priorshift.files import (
    array_from_json,
    array_to_json,
    read_json,
    read_private,
    refuse_link,
    require_file,
    sign,
    verify,
    write_json,
    write_text,
)
from priorshift.monitor._past import ONLINE
from priorshift.monitor._steps import plain_time

if TYPE_CHECKING:
    from priorshift.monitor._monitor import PriorMonitor

FORMAT = "priorshift monitor"
VERSION = 4
"""Increases when the previous version of priorshift could no longer read the file."""

LARGEST = 2**53
"""Largest count: beyond it, float64 has gaps."""


def save(self: PriorMonitor, path: str | os.PathLike[str]) -> Path:
    """Write everything needed to continue, as JSON with a checksum, atomically.

    Parameters
    ----------
    path : path-like
        File to write or replace; a link is refused.
    """
    check_is_fitted(self)
    refuse_link(path)
    fitted = self.estimator_
    name, params = type(fitted).__name__, self.get_params(deep=False)
    del params["estimator"]
    if not isinstance(params["random_state"], int | np.integer):
        params["random_state"] = None  # everything it had to draw has been drawn
    try:
        registered = fitted.name in available_estimators()
        if not registered or type(get_estimator(fitted.name)) is not type(fitted):
            raise ValueError(
                f"no estimator of that class is registered as {fitted.name!r}, so the file could "
                f"not be read; call register_estimator({name})"
            )
        state, arrays = fitted._evidence.to_arrays()
        content = {
            "format": FORMAT,
            "version": VERSION,
            "priorshift_version": __version__,
            "params": {of: np.asarray(value).tolist() for of, value in params.items()},
            "estimator": {
                "method": fitted.name,
                "params": {
                    of: np.asarray(value).tolist() for of, value in fitted.get_params().items()
                },
                "arrays": _pack(arrays),
                **state,
            },
            "past": _pack(self._past),
            "alarm": _pack(self._alarm),
            "history": _pack(self.history),
        }
        restored = _unpack_monitor(type(self), content)  # never write what could not be read
        if lost := vars(fitted).keys() - vars(restored.estimator_).keys():
            raise ValueError(
                f"its fit also sets {some(sorted(lost))}, which a file of counts does not hold; "
                "set fit_is_counts = False on the class"
            )
        text = write_json(sign(content))
    except (TypeError, ValueError) as error:  # a parameter may be more than JSON can hold
        raise ValueError(f"a monitor with {name} cannot be saved: {error}.") from None
    return write_text(path, text)


def load(cls: type[PriorMonitor], path: str | os.PathLike[str]) -> PriorMonitor:
    """Read a saved monitor; it continues exactly where it was.

    Parameters
    ----------
    path : path-like
        A file that `save` wrote; a link is refused.
    """
    file = Path(path)
    refuse_link(file)
    require_file(file)
    text, document = read_private(file), None
    with suppress(ValueError):
        document = read_json(text)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(
            f"{path} is not a saved monitor, or is damaged; use a file that PriorMonitor.save "
            "wrote."
        )
    try:
        content = verify(document)
    except ValueError as error:
        raise ValueError(
            f"{path} is damaged or was edited: {error}. Restore it from a copy, or start a new "
            "monitor."
        ) from None
    if content.get("version") != VERSION:
        raise ValueError(
            f"{path} is a monitor of version {content.get('version')!r}, written by priorshift "
            f"{content.get('priorshift_version')}; this is priorshift {__version__}, which reads "
            f"version {VERSION}. Use the priorshift that wrote it, or start a new monitor."
        )
    try:
        return _unpack_monitor(cls, content)
    except KeyError as error:
        told = f"it lacks {error}"
    except (ArithmeticError, AttributeError, IndexError, TypeError, ValueError) as error:
        told = str(error).rstrip(".")
    raise ValueError(
        f"{path} is not a whole monitor: {told}. Restore it from a copy, or start a new monitor."
    )


@np.errstate(all="ignore")
def _unpack_monitor(cls: type[PriorMonitor], content: dict[str, Any]) -> PriorMonitor:
    """Make a monitor of the contents of a file; raise an error if they are not whole and sound."""
    fitted = _restore_estimator(content["estimator"])
    monitor = cls(clone(fitted), **content["params"])
    # a monitor that has seen nothing shows what all parts of one look like
    monitor._begin(fitted, np.zeros(fitted.classes_.size), seed=0)
    monitor._past = _unpack(content["past"], monitor._past, "past")
    monitor._alarm = _unpack(content["alarm"], monitor._alarm, "alarm")
    history = _unpack(content["history"], monitor.history, "history")
    monitor._records.extend(history.records())
    past, alarm = monitor._past, monitor._alarm
    counts = np.ones(monitor.classes_.size)
    after = past.add(counts, window=monitor.window, half_life=float(monitor.half_life))
    with warnings.catch_warnings():  # take a batch on trial
        warnings.simplefilter("ignore")
        for before in (past, after) if monitor.n_batches_ else (after,):
            for online in ONLINE:
                monitor._estimate_from(before, online)
        if not np.isfinite(alarm.add(counts).log_e_value):
            raise ValueError("its alarm has lost its evidence")
    return monitor


def _pack(value: Any) -> Any:
    """Return a record as what JSON can hold: its fields by name, and arrays byte for byte."""
    if is_dataclass(value):
        return {field.name: _pack(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {name: _pack(one) for name, one in value.items()}
    if isinstance(value, np.ndarray):
        return array_to_json(value)
    return value.item() if isinstance(value, np.generic) else value


def _unpack(found: Any, like: Any, name: str) -> Any:
    """Return what `_pack` made, of the kinds and shapes of a record that has seen no batch."""
    if is_dataclass(like) and not isinstance(like, type):
        parts = {
            field.name: _unpack(
                found[field.name], getattr(like, field.name), f"{name}.{field.name}"
            )
            for field in fields(like)
        }
        return type(like)(**parts)
    signed = ("log_weights", "log_e_value", "alarm.pools.sums")  # all others are counts or shares
    least = -LARGEST if name.endswith(signed) else 0
    if isinstance(like, np.ndarray):
        array = array_from_json(found)
        grown = like.shape[:1] in ((0,), array.shape[:1]) and array.shape[1:] == like.shape[1:]
        if not grown or array.ndim != like.ndim or array.dtype != like.dtype:
            raise ValueError(f"'{name}' has the shape {array.shape} and the type {array.dtype}")
        if name == "history.classes":  # names, which may be numbers of any size
            if not np.array_equal(array, like):
                raise ValueError(f"'{name}' are not the classes of the fit")
            return array
        of_numbers = array.dtype.kind in "fi"
        # sums of finite numbers this small are finite too
        if of_numbers and not ((np.abs(array) <= LARGEST) & (array >= least)).all():
            raise ValueError(f"'{name}' has a number below {least:g}, too large or not finite")
        return array
    if isinstance(like, tuple):
        return tuple(plain_time(time) for time in found)
    if type(found) is not type(like):
        raise ValueError(f"'{name}' is {type(found).__name__}, not {type(like).__name__}")
    if isinstance(found, float) and not (math.isfinite(found) and found >= least):
        raise ValueError(f"'{name}' is not a finite number in its range")
    return found


def _restore_estimator(described: dict[str, Any]) -> PriorEstimator:
    """Rebuild an estimator with the fit it had."""
    name = described["method"]
    if name not in available_estimators():
        raise ValueError(f"method {name!r} is not registered here; import its module")
    estimator = get_estimator(name, **described["params"])
    if not estimator.fit_is_counts:
        raise ValueError(
            f"the fit of {name!r} is more than counts; use a method whose fit is no more, such as "
            "SCM-L, CM-L or BBSE"
        )
    arrays = {name: array_from_json(array) for name, array in described["arrays"].items()}
    classes = check_classes(arrays["classes"], arrays["classes"].size)
    for name, array in arrays.items():
        if name == "classes":
            continue
        shape = (classes.size,) * (2 if name in ("confusion.counts", "soft.counts") else 1)
        # a count below 0 would go unnoticed, and dividing by one that is too small overflows
        fine = (array == 0) | ((array >= 1e-100) & (array <= LARGEST))
        if array.dtype != np.float64 or array.shape != shape or not fine.all():
            raise ValueError(
                f"'{name}' has other numbers than counts and shares; fit the monitor to "
                "probabilities that are 0 or at least 1e-100"
            )
        if name in ("source_priors", "source_label_priors"):
            check_priors(array, classes, name)
    return estimator._settle(Evidence.from_arrays(described, arrays))
