"""The paper's figures."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.paper.distributions import (
    IMBALANCES,
    LONG_TAILS,
    Indices,
    Vector,
    distribution,
    long_tailed_counts,
    pareto_counts,
)
from lab.paper.supplement import DEVIATION, GAUSSIAN_SIZES, MEANS, ConfusionStudy, Stage
from lab.paper.tables import ResultTable, heading
from lab.paper.trials import COLUMNS, SOLVERS
from priorshift.plotting.style import (
    BLUE,
    GREEN,
    GREY,
    PURPLE,
    SERIES_MARKERS,
    VERMILLION,
    bare,
    require_matplotlib,
    series_style,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {
    BLUE: ("em", "map"),
    VERMILLION: ("cm", "cm-l", "cm-m", "bbse", "rlls"),
    GREEN: ("scm", "scm-l", "scm-m", "bbse-s"),
}
"""Colours tell what a method uses: predictions, a confusion matrix, a soft confusion matrix."""

KINDS = {
    (":", "s"): ("cm", "scm"),
    ("-", "o"): ("em", "cm-l", "scm-l"),
    ("--", "^"): ("map", "cm-m", "scm-m"),
    ("-.", "D"): ("bbse", "bbse-s"),
    ((0, (1, 1, 4, 1)), "x"): ("rlls",),
}
"""Lines and markers tell how: by inversion, by maximum likelihood, with a hyper-prior, or for the
ratio, by inversion or regularised."""

BROWN, VIOLET = "#A6761D", "#7B5EA7"

LINES: dict[str, tuple[str, Any]] = {
    "UNI": (GREY, ":"),
    "LT": (BLUE, "-"),
    "D1": (VERMILLION, "--"),
    "D2": (GREEN, "-."),
    "D3": (PURPLE, "-"),
    "D4": (BROWN, (0, (5, 1, 1, 1, 1, 1))),
    "D5": (VIOLET, (0, (6, 3))),
}
"""Colour and line of each class distribution; no two share a colour."""


def draw_samples(tables: Mapping[int, ResultTable]) -> "Figure":
    """Draw accuracy by the number of samples, one line per method, one panel per solver."""
    sizes = sorted(tables)
    first = tables[sizes[0]]
    solvers = list(dict.fromkeys(record.solver for record in first.records))
    figure, axes = _panels(len(solvers))
    for ax, solver in zip(axes, solvers, strict=True):
        for at, method in enumerate(first.methods):
            means = [
                np.mean(
                    [
                        r.accuracy
                        for r in tables[size].records
                        if (r.method, r.solver) == (method, solver)
                    ]
                )
                for size in sizes
            ]
            ax.plot(sizes, means, label=heading(method), **_style(method, at))
        ax.set(xscale="log", xlabel="target samples used", title=COLUMNS.get(solver, solver))
    _finish(figure, axes)
    return figure


def draw_distributions(n_classes: int) -> "Figure":
    """Draw the class distributions of the experiments; each has its own colour and line."""
    figure, ax = _figure()
    for name, (colour, line) in LINES.items():
        priors = distribution(name, n_classes)
        ax.plot(np.arange(n_classes), priors, color=colour, linestyle=line)
        end, look = (n_classes - 1, priors[-1]), {"va": "center", "color": colour}
        ax.annotate(name, end, xytext=(6, 0), textcoords="offset points", **look)
    ax.set(xlabel="class", ylabel="prior", yscale="log")
    bare(ax, "left", "bottom")
    return figure


def draw_long_tails(published: Mapping[str, Indices] | None = None) -> "Figure":
    """Draw the images per class of the paper's long-tailed training sets, largest class first.

    CIFAR-100-LT* follows its formula. The lists of Places365-LT and ImageNet-LT are not part of
    priorshift: without the counts that `published` gives, their curves are Pareto tails with the
    published ends and sums (`pareto_counts`).
    """
    tails = {"CIFAR-100-LT*": long_tailed_counts(100, 450, IMBALANCES["LT"])}
    tails |= {name: pareto_counts(*ends) for name, ends in LONG_TAILS.items()}
    tails |= published or {}
    figure, ax = _figure()
    for at, (name, counts) in enumerate(tails.items()):
        rank, sizes = np.arange(1, counts.size + 1), np.sort(counts)[::-1]
        style = series_style(at) | {"linestyle": ("-", "--", "-.")[at]}
        ax.plot(rank, sizes, markevery=[0, -1], label=f"{name}, {counts.size} classes", **style)
    ax.set(xlabel="class, by size", ylabel="training images", xscale="log", yscale="log")
    ax.legend(frameon=False, fontsize="small")
    bare(ax, "left", "bottom")
    return figure


def draw_gaussian(studies: Sequence[ConfusionStudy]) -> "Figure":
    """Draw the classifiers, and below them how far their estimated matrices are from the truth."""
    figure, axes = _figure((9.6, 5.4), nrows=2, ncols=len(studies))
    x = np.linspace(-8, 8, 200)
    posterior = 1 / (1 + np.exp(-(MEANS[1] - MEANS[0]) / DEVIATION**2 * x))
    for column, study in enumerate(studies):
        top, bottom = axes[0, column], axes[1, column]
        top.plot(x, posterior, color=GREY, label="posterior")
        top.plot(x, study.classifier.predict_proba(x)[:, 1], "--", color=BLUE,
                 label="classifier")  # fmt: skip
        top.axvline(study.classifier.threshold, color=VERMILLION, linewidth=1,
                    label="decision")  # fmt: skip
        top.set(title=study.classifier.name, xlabel="x")
        for at, (kind, distances) in enumerate(study.distances.items()):
            bottom.plot(GAUSSIAN_SIZES, distances, label=kind, markersize=4, **series_style(at))
        bottom.set(xscale="log", xlabel="validation samples", ylim=(0, None))
    axes[0, 0].set_ylabel("P(class 1)")
    axes[1, 0].set_ylabel("distance from the true matrix")
    axes[0, 0].legend(frameon=False, fontsize="small")
    axes[1, 0].legend(frameon=False, fontsize="small")
    return figure


def draw_convergence(stages: Sequence[Stage]) -> "Figure":
    """Draw accuracy over time, one panel per column; thin lines continue where a method ended.

    A method without a choice of solver is the same in every panel.
    """
    solvers = [solver for solver in SOLVERS if any(s.solver == solver for s in stages)]
    methods = list(dict.fromkeys(stage.method for stage in stages))
    latest = max(stage.seconds for stage in stages) * 1.5
    figure, axes = _panels(len(solvers))
    for ax, solver in zip(axes, solvers, strict=True):
        for at, method in enumerate(methods):
            own = [s for s in stages if s.method == method]
            found = [s for s in own if s.solver == solver] or [
                s for s in own if s.solver == "certified"
            ]
            style = _style(method, at)
            seconds = np.maximum.accumulate([stage.seconds for stage in found])
            accuracies = [stage.accuracy for stage in found]
            ax.plot(seconds, accuracies, label=heading(method), **style)
            ax.plot([seconds[-1], latest], [accuracies[-1]] * 2, color=style["color"], lw=0.6)
        ax.set(xscale="log", xlabel="seconds", title=COLUMNS.get(solver, solver))
    _finish(figure, axes)
    return figure


def draw_feasible_set(confusion: Vector) -> "Figure":
    """Draw the decision frequencies that a three-class confusion matrix can explain.

    The set is the triangle whose corners are the columns of C, inside the triangle of all
    distributions. No valid priors explain a point outside the set.
    """
    figure, ax = _figure((4.6, 4.2))
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])
    outer, inner = corners[[0, 1, 2, 0]], (confusion.T @ corners)[[0, 1, 2, 0]]
    ax.plot(*outer.T, color=GREY)
    ax.fill(*inner.T, color=BLUE, alpha=0.3)
    ax.plot(*inner.T, color=BLUE)
    for k, corner in enumerate(corners):
        away = (
            0.06 * (corner - corners.mean(axis=0)) / np.linalg.norm(corner - corners.mean(axis=0))
        )
        ax.annotate(f"decision {k}", corner + away, ha="center", va="center")
    ax.annotate(r"$\Phi_C$", inner[:3].mean(axis=0), ha="center", va="center")
    ax.set(aspect="equal", xlim=(-0.2, 1.2), ylim=(-0.15, 1.05))
    ax.axis("off")
    return figure


def _figure(size: tuple[float, float] = (7.4, 4.2), **panels: Any) -> tuple["Figure", Any]:
    require_matplotlib()
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=size, layout="constrained", **panels)


def _panels(n: int) -> tuple["Figure", Any]:
    size = (1.5 + 4.2 * n, 4.2)
    figure, axes = _figure(size, ncols=n, sharex=True, sharey=True, squeeze=False)
    return figure, axes[0]


def _finish(figure: "Figure", axes: Any) -> None:
    axes[0].set_ylabel("accuracy, %")
    handles, labels = axes[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False, fontsize="small")


def _style(method: str, at: int) -> dict[str, Any]:
    """Return the look of a method; methods that are not in the paper differ by their markers."""
    if method in ("na", "oracle"):
        return {"color": GREY, "linestyle": ":" if method == "na" else "--"}
    colours = [colour for colour, methods in COLOURS.items() if method in methods]
    kinds = [kind for kind, methods in KINDS.items() if method in methods]
    line, marker = kinds[0] if kinds else ("-.", SERIES_MARKERS[at % len(SERIES_MARKERS)])
    colour = colours[0] if colours else PURPLE
    return {"color": colour, "linestyle": line, "marker": marker, "markersize": 4}
