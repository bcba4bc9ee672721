"""Time and memory of very many classes with few scores per row, beside the usual EM in scipy.

    python -m lab wide

Every line is a process of its own, which loads the same files: its peak is what a user would see.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from lab.show import head, parse, row

ROWS, VALIDATION, CLASSES, SCORES = 1_000_000, 200_000, 10_000, 50
LINES = (
    *("usual EM in scipy", "em", "map", "cm-l", "scm-l", "cm-m", "scm-m"),
    *("scm-l, rest spread", "em, rest spread", "adapt"),
)
BATCH = 50_000
SHARPNESS = 2.0
MOST_STEPS = 20
"""Of the usual EM, which would go on for hundreds more: its gap says how far it is by then."""


def main(arguments: list[str] | None = None) -> None:
    """Make the data, measure every line apart, and print a table."""
    options = parse(__doc__, arguments, line={"nargs": 2})
    if options.line:
        print(json.dumps(measure(*options.line)))
        return
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        columns = ("passes", "gap", "seconds", "L1 error", "GB loaded", "GB peak")
        sizes = f"{ROWS} rows, {VALIDATION} of validation, {CLASSES} classes, {SCORES} scores"
        head(f"{sizes} per row", "what", *columns)
        for line in LINES:
            command = [sys.executable, "-m", "lab", "wide", "--line", line, folder]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                row(line, done.stderr.strip().splitlines()[-1])
            else:
                row(*json.loads(done.stdout))


def measure(line: str, folder: str) -> list[str]:
    """Run one line and say what it took."""
    from priorshift import TopK, adapt_proba, get_estimator  # all of it, before the clock starts

    warnings.simplefilter("ignore")
    data = {path.stem: np.load(path) for path in Path(folder).glob("*.npy")}
    K, name = data["source"].size, line.split(",")[0]
    target, validation = (matrix(data, part, K) for part in ("target", "validation"))
    if line.endswith("spread"):
        target, validation = (
            TopK.from_csr(0.98 * rows, rest="spread") for rows in (target, validation)
        )
    loaded = peak()
    start = time.perf_counter()
    found: Any
    if line == "usual EM in scipy":
        priors, passes, gap = usual_em(target, data["source"])
    elif line == "adapt":
        adapt_proba(target, data["source"], data["truth"])
        priors, passes, gap = data["truth"], 1, None
    else:
        est = get_estimator(name)
        est.fit(validation, data["validation_y"], source_priors=data["source"])
        found = est.estimate(target)
        priors, passes, gap = found.priors, found.n_iter, found.gap
    seconds = time.perf_counter() - start
    error = np.abs(priors - data["truth"]).sum()
    return [
        line,
        str(passes or "-"),
        "-" if gap is None else f"{gap:.2g}",
        f"{seconds:.1f}",
        "-" if line == "adapt" else f"{error:.3f}",
        f"{loaded:.2f}",
        f"{peak():.2f}",
    ]


def usual_em(rows: Any, source: Any) -> tuple[Any, int, float]:
    """Iterate as papers print it, with a posterior of all rows, until priors move < 1e-6."""
    priors = source.copy()
    step, change = 0, 1.0
    while step < MOST_STEPS and change >= 1e-6:
        weighted = rows.multiply(priors / source).tocsr()
        weighted = weighted.multiply(1 / weighted.sum(axis=1)[:, None]).tocsr()
        new = weighted.mean(axis=0)
        step, change, priors = step + 1, np.abs(new - priors).max(), new
    exact = rows.astype(np.float64)
    gradient = (1 / (exact @ (priors / source))) @ exact / source
    return priors, step, float(gradient.max() - rows.shape[0])


def peak() -> float:
    """Return the most memory that this process has held so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def matrix(data: dict[str, Any], part: str, K: int) -> Any:
    """Return the scores of a part as compressed rows."""
    arrays = (data[f"{part}_scores"], data[f"{part}_ids"], data[f"{part}_starts"])
    return csr_array(arrays, shape=(arrays[2].size - 1, K))


def make(folder: Path) -> None:
    """Write validation and target as files that every line loads."""
    rng = np.random.default_rng(0)
    source, truth = (rng.permutation(1 / np.arange(1, CLASSES + 1) ** tail) for tail in (0.5, 1.0))
    source, truth = source / source.sum(), truth / truth.sum()
    np.save(folder / "source.npy", source)
    drawn = rng.choice(CLASSES, VALIDATION - CLASSES, p=source)
    y = np.concatenate([np.arange(CLASSES), drawn])
    np.save(folder / "validation_y.npy", y)
    save(folder, "validation", *posteriors(y, source, rng))
    y = rng.choice(CLASSES, ROWS, p=truth)
    np.save(folder / "truth.npy", np.bincount(y, minlength=CLASSES) / y.size)
    save(folder, "target", *posteriors(y, source, rng))


def save(folder: Path, part: str, ids: Any, scores: Any) -> None:
    """Write the arrays of compressed rows."""
    np.save(folder / f"{part}_ids.npy", ids.ravel())
    np.save(folder / f"{part}_scores.npy", scores.ravel())
    starts = np.arange(ids.shape[0] + 1, dtype=np.int64) * ids.shape[1]
    np.save(folder / f"{part}_starts.npy", starts.astype(np.int32))


def posteriors(y: Any, source: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Draw exact posteriors over neighbours of the true class, on a ring of shuffled classes."""
    k = SCORES
    ring = np.random.default_rng(1).permutation(source.size)
    place = np.argsort(ring)
    ids = np.empty((y.size, k), np.int32)
    scores = np.empty((y.size, k), np.float32)
    for start in range(0, y.size, BATCH):
        rows = slice(start, start + BATCH)
        label = y[rows]
        at = rng.integers(0, k, label.size)
        near = ring[(place[label][:, None] - at[:, None] + np.arange(k)) % source.size]
        z = rng.standard_normal((label.size, k))
        z[np.arange(label.size), at] += SHARPNESS
        z = SHARPNESS * z + np.log(source[near])
        z = np.exp(z - z.max(axis=1, keepdims=True))
        order = np.argsort(near, axis=1)
        ids[rows] = np.take_along_axis(near, order, axis=1)
        scores[rows] = np.take_along_axis(z / z.sum(axis=1, keepdims=True), order, axis=1)
    return ids, scores
