"""A monitor as a file: signed JSON, versioned, never pickled.

A checksum reveals damage. It does not reveal a file that somebody edited with care, or that other
code wrote, so shapes, types and ranges are checked too before a monitor is made of a file.
"""

import math
import os
import warnings
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Vector
from priorshift._version import __version__
from priorshift.border import check_choice, check_classes, check_priors, some
from priorshift.counts import DecisionCounts
from priorshift.estimators import PriorEstimator, available_estimators, get_estimator
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
from priorshift.monitor._alarm import Alarm
from priorshift.monitor._e_process import n_scores
from priorshift.monitor._monitor import PriorMonitor
from priorshift.monitor._past import DyadicPools, Fading, LeadingHistory, Past, Window
from priorshift.monitor._steps import Record, plain_time

FORMAT = "priorshift monitor"
VERSION = 1
"""Increases when the previous version of priorshift could no longer read the file."""

Arrays = dict[str, NDArray[Any]]
Header = dict[str, Any]

HISTORY = ("index", "n_samples", "priors", "log_e_value", "p_value", "alarm", "raised")
ALARM = ("threshold", "seed", "run", "log_e_value", "largest")

PARTS = ("predicted", "confusion", "soft")
"""What the counts of a fit may consist of."""

LARGEST = 2**53
"""Largest count: beyond it, float64 has gaps."""

LARGEST_SEED = 2**63
SUM_TOLERANCE = 1e-6


def save_monitor(monitor: PriorMonitor, path: str | os.PathLike[str]) -> Path:
    """Write a monitor; a link is refused."""
    refuse_link(path)
    estimator, arrays = _estimator_state(monitor.estimator_)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "priorshift_version": __version__,
        "params": _params(monitor),
        "estimator": estimator,
        "n_batches": monitor.n_batches_,
        "squares": monitor._past.leading.squares,
        "alarm": {name: getattr(monitor._alarm, name) for name in ALARM},
        "times": list(monitor.history.time),
    }
    arrays |= _arrays(monitor)
    try:
        check_state(header, arrays)  # never write what could not be read
        packed = {name: array_to_json(array) for name, array in arrays.items()}
        text = write_json(sign({**header, "arrays": packed}))
    except (TypeError, ValueError) as error:  # a parameter may be more than JSON can hold
        raise ValueError(f"this monitor cannot be saved: {error}.") from None
    return write_text(path, text)


def load_monitor(path: str | os.PathLike[str]) -> PriorMonitor:
    """Read a monitor; a link is refused."""
    header, arrays = _read(Path(path))
    try:
        check_state(header, arrays)
        return _monitor_of(header, arrays)
    except KeyError as error:
        told = f"it lacks {error}"
    except (IndexError, TypeError, ValueError) as error:
        told = str(error).rstrip(".")
    raise ValueError(
        f"{path} is not a whole monitor: {told}. Restore it from a copy, or start a new monitor."
    )


def _monitor_of(header: Header, arrays: Arrays) -> PriorMonitor:
    params, named = header["params"], header["estimator"]
    monitor = PriorMonitor(get_estimator(named["method"], **named["params"]), **params)
    monitor._check_parameters()
    estimator = _restored(named, arrays)
    _rehearse(estimator)
    monitor._begin(estimator, arrays["alarm.before"], seed=0)
    leading = LeadingHistory(
        _pools(arrays, "leading"),
        arrays["leading.log_weights"],
        header["squares"],
        arrays["leading.last"],
    )
    window = Window(params["window"], params["unit"], arrays["window.counts"])
    fading = Fading(params["half_life"], params["unit"], arrays["fading.pooled"])
    monitor._past = Past(leading, window, fading, header["n_batches"])
    monitor._alarm = Alarm(
        arrays["alarm.before"],
        pools=_pools(arrays, "alarm"),
        since=arrays["alarm.since"],
        **header["alarm"],
    )
    # priors stay arrays; the rest become Python numbers again
    columns = {
        name: arrays[f"history.{name}"] if name == "priors" else arrays[f"history.{name}"].tolist()
        for name in HISTORY
    }
    steps = zip(header["times"], *columns.values(), strict=True)
    records = (Record(time=time, **dict(zip(HISTORY, step, strict=True))) for time, *step in steps)
    monitor._records = deque(records, maxlen=params["max_history"])
    return monitor


def _rehearse(estimator: PriorEstimator) -> None:
    """Estimate once, because methods check their parameters only then, not at the next batch."""
    counts = np.ones(estimator.classes_.size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.estimate_counts(
            DecisionCounts(counts, estimator.confusion_.decision, counts.size)
        )


def _params(monitor: PriorMonitor) -> dict[str, Any]:
    """Return the parameters except the estimator, ready for JSON."""
    params = monitor.get_params(deep=False)
    del params["estimator"]
    seed = params["random_state"]
    if not isinstance(seed, int | np.integer):
        params["random_state"] = None  # everything it had to draw has been drawn
    return {k: v.item() if isinstance(v, np.generic) else v for k, v in params.items()}


def _arrays(monitor: PriorMonitor) -> Arrays:
    past, alarm, history = monitor._past, monitor._alarm, monitor.history
    return {
        **_pool_arrays(past.leading.pools, "leading"),
        "leading.log_weights": past.leading.log_weights,
        "leading.last": past.leading.last,
        "window.counts": past.window.counts,
        "fading.pooled": past.fading.pooled,
        **_pool_arrays(alarm.pools, "alarm"),
        "alarm.before": alarm.before,
        "alarm.since": alarm.since,
        **{f"history.{name}": getattr(history, name) for name in HISTORY},
    }


def _pool_arrays(pools: DyadicPools, name: str) -> Arrays:
    return {
        f"{name}.starts": pools.starts,
        f"{name}.sums": pools.sums,
        f"{name}.n_batches": np.array(pools.n_batches),
    }


def _pools(arrays: Arrays, name: str) -> DyadicPools:
    n_batches = int(arrays[f"{name}.n_batches"])
    return DyadicPools(arrays[f"{name}.starts"], arrays[f"{name}.sums"], n_batches)


def _read(path: Path) -> tuple[Header, Arrays]:
    """Read header and arrays; refuse a file that no monitor wrote."""
    refuse_link(path)
    require_file(path)
    content, document = read_private(path), None
    with suppress(ValueError):
        document = read_json(content)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(
            f"{path} is not a saved monitor, or is damaged; use a file that PriorMonitor.save "
            "wrote."
        )
    try:
        header = verify(document)
    except ValueError as error:
        raise ValueError(
            f"{path} is damaged or was edited: {error}. Restore it from a copy, or start a new "
            "monitor."
        ) from None
    if header.get("version") != VERSION:
        raise ValueError(
            f"{path} is a monitor of version {header.get('version')!r}, written by priorshift "
            f"{header.get('priorshift_version')}; this is priorshift {__version__}, which reads "
            f"version {VERSION}. Use the priorshift that wrote it, or start a new monitor."
        )
    try:
        packed = _mapping(header.pop("arrays", None), "'arrays'")
        return header, {name: array_from_json(array) for name, array in packed.items()}
    except ValueError as error:
        raise ValueError(f"{path} is not a whole monitor: {error}.") from None


def _estimator_state(estimator: PriorEstimator) -> tuple[Header, Arrays]:
    """Split a fitted estimator into what JSON can hold, and arrays; refuse if that loses a part."""
    name = type(estimator).__name__
    if not estimator.fit_is_counts:
        raise ValueError(
            f"a monitor with {name} cannot be saved: its fit is more than counts. Use a method "
            "whose fit is no more, such as SCM-L, CM-L or BBSE."
        )
    registered = estimator.name in available_estimators()
    if not registered or type(get_estimator(estimator.name)) is not type(estimator):
        raise ValueError(
            f"a monitor with {name} cannot be saved: no estimator of that class is registered as "
            f"{estimator.name!r}, so the file could not be read. Call register_estimator({name})."
        )
    state, arrays = estimator._fit_state()
    params = {name: _plain(value) for name, value in estimator.get_params().items()}
    described = {"method": estimator.name, "params": params, **state}
    lost = vars(estimator).keys() - vars(_restored(described, arrays)).keys()
    if lost:
        raise ValueError(
            f"a monitor with {name} cannot be saved: its fit also sets {some(sorted(lost))}, which "
            "a file of counts does not hold. Set fit_is_counts = False on the class."
        )
    return described, arrays


def _restored(described: Header, arrays: Arrays) -> PriorEstimator:
    """Rebuild an estimator with the fit it had."""
    return get_estimator(described["method"], **described["params"])._restore(described, arrays)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def check_state(header: Header, arrays: Arrays) -> None:
    """Refuse, with a ValueError or a KeyError, a monitor that is not whole and sound."""
    state = _State(header, arrays)
    state.check_estimator()
    state.check_past()
    state.check_alarm()
    state.check_history()
    strange = arrays.keys() - state.looked_at
    _require(not strange, f"it has {some(sorted(strange))}, which no monitor has")


class _State:
    """The parts of a file, each read together with the checks it must pass."""

    def __init__(self, header: Header, arrays: Arrays) -> None:
        self.header, self.arrays = header, arrays
        self.looked_at: set[str] = set()
        classes = self._array("classes", "biufUSM", None)
        self.classes = check_classes(classes, classes.size)
        self.K = self.classes.size
        self.n_batches = _whole(header["n_batches"], "n_batches")
        self.params = _mapping(header["params"], "the parameters")

    def check_estimator(self) -> None:
        """Check the fitted estimator."""
        named = _mapping(self.header["estimator"], "estimator")
        method = named["method"]
        _require(
            method in available_estimators(),
            f"its method {method!r} is not registered here; import the module that registers it",
        )
        _require(get_estimator(method).fit_is_counts, f"a fit of {method!r} is more than counts")
        _mapping(named["params"], "the parameters of the method")
        given = named["given"]
        _require(
            type(given) is list and [type(known) for known in given] == [bool, bool],
            "'given' is not two booleans",
        )
        _require(type(named["source_priors_from"]) is str, "'source_priors_from' is not text")
        for name in ("source_priors", "source_label_priors"):
            check_priors(self._counts(name, self.K), self.classes, name)
        self._check_counts_kept(_mapping(named["evidence"], "the counts"))

    def _check_counts_kept(self, kept: dict[str, Any]) -> None:
        _require("predicted" in kept and "confusion" in kept, "it has no confusion matrix")
        for name, described in kept.items():
            check_choice(name, PARTS, "a part of the counts")
            decision, n_samples = described
            check_choice(decision, ("hard", "soft"), f"the decisions of {name}")
            _whole(n_samples, f"the rows of {name}")
            if name == "predicted":
                _some(self._counts(f"{name}.counts", self.K), f"{name}.counts")
            else:
                self._counts(f"{name}.counts", self.K, self.K)
                weights = self._counts(f"{name}.class_weights", self.K)
                _require(bool((weights > 0).all()), f"'{name}' lacks a class")
                if f"{name}.squares" in self.arrays:
                    self._counts(f"{name}.squares", self.K)

    def check_past(self) -> None:
        """Check what is kept of the batches so far."""
        sums = self._pools("leading", self.n_batches, self.K, self._counts)
        _some(sums, "leading.sums")
        weights = self._numbers("leading.log_weights", len(sums))
        _require(bool((weights <= 1e-9).all()), "'leading.log_weights' has a weight above 1")
        squares = self.header["squares"]
        _require(_is_finite(squares) and squares >= 0, "'squares' is not a number of at least 0")
        last, pooled = self._counts("leading.last", self.K), self._counts("fading.pooled", self.K)
        window = self._counts("window.counts", None, self.K)
        _require(bool(window.shape[0]) == bool(self.n_batches), "the window has lost its batches")
        if self.n_batches:
            for name, counts in (("last", last), ("pooled", pooled), ("window.counts", window)):
                _some(counts, name)

    def check_alarm(self) -> None:
        """Check the sequential test."""
        alarm = _mapping(self.header["alarm"], "the alarm")
        for name in ("threshold", "log_e_value", "largest"):
            _require(_is_finite(alarm[name]), f"the alarm's {name} is not a finite number")
        _require(alarm["threshold"] > 0, "the alarm's threshold is not above 0")
        _require(
            alarm["largest"] >= max(0.0, alarm["log_e_value"]),
            "the alarm's largest evidence is less than its last",
        )
        _whole(alarm["seed"], "the seed", LARGEST_SEED)
        _whole(alarm["run"], "run")
        self._pools("alarm", None, n_scores(self.K) + 1, self._numbers)
        for name in ("alarm.before", "alarm.since"):
            self._counts(name, self.K)

    def check_history(self) -> None:
        """Check the steps that are kept."""
        times = self.header["times"]
        _require(type(times) is list, "'times' is no list")
        for time in times:
            plain_time(time)
        n = len(times)
        _whole(self.params["max_history"], "max_history")
        _require(n <= self.n_batches, f"the history has {n} steps of {self.n_batches} batches")
        index = self._array("history.index", "i", (n,))
        expected = np.arange(self.n_batches - n, self.n_batches)
        _require(np.array_equal(index, expected), "'history.index' does not count the batches")
        rows = self._array("history.n_samples", "i", (n,))
        _require(bool((rows > 0).all()), "'history.n_samples' has a batch without rows")
        totals = self._counts("history.priors", n, self.K).sum(axis=1)
        _require(bool((abs(totals - 1) <= SUM_TOLERANCE).all()), "'history.priors' do not sum to 1")
        self._numbers("history.log_e_value", n)
        p_values = self._counts("history.p_value", n)
        _require(bool((p_values <= 1).all()), "'history.p_value' has one above 1")
        for name in ("alarm", "raised"):
            self._array(f"history.{name}", "b", (n,))

    def _pools(
        self, name: str, n_batches: int | None, width: int, read: Callable[..., Vector]
    ) -> Vector:
        seen = int(self._array(f"{name}.n_batches", "i", ()))
        _require(
            0 <= seen <= self.n_batches and n_batches in (None, seen),
            f"'{name}.n_batches' is not the number of batches",
        )
        starts = self._array(f"{name}.starts", "i", None)
        rising = np.diff(starts, prepend=-1) > 0
        _require(
            bool(rising.all()) and bool((starts < seen).all()) and (seen == 0 or starts[:1] == [0]),
            f"'{name}.starts' are not batches in their order",
        )
        return read(f"{name}.sums", starts.size, width)

    def _counts(self, name: str, *shape: int | None) -> Vector:
        """Return numbers of at least 0."""
        values = self._numbers(name, *shape)
        _require(bool((values >= 0).all()), f"'{name}' has a number below 0")
        return values

    def _numbers(self, name: str, *shape: int | None) -> Vector:
        """Return finite numbers, small enough that their sums are finite too."""
        values = self._array(name, "f", shape)
        finite = bool((np.abs(values) <= LARGEST).all())
        _require(finite, f"'{name}' has a number that is too large or not finite")
        return values

    def _array(self, name: str, kinds: str, shape: tuple[int | None, ...] | None) -> NDArray[Any]:
        """Return an array of one of the given kinds; None allows any length, or any vector."""
        array = self.arrays[name]
        self.looked_at.add(name)
        wanted = (None,) if shape is None else shape
        fits = array.ndim == len(wanted) and all(
            m in (None, n) for n, m in zip(array.shape, wanted, strict=True)
        )
        narrow = array.dtype.kind in "fi" and array.dtype.itemsize < 4  # sums would overflow
        _require(
            fits and array.dtype.kind in kinds and not narrow,
            f"'{name}' has the shape {array.shape} and the type {array.dtype}",
        )
        return array


def _mapping(value: Any, name: str) -> dict[str, Any]:
    _require(type(value) is dict, f"{name} is not a mapping")
    return dict(value)


def _some(counts: Vector, name: str) -> None:
    """Require a sum above 0 in every row, because rows are divided by their sums."""
    _require(bool((counts.sum(axis=-1) > 0).all()), f"'{name}' counts nothing")


def _whole(value: Any, name: str, most: int = LARGEST) -> int:
    _require(
        type(value) is int and 0 <= value <= most, f"{name} is not a whole number in its range"
    )
    return int(value)


def _is_finite(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)
