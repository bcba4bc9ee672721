"""The paper's tables: accuracy after adaptation per method, as mean and standard deviation."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lab.paper.distributions import require_known
from lab.paper.outputs import StoredOutputs
from lab.paper.trials import (
    COLUMNS,
    SHARE,
    SOLVERS,
    Setting,
    Solver,
    Trial,
    draws,
    estimator_of,
    solvers_of,
)
from lab.show import markdown, told
from priorshift import get_estimator

LABELS = {
    "na": "NA",
    "labels": "known priors, by labels",
    "predictions": "known priors, by predictions",
    "retrained": "re-trained",
    "oracle": "Oracle",
}
"""Columns that are not estimators, with their headings. An estimator's heading is its name."""

BOUNDS = ("na", "oracle")
"""Columns that are never the best: the first estimates nothing, the second knows the truth."""

SIZES = (10, 30, 100, 300, 1000, 3000, 10_000)
"""Target rows that `run_samples` estimates from."""

SAMPLES_METHODS = ("cm", "scm", "em", "cm-l", "scm-l", "map", "cm-m", "scm-m")


TABLES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "table1": ("Adapt or re-train?", ("na", "labels", "predictions", "retrained")),
    "table2": (
        "Improve estimates from confusion matrices",
        ("na", "cm", "cm-l", "scm", "scm-l", "oracle"),
    ),
    "table3": (
        "How to estimate new priors?",
        ("na", "em", "cm-l", "scm-l", "map", "cm-m", "scm-m", "oracle"),
    ),
    "table4": (
        "Estimate test priors or directly the prior ratio?",
        ("na", "scm-l", "rlls", "bbse", "bbse-s", "oracle"),
    ),
    "methods": (
        "All methods of the paper",
        (
            *("na", "cm", "cm-l", "scm", "scm-l", "em", "map", "cm-m", "scm-m"),
            *("rlls", "bbse", "bbse-s", "oracle"),
        ),
    ),
}
"""Title and columns of each table. "labels" and "predictions" are Table 1's two sources of trained
priors. "methods" joins the columns of the others: the supplement has them for six targets."""


class Record(NamedTuple):
    """The accuracy, in percent, of one method in one trial.

    If the method estimates priors, `l1_error` is the sum of their absolute errors. If it maximises
    a likelihood, `gap` bounds how far below the maximum it stopped, in nats. Records of one source
    and network are draws from the outputs of one classifier.
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
    network: str = "0"


@dataclass(frozen=True, eq=False)
class ResultTable:
    """Accuracies of many trials, by setting and method.

    Examples
    --------
    >>> runs = [Record("lt", "UNI", False, "certified", "cm", seed, 30.0 + seed) for seed in (0, 2)]
    >>> print(ResultTable("A title", ("cm",), tuple(runs)).to_markdown())
    | source -> target | BCTS | column | CM |
    |---|---|---|---|
    | lt -> UNI | no | certified | **31.00 ± 1.41** |
    """

    title: str
    methods: tuple[str, ...]
    records: tuple[Record, ...]

    def to_markdown(self) -> str:
        """Return the table as Markdown, with the best estimate of each row in bold.

        Columns that agree in everything, as all do where nothing is estimated, are one row.
        """
        settings: dict[tuple[str, str, bool], dict[str, Any]] = {}
        for (source, target, calibrated, solver), found in self.rows():
            settings.setdefault((source, target, calibrated), {})[solver] = found
        rows = []
        for (source, target, calibrated), by_solver in settings.items():
            first, *others = by_solver.values()
            if others and all(found == first for found in others):
                by_solver = {"all": first}
            where = [f"{source} -> {target}", "yes" if calibrated else "no"]
            rows += [
                [*where, COLUMNS.get(solver, solver), *self._cells(found)]
                for solver, found in by_solver.items()
            ]
        return markdown(["source -> target", "BCTS", "column", *map(heading, self.methods)], rows)

    def _cells(self, found: Mapping[str, tuple[float, float, int]]) -> Iterator[str]:
        best = max((found[m][0] for m in found if m not in BOUNDS), default=np.nan)
        for method in self.methods:
            mean, deviation, _ = found.get(method, (np.nan, np.nan, 0))
            text = "" if method not in found else f"{mean:.2f} ± {deviation:.2f}"
            yield f"**{text}**" if mean == best and method not in BOUNDS else text

    def rows(
        self,
    ) -> Iterator[tuple[tuple[str, str, bool, str], dict[str, tuple[float, float, int]]]]:
        """Yield each setting with mean, standard deviation and number of runs per method."""
        for setting, by_method in by_setting(self.records).items():
            found = {m: [r.accuracy for r in runs] for m, runs in by_method.items()}
            yield setting, {m: (np.mean(a), spread(a), len(a)) for m, a in found.items()}


def run_table(name: str, outputs: Sequence[StoredOutputs], **options: Any) -> ResultTable:
    """Run one of the tables; options are those of `run_tables`."""
    return run_tables([name], outputs, **options)[name]


def run_tables(
    names: Sequence[str],
    outputs: Sequence[StoredOutputs],
    *,
    targets: Sequence[str | Path] = ("UNI",),
    n_seeds: int = 10,
    share: float = SHARE,
    methods: Sequence[str] = (),
    solvers: Sequence[Solver] = SOLVERS,
) -> dict[str, ResultTable]:
    """Run some of the paper's tables on the same trials, each calibrated once.

    Parameters
    ----------
    names : sequence of {"table1", "table2", "table3", "table4", "methods"}
    outputs : sequence of StoredOutputs
        Classifiers. Those of the same name are runs of one row, like the paper's ten networks.
    targets : sequence of str or Path, default=("UNI",)
        Target distributions, by name or from files: see `target_priors`.
    n_seeds : int, default=10
        Draws of validation and target for each classifier.
    share : float, default=0.8
        Part of validation, and of the largest possible target, that each draw uses.
    methods : sequence of str, optional
        Further estimators, one column each. Table 1 estimates nothing and ignores them.
    solvers : sequence of {"paper", "released", "certified"}, optional
        By default all: the paper's text, the code that its authors released, and ours, one row
        each. Each has its own BCTS.
    """
    shown = {name: _columns_of(name, methods) for name in names}
    records: dict[str, list[Record]] = {name: [] for name in names}
    for setting in told(draws(outputs, targets, n_seeds, share)):
        columns = _Columns(setting)
        for name in names:
            records[name].extend(columns.records(shown[name], solvers))
    return {name: ResultTable(TABLES[name][0], shown[name], tuple(records[name])) for name in names}


def run_samples(
    outputs: Sequence[StoredOutputs],
    *,
    target: str | Path = "UNI",
    sizes: Sequence[int] = SIZES,
    methods: Sequence[str] = SAMPLES_METHODS,
    n_seeds: int = 10,
    share: float = SHARE,
    solvers: Sequence[Solver] = SOLVERS,
) -> dict[int, ResultTable]:
    """Ask how many samples are needed: estimate from the target's first rows, adapt all of it.

    Returns one table per size. A size above that of the target means the whole target. Other
    parameters are as in `run_table`.
    """
    names = ("na", *dict.fromkeys(methods), "oracle")
    records: dict[int, list[Record]] = {}
    for setting in told(draws(outputs, [target], n_seeds, share, calibrated=(False,))):
        columns = _Columns(setting)
        n_target = columns.trial("paper").y_target.size
        for size in sorted({min(size, n_target) for size in sizes}):
            records.setdefault(size, []).extend(columns.records(names, solvers, size))
    title = "How many samples do I need?"
    return {size: ResultTable(title, names, tuple(rows)) for size, rows in records.items()}


def _columns_of(name: str, methods: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a table, with those of further estimators before the oracle."""
    require_known(name, TABLES, "name")
    for method in methods:
        get_estimator(method)  # refuse a wrong name before anything runs
    columns = TABLES[name][1]
    if columns[-1] != "oracle":  # Table 1 estimates nothing
        return columns
    more = [method for method in dict.fromkeys(methods) if method not in columns]
    return (*columns[:-1], *more, columns[-1])


Found = tuple[float, float | None, float | None]
"""Accuracy, error of the priors and gap of a method in a trial."""


class _Columns:
    """Measure the columns of one trial, each once however many tables show it."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.trials: dict[str, Trial] = {}
        self.known: dict[tuple[str, str, str, int | None], Found | None] = {}

    def trial(self, solver: Solver) -> Trial:
        """Return the trial as a column sees it; without calibration all see the same."""
        by = solver if self.setting.calibrated else ""
        if by not in self.trials:
            self.trials[by] = self.setting.draw(solver)
        return self.trials[by]

    def records(
        self, methods: Sequence[str], solvers: Sequence[Solver], n_samples: int | None = None
    ) -> Iterator[Record]:
        """Yield the records of all columns that have something to measure.

        With `n_samples`, priors are estimated from that many rows of the target.
        """
        where = (self.setting.outputs.name, self.setting.target_name, self.setting.calibrated)
        for solver in solvers:
            for method in methods:
                found = self._measured(method, solver, n_samples)
                if found is not None:
                    seed, network = self.setting.seed, self.setting.network
                    yield Record(*where, solver, method, seed, *found, network=network)

    def _measured(self, method: str, column: Solver, n_samples: int | None) -> Found | None:
        solvers: tuple[str, ...] = () if method in LABELS else solvers_of(method)
        solver = column if column in solvers else "certified"
        key = (method, solver, column if self.setting.calibrated else "", n_samples)
        if key not in self.known:
            self.known[key] = self._run(method, solver, self.trial(column), n_samples)
        return self.known[key]

    def _run(self, method: str, solver: str, trial: Trial, n_samples: int | None) -> Found | None:
        retrained = self.setting.outputs.retrained
        match method:
            case "na":
                error = np.abs(trial.mean_prediction - trial.truth).sum()
                return trial.accuracy(trial.y_proba_target), float(error), None
            case "labels":
                return trial.adapted(trial.truth, trial.label_frequencies), None, None
            case "predictions" | "oracle":
                return trial.adapted(trial.truth), None, None
            case "retrained":
                if retrained is None:
                    return None
                return trial.accuracy(retrained.logits[trial.rows]), None, None
        shift = trial.estimated(estimator_of(method, solver), n_samples)
        error = np.abs(shift.priors - trial.truth).sum()
        return trial.adapted_by(shift), float(error), shift.gap


def heading(method: str) -> str:
    """Return the heading of a column."""
    return LABELS.get(method, method.upper())


def spread(values: Sequence[float]) -> float:
    """Return the standard deviation, 0 of one value."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def by_setting(records: Iterable[Any]) -> dict[tuple[str, str, bool, str], dict[str, list[Any]]]:
    """Return the runs of each method, by source, target, calibration and column."""
    found: dict[tuple[str, str, bool, str], dict[str, list[Any]]] = {}
    for r in records:
        setting = found.setdefault((r.source, r.target, r.calibrated, r.solver), {})
        setting.setdefault(r.method, []).append(r)
    return found
