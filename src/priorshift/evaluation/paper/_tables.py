"""The paper's tables on stored outputs: accuracy after adaptation, method by method."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, NamedTuple

import numpy as np

from priorshift._validation import check_choice
from priorshift.estimators import PriorEstimator, get_estimator
from priorshift.evaluation.paper._distributions import distribution
from priorshift.evaluation.paper._outputs import StoredOutputs
from priorshift.evaluation.paper._result import Record, Table
from priorshift.evaluation.paper._trial import SHARE, Trial, draw_trial
from priorshift.exceptions import ConvergenceWarning, PriorShiftWarning

Solver = Literal["paper", "certified"]
SOLVERS: tuple[Solver, ...] = ("paper", "certified")

Progress = Callable[[Sequence["Setting"]], Iterable["Setting"]]
"""Wraps the settings while they run, as `rich.progress.track` does."""


@dataclass(frozen=True)
class TableSpec:
    """What a table compares."""

    title: str
    methods: tuple[str, ...]
    solvers: tuple[Solver, ...] = SOLVERS


TABLES: Mapping[str, TableSpec] = {
    "table1": TableSpec("Adapt or re-train?", ("na", "labels", "predictions", "retrained"), ()),
    "table2": TableSpec(
        "Improve estimates from confusion matrices", ("na", "cm", "cm-l", "scm", "scm-l", "oracle")
    ),
    "table3": TableSpec(
        "How to estimate new priors?",
        ("na", "em", "cm-l", "scm-l", "map", "cm-m", "scm-m", "oracle"),
    ),
    "table4": TableSpec(
        "Estimate test priors or directly the prior ratio?",
        ("na", "scm-l", "rlls", "bbse", "bbse-s", "oracle"),
    ),
}
"""The tables by name; "labels" and "predictions" are how Table 1 knows the trained priors."""


@dataclass(frozen=True, eq=False)
class Setting:
    """One cell block of a table: a classifier, a target distribution, calibration, a seed."""

    outputs: StoredOutputs
    target: str
    calibrated: bool
    seed: int
    share: float = SHARE

    def draw(self) -> Trial:
        """Draw the trial."""
        priors = distribution(self.target, self.outputs.n_classes)
        return draw_trial(
            self.outputs, priors, calibrated=self.calibrated, seed=self.seed, share=self.share
        )


class Found(NamedTuple):
    """What a method reached in a trial."""

    accuracy: float
    l1_error: float | None = None
    gap: float | None = None


def run_table(
    name: str,
    outputs: Sequence[StoredOutputs],
    *,
    targets: Sequence[str] = ("UNI",),
    n_seeds: int = 10,
    share: float = SHARE,
    methods: Sequence[str] = (),
    solvers: Sequence[Solver] = SOLVERS,
    progress: Progress = iter,
) -> Table:
    """Run one of the paper's tables on stored outputs of one or several classifiers.

    Parameters
    ----------
    name : {"table1", "table2", "table3", "table4"}
    outputs : sequence of StoredOutputs
        Classifiers; those of the same name are runs of one row, as the paper's ten are.
    targets : sequence of str
        Target distributions: see `distribution`.
    n_seeds : int
        Draws of validation and target for each classifier.
    share : float
        How much of validation, and of the largest possible target, each draw takes.
    methods : sequence of str
        Further estimators, each a column more; Table 1 estimates nothing and takes none.
    solvers : sequence of {"paper", "certified"}
        Both, unless told otherwise: the published algorithms and ours, a row each.
    progress : callable, optional
        Wraps the settings while they run.

    Returns
    -------
    Table
    """
    return run_tables(
        [name],
        outputs,
        targets=targets,
        n_seeds=n_seeds,
        share=share,
        methods=methods,
        solvers=solvers,
        progress=progress,
    )[name]


def run_tables(
    names: Sequence[str],
    outputs: Sequence[StoredOutputs],
    *,
    targets: Sequence[str] = ("UNI",),
    n_seeds: int = 10,
    share: float = SHARE,
    methods: Sequence[str] = (),
    solvers: Sequence[Solver] = SOLVERS,
    progress: Progress = iter,
) -> dict[str, Table]:
    """Run several tables on the same trials, each calibrated once; see `run_table`."""
    specs = {name: _spec_of(name, methods, solvers) for name in names}
    settings = list(draws(outputs, targets, n_seeds, share))
    records: dict[str, list[Record]] = {name: [] for name in specs}
    for setting in progress(settings):
        trial = setting.draw()
        known: dict[tuple[str, str], Found | None] = {}
        for name, spec in specs.items():
            records[name].extend(_run(spec, setting, trial, known))
    return {
        name: Table(name, spec.title, spec.methods, tuple(records[name]))
        for name, spec in specs.items()
    }


def estimator_of(method: str, solver: Solver) -> PriorEstimator:
    """Make the estimator of a column; direct methods have but one solver."""
    estimator = get_estimator(method)
    if has_paper_solver(estimator):
        estimator.set_params(solver=solver)
    return estimator


def has_paper_solver(estimator: PriorEstimator) -> bool:
    """Tell whether a method maximises a likelihood, and so has both solvers."""
    return estimator.get_params().get("solver") in SOLVERS


def _spec_of(name: str, methods: Sequence[str], solvers: Sequence[Solver]) -> TableSpec:
    """Return the table with columns for further estimators, before the oracle."""
    check_choice(name, tuple(TABLES), "name")
    spec = TABLES[name]
    for method in methods:
        get_estimator(method)  # a wrong name is refused before anything runs
    if not spec.solvers:
        return spec
    more = [method for method in dict.fromkeys(methods) if method not in spec.methods]
    columns = (*spec.methods[:-1], *more, spec.methods[-1])
    return replace(spec, methods=columns, solvers=tuple(solvers))


def draws(
    outputs: Sequence[StoredOutputs],
    targets: Sequence[str],
    n_seeds: int,
    share: float,
    *,
    calibrated: Sequence[bool] = (False, True),
) -> Iterator[Setting]:
    """Yield the trials; runs of one name get seeds of their own."""
    earlier: Counter[str] = Counter()
    for one in outputs:
        first = n_seeds * earlier[one.name]
        earlier[one.name] += 1
        for target, by_bcts, seed in product(targets, calibrated, range(n_seeds)):
            yield Setting(one, target, by_bcts, first + seed, share)


def _run(
    spec: TableSpec, setting: Setting, trial: Trial, known: dict[tuple[str, str], Found | None]
) -> Iterator[Record]:
    for solver in spec.solvers or ("known priors",):
        for method in spec.methods:
            yield from measure(method, solver, setting, trial, known)


def measure(
    method: str,
    solver: str,
    setting: Setting,
    trial: Trial,
    known: dict[tuple[str, str], Found | None],
    n_samples: int | None = None,
) -> Iterator[Record]:
    """Yield the record of one column, if there is any; what was `known` is not done again.

    With `n_samples`, priors are estimated from as many of the target's rows.
    """
    key = (method, solver if _depends_on_solver(method) else "")
    if key not in known:
        known[key] = _found(method, solver, setting, trial, n_samples)
    found = known[key]
    if found is not None:
        where = (setting.outputs.name, setting.target, setting.calibrated)
        yield Record(*where, solver, method, setting.seed, *found)


def _depends_on_solver(method: str) -> bool:
    no_estimators = ("na", "oracle", "labels", "predictions", "retrained")
    return method not in no_estimators and has_paper_solver(get_estimator(method))


def _found(
    method: str, solver: str, setting: Setting, trial: Trial, n_samples: int | None
) -> Found | None:
    """Return what a column reached; None where there is nothing to measure."""
    match method:
        case "na":
            away = np.abs(trial.mean_prediction - trial.truth).sum()
            return Found(trial.accuracy(trial.y_proba_target), float(away))
        case "oracle" | "predictions":
            return Found(trial.adapted(trial.truth))
        case "labels":
            return Found(trial.adapted(trial.truth, trial.label_frequencies))
        case "retrained":
            retrained = setting.outputs.retrained
            return (
                None if retrained is None else Found(trial.accuracy(retrained.logits[trial.rows]))
            )
    estimator = estimator_of(method, "paper" if solver == "paper" else "certified")
    with warnings.catch_warnings():
        for category in (PriorShiftWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        shift = trial.estimated(estimator, n_samples)
        accuracy = trial.accuracy(shift.adapt(trial.y_proba_target))
    return Found(accuracy, float(np.abs(shift.priors - trial.truth).sum()), shift.gap)
