"""A monitor as a file: signed JSON, versioned, never pickled.

A checksum reveals damage. It does not reveal a file that somebody edited with care, or that other
code wrote. So kinds, shapes and ranges are checked too, and a monitor made of a file has to take a
batch, on trial, before it is handed out.
"""

import math
import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priorshift._version import __version__
from priorshift.border import check_classes, check_priors, some
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
from priorshift.monitor._past import ONLINE, DyadicPools, Fading, LeadingHistory, Past, Window
from priorshift.monitor._steps import Record, plain_time

FORMAT = "priorshift monitor"
VERSION = 1
"""Increases when the previous version of priorshift could no longer read the file."""

Arrays = dict[str, NDArray[Any]]
Header = dict[str, Any]

HISTORY = tuple(name for name in Record._fields if name != "time")
ALARM = ("threshold", "seed", "run", "log_e_value", "largest")

LARGEST = 2**53
"""Largest count: beyond it, float64 has gaps."""

SUM_TOLERANCE = 1e-6


def save_monitor(monitor: PriorMonitor, path: str | os.PathLike[str]) -> Path:
    """Write a monitor; a link is refused."""
    refuse_link(path)
    estimator, arrays = _estimator_state(monitor.estimator_)
    past, alarm, history = monitor._past, monitor._alarm, monitor.history
    params = monitor.get_params(deep=False)
    del params["estimator"]
    if not isinstance(params["random_state"], int | np.integer):
        params["random_state"] = None  # everything it had to draw has been drawn
    header = {
        "format": FORMAT,
        "version": VERSION,
        "priorshift_version": __version__,
        "params": {name: _plain(value) for name, value in params.items()},
        "estimator": estimator,
        "n_batches": monitor.n_batches_,
        "squares": past.leading.squares,
        "alarm": {name: getattr(alarm, name) for name in ALARM},
        "times": list(history.time),
    }
    arrays |= {
        "leading.log_weights": past.leading.log_weights,
        "leading.last": past.leading.last,
        "window.counts": past.window.counts,
        "fading.pooled": past.fading.pooled,
        "alarm.before": alarm.before,
        "alarm.since": alarm.since,
    }
    for name, pools in (("leading", past.leading.pools), ("alarm", alarm.pools)):
        arrays |= {f"{name}.starts": pools.starts, f"{name}.sums": pools.sums}
        arrays[f"{name}.n_batches"] = np.array(pools.n_batches)
    arrays |= {f"history.{name}": getattr(history, name) for name in HISTORY}
    try:
        _monitor_of(header, arrays)  # never write what could not be read
        packed = {name: array_to_json(array) for name, array in arrays.items()}
        text = write_json(sign({**header, "arrays": packed}))
    except (TypeError, ValueError) as error:  # a parameter may be more than JSON can hold
        raise ValueError(f"this monitor cannot be saved: {error}.") from None
    return write_text(path, text)


def load_monitor(path: str | os.PathLike[str]) -> PriorMonitor:
    """Read a monitor; a link is refused."""
    header, arrays = _read(Path(path))
    try:
        return _monitor_of(header, arrays)
    except KeyError as error:
        told = f"it lacks {error}"
    except (ArithmeticError, AttributeError, IndexError, TypeError, ValueError) as error:
        told = str(error).rstrip(".")
    raise ValueError(
        f"{path} is not a whole monitor: {told}. Restore it from a copy, or start a new monitor."
    )


def _monitor_of(header: Header, arrays: Arrays) -> PriorMonitor:
    """Make a monitor of the contents of a file; raise an error if they are not whole and sound."""
    _check_arrays(arrays, len(header["times"]))
    params, named, n_batches = header["params"], header["estimator"], header["n_batches"]
    if named["method"] not in available_estimators():
        raise ValueError(f"method {named['method']!r} is not registered here; import its module")
    monitor = PriorMonitor(get_estimator(named["method"], **named["params"]), **params)
    monitor._check_parameters()
    monitor._begin(_restored(named, arrays), arrays["alarm.before"], seed=0)

    def pools(name: str) -> DyadicPools:
        starts, seen = arrays[f"{name}.starts"], int(arrays[f"{name}.n_batches"])
        rising = bool((np.diff(starts, prepend=-1) > 0).all()) and bool((starts < seen).all())
        if not rising or seen > n_batches or (seen and starts[:1] != [0]):
            raise ValueError(f"'{name}.starts' are not batches in their order")
        return DyadicPools(starts, arrays[f"{name}.sums"], seen)

    weights, last = arrays["leading.log_weights"], arrays["leading.last"]
    monitor._past = Past(
        LeadingHistory(pools("leading"), weights, header["squares"], last),
        Window(params["window"], params["unit"], arrays["window.counts"]),
        Fading(params["half_life"], params["unit"], arrays["fading.pooled"]),
        n_batches,
    )
    before, since = arrays["alarm.before"], arrays["alarm.since"]
    monitor._alarm = Alarm(before, pools=pools("alarm"), since=since, **header["alarm"])
    columns: Header = {name: arrays[f"history.{name}"] for name in HISTORY}
    columns["time"] = [plain_time(time) for time in header["times"]]
    steps = zip(*(columns[name] for name in Record._fields), strict=True)
    monitor._records.extend(map(Record._make, steps))
    _rehearse(monitor, header)
    return monitor


def _rehearse(monitor: PriorMonitor, header: Header) -> None:
    """Take a batch on trial: nothing that comes of it may be other than a finite number."""
    numbers = {"squares": header["squares"], **header["alarm"], "n_batches": header["n_batches"]}
    for name, value in numbers.items():
        kind = int if name in ("seed", "run", "n_batches") else float
        if type(value) is not kind or not (math.isfinite(value) and value > -LARGEST):
            raise ValueError(f"its {name} is not a finite number in its range")
    alarm, history, n = monitor._alarm, monitor.history, monitor.n_batches_
    sound = alarm.threshold > 0 and alarm.largest >= max(0.0, alarm.log_e_value)
    if not sound or header["squares"] < 0:
        raise ValueError("its alarm or its weights cannot be true")
    expected = np.arange(n - len(history), n)
    if len(history) > MAX_HISTORY or not np.array_equal(history.index, expected):
        raise ValueError("'history.index' does not count the batches")
    for name in ("priors", "own_priors"):
        if not (np.abs(getattr(history, name).sum(axis=1) - 1) <= SUM_TOLERANCE).all():
            raise ValueError(f"'history.{name}' do not sum to 1")
    counts = np.ones(monitor.classes_.size)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for past in (monitor._past, monitor._past.add(counts)):
            for online in ONLINE if past.n_batches else ():
                monitor._estimate_from(past, online)
        if not np.isfinite(alarm.add(counts).log_e_value):
            raise ValueError("its alarm has lost its evidence")


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
        packed = dict(header.pop("arrays"))
        return header, {name: array_from_json(array) for name, array in packed.items()}
    except (KeyError, TypeError, ValueError) as error:
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
    estimator = get_estimator(described["method"], **described["params"])
    if not estimator.fit_is_counts:
        raise ValueError(f"a fit of {described['method']!r} is more than counts")
    return estimator._restore(described, arrays)


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


def _check_arrays(arrays: Arrays, n_steps: int) -> None:
    """Refuse arrays of another kind, shape or range than a monitor's."""
    K = arrays["classes"].size
    lengths = {"K": K, "S": n_scores(K) + 1, "N": n_steps}
    for name, array in arrays.items():
        kinds, shape, least = LAYOUT[name]
        fits = array.ndim == len(shape) and all(
            lengths.setdefault(letter, n) == n for letter, n in zip(shape, array.shape, strict=True)
        )
        narrow = array.dtype.kind in "fi" and array.dtype.itemsize < 4  # sums would overflow
        if not fits or array.dtype.kind not in kinds or narrow:
            raise ValueError(f"'{name}' has the shape {array.shape} and the type {array.dtype}")
        # sums of finite numbers this small are finite too
        of_numbers = len(kinds) == 1 and kinds in "fi"
        if of_numbers and not ((np.abs(array) <= LARGEST) & (array >= least)).all():
            raise ValueError(f"'{name}' has a number below {least:g}, too large or not finite")
    classes = check_classes(arrays["classes"], K)
    for name in ("source_priors", "source_label_priors"):
        check_priors(arrays[name], classes, name)
