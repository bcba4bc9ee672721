"""A monitor as a file: signed JSON, versioned, never pickled.

A checksum reveals damage. It does not reveal a file that somebody edited with care, or that other
code wrote, so shapes, types and ranges are checked too before a monitor is made of a file.
"""

import math
import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Labels
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
from priorshift.monitor._monitor import MAX_HISTORY, PriorMonitor
from priorshift.monitor._past import DyadicPools, Fading, LeadingHistory, Past, Window
from priorshift.monitor._steps import Record, plain_time

FORMAT = "priorshift monitor"
VERSION = 1
"""Increases when the previous version of priorshift could no longer read the file."""

Arrays = dict[str, NDArray[Any]]
Header = dict[str, Any]

HISTORY = tuple(name for name in Record._fields if name != "time")
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
    columns = {name: arrays[f"history.{name}"] for name in HISTORY} | {"time": header["times"]}
    steps = zip(*(columns[name] for name in Record._fields), strict=True)
    monitor._records.extend(map(Record._make, steps))
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


LAYOUT: dict[str, tuple[str, str, float]] = {
    "classes": ("biufUSM", "K", -LARGEST),
    "source_priors": ("f", "K", 0),
    "source_label_priors": ("f", "K", 0),
    "predicted.counts": ("f", "K", 0),
    "leading.starts": ("i", "L", 0),
    "leading.sums": ("f", "LK", 0),
    "leading.n_batches": ("i", "", 0),
    "leading.log_weights": ("f", "L", -LARGEST),
    "leading.last": ("f", "K", 0),
    "window.counts": ("f", "WK", 0),
    "fading.pooled": ("f", "K", 0),
    "alarm.starts": ("i", "A", 0),
    "alarm.sums": ("f", "AS", -LARGEST),
    "alarm.n_batches": ("i", "", 0),
    "alarm.before": ("f", "K", 0),
    "alarm.since": ("f", "K", 0),
    "history.index": ("i", "N", 0),
    "history.n_samples": ("i", "N", 1),
    "history.priors": ("f", "NK", 0),
    "history.own_priors": ("f", "NK", 0),
    "history.log_e_value": ("f", "N", -LARGEST),
    "history.p_value": ("f", "N", 0),
    "history.alarm": ("b", "N", 0),
    "history.raised": ("b", "N", 0),
}
"""Kind, lengths and least value of each array: a letter is the same length wherever it stands. K
classes, L and A pools, W batches in the window, S scores and their rows, N steps of the history."""

LAYOUT |= {
    f"{part}.{name}": ("f", shape, 0)
    for part in ("confusion", "soft")
    for name, shape in (("counts", "KK"), ("class_weights", "K"), ("squares", "K"))
}


def check_state(header: Header, arrays: Arrays) -> None:
    """Refuse, with a ValueError or a KeyError, a monitor that is not whole and sound."""
    if strange := sorted(arrays.keys() - LAYOUT.keys()):
        raise ValueError(f"it has {some(strange)}, which no monitor has")
    times, n_batches = header["times"], _whole(header["n_batches"], "n_batches")
    _require(type(times) is list, "'times' is no list")
    K = arrays["classes"].size
    lengths = {"K": K, "S": n_scores(K) + 1, "N": len(times)}
    for name, array in arrays.items():
        _check_array(name, array, lengths)
    classes = check_classes(arrays["classes"], K)
    _check_estimator(_mapping(header["estimator"], "estimator"), arrays, classes)
    _check_past(header["squares"], arrays, n_batches)
    _check_alarm(_mapping(header["alarm"], "the alarm"), arrays, n_batches)
    _check_history(times, arrays, n_batches)


def _check_array(name: str, array: NDArray[Any], lengths: dict[str, int]) -> None:
    """Check kind, shape and range; note lengths that are not known yet."""
    kinds, shape, least = LAYOUT[name]
    fits = array.ndim == len(shape) and all(
        lengths.setdefault(letter, n) == n for letter, n in zip(shape, array.shape, strict=True)
    )
    narrow = array.dtype.kind in "fi" and array.dtype.itemsize < 4  # sums would overflow
    _require(
        fits and array.dtype.kind in kinds and not narrow,
        f"'{name}' has the shape {array.shape} and the type {array.dtype}",
    )
    if len(kinds) == 1 and kinds in "fi":  # sums of finite numbers this small are finite too
        sound = bool((np.abs(array) <= LARGEST).all()) and bool((array >= least).all())
        _require(sound, f"'{name}' has a number below {least:g}, too large or not finite")


def _check_estimator(named: Header, arrays: Arrays, classes: Labels) -> None:
    method, given = named["method"], named["given"]
    _require(
        method in available_estimators(),
        f"its method {method!r} is not registered here; import the module that registers it",
    )
    _require(get_estimator(method).fit_is_counts, f"a fit of {method!r} is more than counts")
    _mapping(named["params"], "the parameters of the method")
    two = type(given) is list and [type(known) for known in given] == [bool, bool]
    _require(two, "'given' is not two booleans")
    _require(type(named["source_priors_from"]) is str, "'source_priors_from' is not text")
    for name in ("source_priors", "source_label_priors"):
        check_priors(arrays[name], classes, name)
    kept = _mapping(named["evidence"], "the counts")
    _require("predicted" in kept and "confusion" in kept, "it has no confusion matrix")
    for name, (decision, n_samples) in kept.items():
        check_choice(name, PARTS, "a part of the counts")
        check_choice(decision, ("hard", "soft"), f"the decisions of {name}")
        _whole(n_samples, f"the rows of {name}")
        weights = "predicted.counts" if name == "predicted" else f"{name}.class_weights"
        some_of_each = arrays[weights].any() if name == "predicted" else arrays[weights].all()
        _require(bool(some_of_each), f"'{weights}' counts nothing")


def _check_past(squares: Any, arrays: Arrays, n_batches: int) -> None:
    _check_pools(arrays, "leading", n_batches)
    _require(int(arrays["leading.n_batches"]) == n_batches, "'leading' has lost batches")
    weights = arrays["leading.log_weights"]
    _require(bool((weights <= 1e-9).all()), "'leading.log_weights' has a weight above 1")
    _require(_is_finite(squares) and squares >= 0, "'squares' is not a number of at least 0")
    window = arrays["window.counts"]
    _require(bool(window.shape[0]) == bool(n_batches), "the window has lost its batches")
    if n_batches:  # rows are divided by their sums
        for name in ("leading.sums", "leading.last", "fading.pooled", "window.counts"):
            _require(bool((arrays[name].sum(axis=-1) > 0).all()), f"'{name}' counts nothing")


def _check_alarm(alarm: Header, arrays: Arrays, n_batches: int) -> None:
    for name in ("threshold", "log_e_value", "largest"):
        _require(_is_finite(alarm[name]), f"the alarm's {name} is not a finite number")
    _require(alarm["threshold"] > 0, "the alarm's threshold is not above 0")
    _require(
        alarm["largest"] >= max(0.0, alarm["log_e_value"]),
        "the alarm's largest evidence is less than its last",
    )
    _whole(alarm["seed"], "the seed", LARGEST_SEED)
    _whole(alarm["run"], "run")
    _check_pools(arrays, "alarm", n_batches)


def _check_pools(arrays: Arrays, name: str, n_batches: int) -> None:
    seen, starts = int(arrays[f"{name}.n_batches"]), arrays[f"{name}.starts"]
    _require(seen <= n_batches, f"'{name}.n_batches' is not the number of batches")
    rising = bool((np.diff(starts, prepend=-1) > 0).all()) and bool((starts < seen).all())
    _require(
        rising and (seen == 0 or starts[:1] == [0]),
        f"'{name}.starts' are not batches in their order",
    )


def _check_history(times: list[Any], arrays: Arrays, n_batches: int) -> None:
    for time in times:
        plain_time(time)
    n = len(times)
    _require(n <= min(n_batches, MAX_HISTORY), f"the history has {n} steps of {n_batches} batches")
    expected = np.arange(n_batches - n, n_batches)
    _require(
        np.array_equal(arrays["history.index"], expected),
        "'history.index' does not count the batches",
    )
    for name in ("history.priors", "history.own_priors"):
        off = np.abs(arrays[name].sum(axis=1) - 1)
        _require(bool((off <= SUM_TOLERANCE).all()), f"'{name}' do not sum to 1")
    _require(bool((arrays["history.p_value"] <= 1).all()), "'history.p_value' has one above 1")


def _mapping(value: Any, name: str) -> dict[str, Any]:
    _require(type(value) is dict, f"{name} is not a mapping")
    return dict(value)


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
