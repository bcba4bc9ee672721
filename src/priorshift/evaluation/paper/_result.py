"""Results of an experiment as a table: mean and standard deviation, the best in bold."""

import csv
import io
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from priorshift._frames import Backend, make_frame

LABELS = {
    "na": "NA",
    "labels": "known, by labels",
    "predictions": "known, by predictions",
    "retrained": "re-trained",
    "oracle": "Oracle",
}
"""Headings of columns that are no estimators; an estimator's is its name in capitals."""

BOUNDS = ("na", "oracle")
"""Columns that are never the best: they estimate nothing, or know the truth."""


@dataclass(frozen=True)
class Record:
    """The accuracy, in percent, of one method in one trial.

    Where the method estimates priors, `l1_error` is their sum of absolute errors, and `gap` how far
    below the maximum it may have stopped, in nats; None for methods that maximise nothing.
    """

    source: str
    target: str
    calibrated: bool
    solver: str
    method: str
    seed: int
    accuracy: float
    l1_error: float | None = None
    gap: float | None = None


@dataclass(frozen=True, eq=False)
class Table:
    """Accuracies of many trials, by setting and method.

    Examples
    --------
    >>> runs = [Record("lt", "UNI", False, "certified", "cm", seed, 30.0 + seed) for seed in (0, 2)]
    >>> print(Table("table2", "A title", ("cm",), tuple(runs)).to_markdown())
    | source -> target | BCTS | solver | CM |
    |---|---|---|---|
    | lt -> UNI | no | certified | **31.00 ± 1.41** |
    """

    name: str
    title: str
    methods: tuple[str, ...]
    records: tuple[Record, ...]

    def to_markdown(self) -> str:
        """Return the table as Markdown, the best estimate of each row in bold."""
        head = ["source -> target", "BCTS", "solver", *map(heading, self.methods)]
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        for (source, target, calibrated, solver), found in self.rows():
            cells = [f"{source} -> {target}", "yes" if calibrated else "no", solver]
            rivals = {m: found[m][0] for m in self.methods if m in found and m not in BOUNDS}
            best = max(rivals.values(), default=np.nan)
            cells += [_cell(found.get(m), rivals.get(m) == best) for m in self.methods]
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines)

    def to_csv(self) -> str:
        """Return every record as CSV."""
        stream = io.StringIO()
        writer = csv.DictWriter(stream, [f.name for f in fields(Record)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(record) for record in self.records)
        return stream.getvalue()

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return one row a record, as a frame of the named library."""
        columns = {f.name: [getattr(r, f.name) for r in self.records] for f in fields(Record)}
        return make_frame(columns, backend)

    def rows(
        self,
    ) -> Iterator[tuple[tuple[str, str, bool, str], dict[str, tuple[float, float, int]]]]:
        """Yield each setting with the mean, standard deviation and number of runs by method."""
        found: dict[tuple[str, str, bool, str], dict[str, list[float]]] = {}
        for r in self.records:
            of_setting = found.setdefault((r.source, r.target, r.calibrated, r.solver), {})
            of_setting.setdefault(r.method, []).append(r.accuracy)
        for setting, by_method in found.items():
            yield setting, {method: _summary(values) for method, values in by_method.items()}


def heading(method: str) -> str:
    """Return what a column is called."""
    return LABELS.get(method, method.upper())


def _summary(values: list[float]) -> tuple[float, float, int]:
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return float(np.mean(values)), spread, len(values)


def _cell(found: tuple[float, float, int] | None, best: bool) -> str:
    if found is None:
        return ""
    text = f"{found[0]:.2f} ± {found[1]:.2f}"
    return f"**{text}**" if best else text
