"""Where frozen results lie: a compressed JSON file per part."""

import gzip
import json
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).parent
CHANGES = FOLDER / "CHANGES.md"
SOLVERS = ("numpy", "scipy", "scikit-learn")
"""What numbers depend on in their last digits."""


def load(part: str) -> dict:
    """Return the stored tasks of a part; none if it was never stored."""
    return _read(part)["tasks"]


def save(part: str, tasks: dict) -> None:
    """Store a part, so that the same results give the same bytes."""
    document = {"versions": {name: version(name) for name in SOLVERS}, "tasks": tasks}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    _path(part).write_bytes(gzip.compress(text.encode(), mtime=0))


def tolerance(part: str) -> float:
    """Return 1e-9 with the versions that the numbers were stored with, and 1e-5 with others."""
    same = all(version(name) == stored for name, stored in _read(part)["versions"].items())
    return 1e-9 if same else 1e-5


def _read(part: str) -> dict:
    if not _path(part).exists():
        return {"versions": {}, "tasks": {}}
    return json.loads(gzip.decompress(_path(part).read_bytes()))


def _path(part: str) -> Path:
    return FOLDER / f"{part}.json.gz"
