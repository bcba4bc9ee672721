"""Run an experiment by name, and write its results as CSV, Markdown and figures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from priorshift import get_estimator
from priorshift.files import atomic_file, write_text
from priorshift.plotting.style import require_matplotlib
from priorshift.reproduction.distributions import SUPPLEMENT, require_known
from priorshift.reproduction.figures import (
    draw_convergence,
    draw_distributions,
    draw_feasible_set,
    draw_gaussian,
    draw_long_tails,
    draw_samples,
)
from priorshift.reproduction.outputs import StoredOutputs
from priorshift.reproduction.supplement import (
    SHOWN_SIZE,
    TIMED_METHODS,
    ConfusionStudy,
    Inconsistency,
    Sensitivity,
    Stage,
    example,
    inconsistency_as_markdown,
    run_convergence,
    run_gaussian,
    run_inconsistent,
    run_sensitivity,
    run_times_as_markdown,
    sensitivity_as_markdown,
)
from priorshift.reproduction.tables import (
    SAMPLES_METHODS,
    SIZES,
    TABLES,
    as_csv,
    markdown,
    run_samples,
    run_table,
)
from priorshift.reproduction.trials import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Progress = Callable[[Sequence[Any]], Any]

QUICK_SEEDS, SEEDS = 2, 10


@dataclass(frozen=True, eq=False)
class Request:
    """Everything that an experiment needs to know."""

    name: str
    outputs: Sequence[StoredOutputs]
    targets: Sequence[str]
    quick: bool
    folder: Path
    progress: Progress
    methods: Sequence[str] = ()

    @property
    def n_seeds(self) -> int:
        """Number of draws of validation and target."""
        return QUICK_SEEDS if self.quick else SEEDS

    def write(self, name: str, text: str) -> None:
        """Write text into the folder."""
        write_text(self.folder / name, text.rstrip("\n") + "\n")

    def draw(self, name: str, figure: "Figure") -> None:
        """Write a figure into the folder."""
        import matplotlib.pyplot as plt

        with atomic_file(self.folder / f"{name}.svg") as stream:
            figure.savefig(stream, format="svg")
        plt.close(figure)


def _table(request: Request) -> str:
    table = run_table(
        request.name,
        request.outputs,
        targets=request.targets,
        n_seeds=request.n_seeds,
        methods=request.methods,
        progress=request.progress,
    )
    request.write(f"{request.name}.csv", table.to_csv())
    return f"# {table.title}\n\n{table.to_markdown()}"


def _samples(request: Request) -> str:
    sizes = SIZES[::2] if request.quick else SIZES
    tables = run_samples(
        request.outputs,
        target=request.targets[0],
        sizes=sizes,
        methods=(*SAMPLES_METHODS, *request.methods),
        n_seeds=request.n_seeds,
        progress=request.progress,
    )
    request.draw("samples", draw_samples(tables))
    parts = [f"## {size} samples\n\n{table.to_markdown()}" for size, table in tables.items()]
    for size, table in tables.items():
        request.write(f"samples-{size}.csv", table.to_csv())
    return "\n\n".join(["# How many samples do I need?", *parts])


def _gaussian(request: Request) -> str:
    studies = run_gaussian(n_trials=10 if request.quick else 50)
    request.draw("gaussian", draw_gaussian(studies))
    rows = [
        f"{study.classifier.name},{kind},{size},{distance}"
        for study in studies
        for kind, distances in study.distances.items()
        for size, distance in zip(study.sizes, distances, strict=True)
    ]
    request.write("gaussian.csv", "\n".join(["classifier,decision,samples,distance", *rows]))
    return "\n\n".join(["# Confusion matrices of two Gaussian classes", *map(_matrices, studies)])


def _matrices(study: ConfusionStudy) -> str:
    shown = {
        f"hard, {SHOWN_SIZE} samples": study.estimated["hard"],
        f"soft, {SHOWN_SIZE} samples": study.estimated["soft"],
        "true": study.classifier.true_confusion(),
    }
    rows = [[name, *(f"{c:.3f}" for c in matrix.ravel())] for name, matrix in shown.items()]
    table = markdown(["matrix", "C[0, 0]", "C[0, 1]", "C[1, 0]", "C[1, 1]"], rows)
    return f"## {study.classifier.name}\n\n{table}"


def _convergence(request: Request) -> str:
    setting = Setting(request.outputs[0], request.targets[0], False, 0)
    stages, times = run_convergence(
        setting,
        methods=(*TIMED_METHODS, *request.methods),
        n_repeats=1 if request.quick else 5,
        progress=request.progress,
    )
    request.write("convergence.csv", as_csv(Stage, stages))
    request.draw("convergence", draw_convergence(stages))
    return f"# Run time\n\n{run_times_as_markdown(times)}"


def _inconsistent(request: Request) -> str:
    ratio = ", ".join(f"{w:.3f}" for w in example())
    parts = ["# Inconsistent estimates", f"The supplement's example has the ratio ({ratio})."]
    if request.outputs:
        found = run_inconsistent(
            request.outputs,
            targets=request.targets,
            n_seeds=request.n_seeds,
            progress=request.progress,
        )
        request.write("inconsistent.csv", as_csv(Inconsistency, found))
        parts.append(inconsistency_as_markdown(found))
    return "\n\n".join(parts)


def _sensitivity(request: Request) -> str:
    found = run_sensitivity(
        request.outputs,
        target=request.targets[0],
        n_seeds=request.n_seeds,
        progress=request.progress,
    )
    request.write("sensitivity.csv", as_csv(Sensitivity, found))
    return f"# What the text leaves open\n\n{sensitivity_as_markdown(found)}"


def _distributions(request: Request) -> str:
    n_classes = request.outputs[0].n_classes if request.outputs else 100
    request.draw("distributions", draw_distributions(n_classes))
    request.draw("long_tails", draw_long_tails())
    confusion = np.array([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]])
    request.draw("feasible_set", draw_feasible_set(confusion))
    return (
        "# Class distributions and the feasible set\n\n"
        "See long_tails.svg, distributions.svg and feasible_set.svg."
    )


EXPERIMENTS: dict[str, Callable[[Request], str]] = {
    **dict.fromkeys(TABLES, _table),
    "samples": _samples,
    "gaussian": _gaussian,
    "convergence": _convergence,
    "inconsistent": _inconsistent,
    "sensitivity": _sensitivity,
    "figures": _distributions,
}
"""The experiments by name. Each writes its files and returns its Markdown."""

WITHOUT_DATA = ("gaussian", "figures", "inconsistent")
DRAWN = ("samples", "gaussian", "convergence", "figures")


def run_experiment(
    name: str,
    outputs: Sequence[StoredOutputs],
    folder: Path,
    *,
    targets: Sequence[str] = ("UNI",),
    quick: bool = False,
    methods: Sequence[str] = (),
    progress: Progress = iter,
) -> str:
    """Run an experiment, write its files into a folder, and return its table as Markdown.

    Parameters
    ----------
    name : str
        One of `EXPERIMENTS`.
    outputs : sequence of StoredOutputs
        "gaussian", "figures" and "inconsistent" need none.
    folder : Path
        Where to write; created if necessary.
    targets : sequence of str
        Target distributions; "supplement" stands for all of `SUPPLEMENT`.
    quick : bool, default=False
        Fewer seeds and sizes.
    methods : sequence of str
        Further estimators: each is a column of Tables 2 to 4 and a line of the figures.
    progress : callable, optional
        Wraps the settings while they run, as `rich.progress.track` does.
    """
    require_known(name, EXPERIMENTS, "name")
    if not outputs and name not in WITHOUT_DATA:
        raise ValueError(f"{name} needs outputs of a classifier: an npz of logits and labels.")
    for method in methods:
        get_estimator(method)  # refuse a wrong name before anything runs
    if name in DRAWN:
        require_matplotlib()
    targets = SUPPLEMENT if tuple(targets) == ("supplement",) else tuple(targets)
    folder.mkdir(parents=True, exist_ok=True)
    request = Request(name, outputs, targets, quick, folder, progress, methods)
    text = EXPERIMENTS[name](request)
    request.write(f"{name}.md", text)
    return text
