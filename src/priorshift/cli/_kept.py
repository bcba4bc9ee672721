"""What a run of adapt leaves for the next one, should it be killed: the estimate, in JSON."""

import hashlib
import json
from dataclasses import asdict, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from priorshift._version import __version__
from priorshift.calibration import CalibrationAverage, CalibrationMap
from priorshift.cli._options import Request
from priorshift.estimators import PriorEstimate


def fingerprint(request: Request, method: str) -> str:
    """Return a digest of all that decides what is written: options, files, versions."""
    named = {name: str(value) for name, value in asdict(request).items() if value is not None}
    known = {
        "method": method,
        "options": named,
        "files": {name: _state(value) for name, value in named.items()},
        "versions": [__version__, np.__version__, _version("pyarrow")],
    }
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def estimate_as_json(estimate: PriorEstimate) -> dict[str, Any]:
    """Return an estimate as plain values, from which the very same can be made again."""
    found: dict[str, Any] = {}
    for field in fields(estimate):
        value = getattr(estimate, field.name)
        if isinstance(value, CalibrationMap):
            value = _map_as_json(value)
        elif isinstance(value, CalibrationAverage):
            value = {"maps": [_map_as_json(one) for one in value.maps], "weights": value.weights}
        found[field.name] = _plain(value)
    return found


def estimate_from_json(found: dict[str, Any]) -> PriorEstimate:
    """Make an estimate again."""
    named: dict[str, Any] = {
        name: np.array(value) if isinstance(value, list) else value for name, value in found.items()
    }
    named["unseen_classes"] = tuple(found["unseen_classes"])
    calibrator = found["calibrator"]
    if calibrator is not None and "maps" in calibrator:
        maps = tuple(_map_from_json(one) for one in calibrator["maps"])
        named["calibrator"] = CalibrationAverage(maps, tuple(calibrator["weights"]))
    elif calibrator is not None:
        named["calibrator"] = _map_from_json(calibrator)
    return PriorEstimate(**named)


def _map_as_json(one: CalibrationMap) -> dict[str, Any]:
    return {name: _plain(part) for name, part in vars(one).items()}


def _map_from_json(found: dict[str, Any]) -> CalibrationMap:
    parts: dict[str, Any] = {
        name: np.array(value) if isinstance(value, list) else value for name, value in found.items()
    }
    return CalibrationMap(**parts)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _state(text: str) -> list[Any] | None:
    """Return where a file is, its size and when it changed, if a value names one."""
    try:
        path = Path(text).resolve(strict=True)
        state = path.stat()
    except OSError:
        return None
    return [str(path), state.st_size, state.st_mtime_ns]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
