"""Every experiment by name: run it, and write what it found as CSV, Markdown and figures."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from priorshift._validation import check_choice
from priorshift.estimators import get_estimator
from priorshift.evaluation.paper._convergence import METHODS as TIMED_METHODS
from priorshift.evaluation.paper._convergence import run_convergence, run_times_as_markdown
from priorshift.evaluation.paper._distributions import SUPPLEMENT
from priorshift.evaluation.paper._figures import (
    draw_convergence,
    draw_distributions,
    draw_feasible_set,
    draw_gaussian,
    draw_samples,
)
from priorshift.evaluation.paper._gaussian import SHOWN_SIZE, ConfusionStudy, run_gaussian
from priorshift.evaluation.paper._inconsistent import (
    example,
    inconsistency_as_markdown,
    run_inconsistent,
)
from priorshift.evaluation.paper._outputs import StoredOutputs
from priorshift.evaluation.paper._samples import METHODS as SAMPLES_METHODS
from priorshift.evaluation.paper._samples import SIZES, run_samples
from priorshift.evaluation.paper._tables import TABLES, Setting, run_table
from priorshift.io import atomic_path, write_text
from priorshift.plotting._style import require_matplotlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Progress = Callable[[Sequence[Any]], Any]

QUICK_SEEDS, SEEDS = 2, 10


@dataclass(frozen=True, eq=False)
class Order:
    """What an experiment is asked for."""

    name: str
    outputs: Sequence[StoredOutputs]
    targets: Sequence[str]
    quick: bool
    folder: Path
    progress: Progress
    methods: Sequence[str] = ()

    @property
    def n_seeds(self) -> int:
        """Draws of validation and target."""
        return QUICK_SEEDS if self.quick else SEEDS

    def write(self, name: str, text: str) -> None:
        """Write a text into the folder."""
        write_text(self.folder / name, text.rstrip("\n") + "\n")

    def draw(self, name: str, figure: "Figure") -> None:
        """Write a figure into the folder."""
        import matplotlib.pyplot as plt

        with atomic_path(self.folder / f"{name}.svg") as temporary:
            figure.savefig(temporary)
        plt.close(figure)


def _table(order: Order) -> str:
    table = run_table(
        order.name,
        order.outputs,
        targets=order.targets,
        n_seeds=order.n_seeds,
        methods=order.methods,
        progress=order.progress,
    )
    order.write(f"{order.name}.csv", table.to_csv())
    return f"# {table.title}\n\n{table.to_markdown()}"


def _samples(order: Order) -> str:
    sizes = SIZES[::2] if order.quick else SIZES
    tables = run_samples(
        order.outputs,
        target=order.targets[0],
        sizes=sizes,
        methods=(*SAMPLES_METHODS, *order.methods),
        n_seeds=order.n_seeds,
        progress=order.progress,
    )
    order.draw("samples", draw_samples(tables))
    parts = [f"## {size} samples\n\n{table.to_markdown()}" for size, table in tables.items()]
    for size, table in tables.items():
        order.write(f"samples-{size}.csv", table.to_csv())
    return "\n\n".join(["# How many samples do I need?", *parts])


def _gaussian(order: Order) -> str:
    studies = run_gaussian(n_trials=10 if order.quick else 50)
    order.draw("gaussian", draw_gaussian(studies))
    rows = [
        f"{study.classifier.name},{kind},{size},{distance}"
        for study in studies
        for kind, distances in study.distances.items()
        for size, distance in zip(study.sizes, distances, strict=True)
    ]
    order.write("gaussian.csv", "\n".join(["classifier,decision,samples,distance", *rows]))
    return "\n\n".join(["# Confusion matrices of two Gaussian classes", *map(_matrices, studies)])


def _matrices(study: ConfusionStudy) -> str:
    shown = {
        f"hard, {SHOWN_SIZE} samples": study.estimated["hard"],
        f"soft, {SHOWN_SIZE} samples": study.estimated["soft"],
        "true": study.classifier.true_confusion(),
    }
    lines = ["| matrix | C[0, 0] | C[0, 1] | C[1, 0] | C[1, 1] |", "|---|---|---|---|---|"]
    for name, matrix in shown.items():
        lines.append("| " + " | ".join([name, *(f"{c:.3f}" for c in matrix.ravel())]) + " |")
    return f"## {study.classifier.name}\n\n" + "\n".join(lines)


def _convergence(order: Order) -> str:
    setting = Setting(order.outputs[0], order.targets[0], False, 0)
    stages, times = run_convergence(
        setting,
        methods=(*TIMED_METHODS, *order.methods),
        n_repeats=1 if order.quick else 5,
        progress=order.progress,
    )
    order.write("convergence.csv", _as_csv(stages))
    order.draw("convergence", draw_convergence(stages))
    return f"# Run time\n\n{run_times_as_markdown(times)}"


def _inconsistent(order: Order) -> str:
    ratio = ", ".join(f"{w:.3f}" for w in example())
    parts = ["# Inconsistent estimates", f"The supplement's example has the ratio ({ratio})."]
    if order.outputs:
        found = run_inconsistent(
            order.outputs, targets=order.targets, n_seeds=order.n_seeds, progress=order.progress
        )
        order.write("inconsistent.csv", _as_csv(found))
        parts.append(inconsistency_as_markdown(found))
    return "\n\n".join(parts)


def _distributions(order: Order) -> str:
    n_classes = order.outputs[0].n_classes if order.outputs else 100
    order.draw("distributions", draw_distributions(n_classes))
    confusion = np.array([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]])
    order.draw("feasible_set", draw_feasible_set(confusion))
    return "# Class distributions and the feasible set\n\nSee distributions.svg, feasible_set.svg."


EXPERIMENTS: dict[str, Callable[[Order], str]] = {
    **dict.fromkeys(TABLES, _table),
    "samples": _samples,
    "gaussian": _gaussian,
    "convergence": _convergence,
    "inconsistent": _inconsistent,
    "figures": _distributions,
}
"""The experiments by name; each writes into a folder, and returns its Markdown."""

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
        Made if there is none.
    targets : sequence of str
        Target distributions; "supplement" stands for all of `SUPPLEMENT`.
    quick : bool, default=False
        Fewer seeds and sizes.
    methods : sequence of str
        Further estimators: a column of Tables 2 to 4, a line of the figures.
    progress : callable, optional
        Wraps what runs, as `rich.progress.track` does.
    """
    check_choice(name, tuple(EXPERIMENTS), "name")
    if not outputs and name not in WITHOUT_DATA:
        raise ValueError(f"{name} needs outputs of a classifier: an npz of logits and labels.")
    for method in methods:
        get_estimator(method)  # a wrong name is refused before anything runs
    if name in DRAWN:
        require_matplotlib()
    targets = SUPPLEMENT if tuple(targets) == ("supplement",) else tuple(targets)
    folder.mkdir(parents=True, exist_ok=True)
    order = Order(name, outputs, targets, quick, folder, progress, methods)
    text = EXPERIMENTS[name](order)
    order.write(f"{name}.md", text)
    return text


def _as_csv(rows: Sequence[Any]) -> str:
    stream = io.StringIO()
    names = [field.name for field in fields(rows[0])]
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return stream.getvalue()
