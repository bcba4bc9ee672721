"""Where frozen results lie: a compressed JSON file per part."""

import gzip
import json
from importlib.metadata import version
from pathlib import Path

from threadpoolctl import threadpool_info

FOLDER = Path(__file__).parent
CHANGES = FOLDER / "CHANGES.md"
SOLVERS = ("numpy", "scipy", "scikit-learn")
"""What numbers depend on in their last digits."""


def load(part: str) -> dict:
    """Return the stored tasks of a part; none if it was never stored."""
    return _read(part)["tasks"]


def save(part: str, tasks: dict) -> None:
    """Store a part, so that the same results give the same bytes."""
    document = {"computed_by": _computed_by(), "tasks": tasks}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    _path(part).write_bytes(gzip.compress(text.encode(), mtime=0))


def tolerance(part: str) -> float:
    """Return 1e-9 where the numbers were computed as here, and 1e-5 elsewhere.

    Solvers stop within their tolerance, and where exactly depends on the last digits of products
    of matrices. These differ between the kernels that OpenBLAS has for each kind of processor.
    """
    return 1e-9 if _read(part).get("computed_by") == _computed_by() else 1e-5


def _computed_by() -> dict:
    """Return the versions of the libraries that compute, and the kernels of their BLAS."""
    kernels = {str(library.get("architecture")) for library in threadpool_info()}
    return {name: version(name) for name in SOLVERS} | {"kernels": sorted(kernels)}


def _read(part: str) -> dict:
    if not _path(part).exists():
        return {"tasks": {}}
    return json.loads(gzip.decompress(_path(part).read_bytes()))


def _path(part: str) -> Path:
    return FOLDER / f"{part}.json.gz"
