"""How many samples do I need? Accuracy by the number of target rows used for the estimate."""

from collections.abc import Iterator, Sequence

from priorshift.evaluation.paper._outputs import StoredOutputs
from priorshift.evaluation.paper._result import Record, Table
from priorshift.evaluation.paper._tables import (
    SOLVERS,
    Found,
    Progress,
    Setting,
    Solver,
    draws,
    measure,
)
from priorshift.evaluation.paper._trial import SHARE, Trial

SIZES = (10, 30, 100, 300, 1000, 3000, 10_000)
METHODS = ("cm", "scm", "em", "cm-l", "scm-l", "map", "cm-m", "scm-m")


def run_samples(
    outputs: Sequence[StoredOutputs],
    *,
    target: str = "UNI",
    sizes: Sequence[int] = SIZES,
    methods: Sequence[str] = METHODS,
    n_seeds: int = 10,
    share: float = SHARE,
    solvers: Sequence[Solver] = SOLVERS,
    progress: Progress = iter,
) -> dict[int, Table]:
    """Estimate from the first rows of the target, adapt all of it; return a table for each size.

    Sizes above that of the target count as all of it. Other parameters are as in `run_table`.
    """
    columns = ("na", *dict.fromkeys(methods), "oracle")
    records: dict[int, list[Record]] = {}
    for setting in progress(list(draws(outputs, [target], n_seeds, share, calibrated=(False,)))):
        trial = setting.draw()
        for size in sorted({min(size, trial.y_target.size) for size in sizes}):
            records.setdefault(size, []).extend(_run(setting, trial, size, columns, solvers))
    title = "How many samples do I need?"
    return {size: Table("samples", title, columns, tuple(rows)) for size, rows in records.items()}


def _run(
    setting: Setting, trial: Trial, size: int, columns: Sequence[str], solvers: Sequence[Solver]
) -> Iterator[Record]:
    known: dict[tuple[str, str], Found | None] = {}
    for solver in solvers:
        for method in columns:
            yield from measure(method, solver, setting, trial, known, size)
