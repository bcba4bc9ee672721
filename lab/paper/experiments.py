"""Run an experiment by name, and write its results as CSV, Markdown and figures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.paper import supplement
from lab.paper.claims import claims, few_as_markdown
from lab.paper.distributions import SUPPLEMENT, require_known
from lab.paper.images import published_counts
from lab.paper.outputs import StoredOutputs
from lab.paper.tables import (
    SAMPLES_METHODS,
    SIZES,
    TABLES,
    by_setting,
    heading,
    run_samples,
    run_tables,
)
from lab.paper.trials import COLUMNS, SHARE, Setting, target_priors
from lab.show import as_csv, markdown
from priorshift import get_estimator
from priorshift.files import atomic_file, write_text
from priorshift.plotting.style import require_matplotlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUICK_SEEDS, SEEDS = 2, 10


@dataclass(frozen=True, eq=False)
class Request:
    """Everything that an experiment needs to know; what it writes begins with `prefix`."""

    outputs: Sequence[StoredOutputs]
    folder: Path
    targets: Sequence[str | Path] = ("UNI",)
    n_seeds: int = SEEDS
    share: float = SHARE
    quick: bool = False
    methods: Sequence[str] = ()
    prefix: str = ""
    lists: Sequence[Path] = ()

    @property
    def draws(self) -> dict[str, Any]:
        """How trials are drawn."""
        return {"n_seeds": self.n_seeds, "share": self.share}

    def write(self, name: str, text: str) -> None:
        """Write text into the folder."""
        write_text(self.folder / f"{self.prefix}{name}", text.rstrip("\n") + "\n")

    def draw(self, name: str, figure: "Figure") -> None:
        """Write a figure into the folder."""
        import matplotlib.pyplot as plt

        with atomic_file(self.folder / f"{self.prefix}{name}.svg") as stream:
            figure.savefig(stream, format="svg")
        plt.close(figure)


def tables(request: Request, names: Sequence[str]) -> str:
    """Run tables on the same trials."""
    found = run_tables(
        names, request.outputs, targets=request.targets, methods=request.methods, **request.draws
    )
    for name, table in found.items():
        request.write(f"{name}.csv", as_csv(table.records))
    parts = [f"# {table.title}\n\n{table.to_markdown()}" for table in found.values()]
    if len(names) > 1 or request.prefix:  # one table alone settles no claim
        records = dict.fromkeys(r for table in found.values() for r in table.records)
        parts += claims(by_setting(records))
    return "\n\n".join(parts)


def samples(request: Request) -> str:
    """Ask how many samples are needed; draw the figure."""
    from lab.paper.figures import draw_samples

    found = run_samples(
        request.outputs,
        target=request.targets[0],
        sizes=SIZES[::2] if request.quick else SIZES,
        methods=(*SAMPLES_METHODS, *request.methods),
        **request.draws,
    )
    request.draw("samples", draw_samples(found))
    lines: list[str] = []
    for size, table in found.items():
        request.write(f"samples-{size}.csv", as_csv(table.records))
        header, rule, *rows = table.to_markdown().splitlines()
        lines += [] if lines else [f"| samples {header}", f"|---{rule}"]
        lines += [f"| {size} {row}" for row in rows]
    by_size, claim = "\n".join(lines), few_as_markdown(found)
    return f"# How many samples do I need?\n\n{by_size}\n\n**4. EM for few samples**\n\n{claim}"


def gaussian(request: Request) -> str:
    """Compare confusion matrices of two Gaussian classes with the truth."""
    from lab.paper.figures import draw_gaussian

    studies = list(supplement.run_gaussian(n_trials=10 if request.quick else 50))
    request.draw("gaussian", draw_gaussian(studies))
    parts, lines = ["# Confusion matrices of two Gaussian classes"], []
    for classifier, distances, estimated in studies:
        shown = {f"{kind}, {supplement.SHOWN_SIZE} samples": C for kind, C in estimated.items()}
        shown["true"] = classifier.true_confusion()
        rows = [[name, *(f"{c:.3f}" for c in matrix.ravel())] for name, matrix in shown.items()]
        table = markdown(["matrix", "C[0, 0]", "C[0, 1]", "C[1, 0]", "C[1, 1]"], rows)
        parts.append(f"## {classifier.name}\n\n{table}")
        for kind, values in distances.items():
            sizes = zip(supplement.GAUSSIAN_SIZES, values, strict=True)
            lines += [(classifier.name, kind, size, distance) for size, distance in sizes]
    request.write("gaussian.csv", as_csv(lines, ("classifier", "decision", "samples", "distance")))
    return "\n\n".join(parts)


def convergence(request: Request) -> str:
    """Time methods, and stop them on their way, on the first classifier."""
    from lab.paper.figures import draw_convergence

    setting = Setting(request.outputs[0], request.targets[0], False, 0, request.share)
    stages, ends = supplement.run_convergence(
        setting,
        methods=(*supplement.TIMED_METHODS, *request.methods),
        n_repeats=1 if request.quick else 5,
    )
    request.write("convergence.csv", as_csv(stages))
    request.draw("convergence", draw_convergence(stages))
    header = ["method", "column", "steps", "seconds", "accuracy", "gap, nats"]
    rows = [
        (
            *(heading(s.method), COLUMNS.get(s.solver, s.solver), str(s.n_iter)),
            *(f"{s.seconds:.4f}", f"{s.accuracy:.2f}", "" if s.gap is None else f"{s.gap:.2g}"),
        )
        for s in stages
    ]
    parts = (f"# Run time, {setting.outputs.name}", supplement.run_times_as_markdown(ends))
    return "\n\n".join([*parts, markdown(header, rows)])


def inconsistent(request: Request) -> str:
    """Count negative estimates."""
    ratio = ", ".join(f"{w:.3f}" for w in supplement.example())
    parts = ["# Negative estimates", f"The supplement's example has the ratio ({ratio})."]
    if request.outputs:
        found = supplement.run_inconsistent(
            request.outputs, targets=request.targets, **request.draws
        )
        request.write("inconsistent.csv", as_csv(found))
        parts.append(supplement.inconsistency_as_markdown(found))
    return "\n\n".join(parts)


def sensitivity(request: Request) -> str:
    """Vary learning rates, halving and thresholds."""
    target = request.targets[0]
    found = supplement.run_sensitivity(request.outputs, target=target, **request.draws)
    request.write("sensitivity.csv", as_csv(found))
    return f"# What the text leaves open\n\n{supplement.sensitivity_as_markdown(found)}"


def figures(request: Request) -> str:
    """Draw class distributions and the feasible set; long tails from their lists if given."""
    from lab.paper.figures import draw_distributions, draw_feasible_set, draw_long_tails

    n_classes = request.outputs[0].n_classes if request.outputs else 100
    request.draw("distributions", draw_distributions(n_classes))
    request.draw("long_tails", draw_long_tails(published_counts(request.lists)))
    confusion = np.array([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]])
    request.draw("feasible_set", draw_feasible_set(confusion))
    return (
        "# Class distributions and the feasible set\n\n"
        "See long_tails.svg, distributions.svg and feasible_set.svg."
    )


EXPERIMENTS: dict[str, Callable[[Request], str]] = {
    **{name: partial(tables, names=[name]) for name in TABLES},
    "samples": samples,
    "gaussian": gaussian,
    "convergence": convergence,
    "inconsistent": inconsistent,
    "sensitivity": sensitivity,
    "figures": figures,
}
"""The experiments by name. Each writes its files and returns its Markdown."""

WITHOUT_DATA = ("gaussian", "figures", "inconsistent")
DRAWN = ("samples", "gaussian", "convergence", "figures")


def run_experiment(
    name: str,
    outputs: Sequence[StoredOutputs],
    folder: Path,
    *,
    targets: Sequence[str | Path] = ("UNI",),
    quick: bool = False,
    methods: Sequence[str] = (),
    lists: Sequence[Path] = (),
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
    targets : sequence of str or Path
        Target distributions, or files of priors; "supplement" stands for all of `SUPPLEMENT`.
    quick : bool, default=False
        Fewer seeds and sizes.
    methods : sequence of str
        Further estimators: each is a column of Tables 2 to 4 and a line of the figures.
    lists : sequence of Path
        Folders with the published lists of training images, whose long tails "figures" draws.
    """
    require_known(name, EXPERIMENTS, "name")
    if not outputs and name not in WITHOUT_DATA:
        raise ValueError(f"{name} needs outputs of a classifier: an npz of logits and labels.")
    for method in methods:
        get_estimator(method)  # refuse a wrong name before anything runs
    if name in DRAWN:
        require_matplotlib()
    targets = SUPPLEMENT if tuple(targets) == ("supplement",) else tuple(targets)
    for target in targets:
        for one in outputs:
            target_priors(target, one.n_classes)  # refuse a wrong file, too
    folder.mkdir(parents=True, exist_ok=True)
    n_seeds = QUICK_SEEDS if quick else SEEDS
    request = Request(outputs, folder, targets, n_seeds, SHARE, quick, methods, lists=lists)
    text = EXPERIMENTS[name](request)
    request.write(f"{name}.md", text)
    return text
