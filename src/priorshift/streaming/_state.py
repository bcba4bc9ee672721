"""A monitor as a file: npz with a header in JSON, versioned, never pickled."""

import io
import json
import os
import warnings
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from priorshift._version import __version__
from priorshift.estimators import PriorEstimator, get_estimator
from priorshift.io import atomic_path, require_file
from priorshift.statistics import DecisionCounts
from priorshift.streaming._alarm import Alarm
from priorshift.streaming._averages import Fading, Window
from priorshift.streaming._history import Record
from priorshift.streaming._leading_history import LeadingHistory
from priorshift.streaming._monitor import PriorMonitor
from priorshift.streaming._past import Past
from priorshift.streaming._pools import DyadicPools
from priorshift.streaming._saved_estimator import Arrays, estimator_state, restored_estimator
from priorshift.streaming._state_schema import check_state, checksum

FORMAT = "priorshift monitor"
VERSION = 2
"""Raised when a reader of the last version could not go on from the file."""

UNSIGNED = 1
"""The version before there was a checksum: read, and replaced by the next save."""

HISTORY = ("index", "n_samples", "priors", "log_e_value", "p_value", "alarm", "raised")
ALARM = ("threshold", "seed", "run", "log_e_value", "largest")


def save_monitor(monitor: PriorMonitor, path: str | os.PathLike[str]) -> Path:
    """Write a monitor."""
    estimator, arrays = estimator_state(monitor.estimator_)
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
        check_state(header, arrays)  # what cannot be read again is not written
    except ValueError as error:
        raise ValueError(f"this monitor cannot be saved: {error}.") from None
    header["checksum"] = checksum(header, arrays)
    arrays["header"] = np.array(json.dumps(header, allow_nan=False))
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        np.savez(stream, **arrays)  # type: ignore[arg-type]
    return Path(path)


def load_monitor(path: str | os.PathLike[str]) -> PriorMonitor:
    """Read a monitor."""
    header, arrays = _read(Path(path))
    if header["version"] != UNSIGNED and header.get("checksum") != checksum(header, arrays):
        raise ValueError(
            f"{path} is damaged or was edited: its checksum is not that of its content. Restore it "
            "from a copy, or begin a new monitor."
        )
    try:
        check_state(header, arrays)
        return _monitor_of(header, arrays)
    except KeyError as error:
        told = f"it lacks {error}"
    except (IndexError, TypeError, ValueError) as error:
        told = str(error).rstrip(".")
    raise ValueError(
        f"{path} is not a whole monitor: {told}. Restore it from a copy, or begin a new monitor."
    )


def _monitor_of(header: dict[str, Any], arrays: Arrays) -> PriorMonitor:
    params, named = header["params"], header["estimator"]
    monitor = PriorMonitor(get_estimator(named["method"], **named["params"]), **params)
    monitor._check_parameters()
    estimator = restored_estimator(named, arrays)
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
    # priors stay arrays, the rest become Python's own numbers again
    columns = {
        name: arrays[f"history.{name}"] if name == "priors" else arrays[f"history.{name}"].tolist()
        for name in HISTORY
    }
    steps = zip(header["times"], *columns.values(), strict=True)
    records = (Record(time=time, **dict(zip(HISTORY, step, strict=True))) for time, *step in steps)
    monitor._records = deque(records, maxlen=params["max_history"])
    return monitor


def _rehearse(estimator: PriorEstimator) -> None:
    """Estimate once: methods check their parameters no earlier, and a batch would come too late."""
    counts = np.ones(estimator.classes_.size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.estimate_counts(
            DecisionCounts(counts, estimator.confusion_.decision, counts.size)
        )


def _params(monitor: PriorMonitor) -> dict[str, Any]:
    """Return the parameters as JSON knows them, but for the estimator."""
    params = monitor.get_params(deep=False)
    del params["estimator"]
    seed = params["random_state"]
    if not isinstance(seed, int | np.integer):
        params["random_state"] = None  # it has drawn all there was to draw
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


def _read(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Read header and arrays, and refuse what no monitor wrote."""
    require_file(path)
    content, header = io.BytesIO(path.read_bytes()), None
    try:
        with np.load(content, allow_pickle=False) as archive:
            arrays = dict(archive.items())
        header = json.loads(str(arrays.pop("header")[()]), parse_constant=_refuse)
    except Exception:  # zipfile and NumPy may raise anything on a damaged file
        pass
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(
            f"{path} is not a saved monitor, or is damaged; give a file that PriorMonitor.save "
            "wrote."
        )
    if header.get("version") not in (UNSIGNED, VERSION):
        raise ValueError(
            f"{path} is a monitor of version {header.get('version')!r}, written by priorshift "
            f"{header.get('priorshift_version')}; this is priorshift {__version__}, which reads "
            f"versions {UNSIGNED} and {VERSION}. Use the priorshift that wrote it, or begin a new "
            "monitor."
        )
    return header, arrays


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
