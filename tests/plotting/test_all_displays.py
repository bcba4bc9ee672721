"""What all displays promise: scikit-learn's convention, no pyplot where axes are given."""

import inspect
import io
import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import priorshift as ps
from priorshift import plotting
from priorshift.plotting import style

SIZES = (2, 1000)


def names(K):
    return [f"Genus{k % 7} a-rather-long-species-name {k}" for k in range(K)]


def priors_display(K, rng):
    source, target = rng.dirichlet(np.ones(K), 2)
    interval = np.column_stack([0.9 * target, 1.1 * target])
    return plotting.PriorsDisplay(target, source, names(K), interval=interval, method="em")


def confusion_display(K, rng):
    K = min(K, 400)  # grouping has begun, and the condition number does not yet take seconds
    conditional = 0.6 * np.eye(K) + 0.4 * rng.dirichlet(np.ones(K), K).T
    return plotting.ConfusionDisplay(conditional, names(K), seen=np.arange(K) != 1)


def reliability_display(K, rng):
    bins = np.array([4, 30]), np.array([0.6, 0.9]), np.array([0.5, 0.95]), np.arange(40)
    return plotting.ReliabilityDisplay(*bins, K)


def comparison_display(K, rng):
    methods = [f"method {m}" for m in range(13)]
    return plotting.ComparisonDisplay(
        rng.dirichlet(np.ones(K), 13), methods, names(K), truth=np.full(K, 1 / K)
    )


def groups_display(K, rng):
    priors = rng.dirichlet(np.ones(K), 30)
    interval = np.stack([0.9 * priors, 1.1 * priors], axis=-1)
    sites = [f"site {g}" for g in range(30)]
    return plotting.GroupsDisplay(
        priors,
        sites,
        names(K),
        priors.mean(axis=0),
        n=np.arange(30),
        interval=interval,
        method="em",
    )


def monitor_display(K, rng):
    return plotting.MonitorDisplay(
        rng.dirichlet(np.ones(K), 60),
        np.full(K, 1 / K),
        names(K),
        tuple(range(60)),
        np.arange(60) == 40,
        np.arange(60) >= 40,
        method="scm-l",
    )


def cost_display(K, rng):
    share = np.linspace(0, 1, 21)
    return plotting.CostDisplay(share, 1 + share, 4 * share * (1 - share), names(K)[0], source=0.5)


MAKERS = {
    "costs": cost_display,
    "groups": groups_display,
    "monitor": monitor_display,
    "priors": priors_display,
    "confusion": confusion_display,
    "reliability": reliability_display,
    "comparison": comparison_display,
}
every_display = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
EACH_SIZE = [
    pytest.param(make, K, id=f"{name}-{K}")
    for name, make in MAKERS.items()
    for K in (SIZES if name in ("priors", "confusion", "comparison") else (10,))
]
"""The others look the same at any number of classes."""


def test_the_package_exports_its_displays():
    assert plotting.__all__ == sorted(plotting.__all__)
    for name in plotting.__all__:
        assert name.endswith("Display")
        assert inspect.getdoc(getattr(plotting, name)).startswith("Show ")


@every_display
def test_plot_makes_a_figure_of_its_own_and_returns_the_display(make, rng):
    display = make(10, rng)
    assert not hasattr(display, "ax_")
    assert display.plot() is display
    assert plt.get_fignums() == [display.figure_.number]
    assert display.ax_.figure is display.figure_
    np.testing.assert_allclose(display.figure_.get_size_inches(), display.figsize())
    first, second = display.ax_, display.plot().ax_
    assert first is not second
    assert len(first.get_children()) == len(second.get_children())


@every_display
def test_pyplot_is_not_touched_where_axes_are_given(make, rng, ax):
    before = dict(mpl.rcParams)
    display = make(10, rng).plot(ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert plt.get_fignums() == []
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize(("make", "K"), EACH_SIZE)
def test_nothing_is_cut_off_a_figure_of_its_own(make, K, rng):
    figure = make(K, rng).plot().figure_
    figure.draw_without_rendering()
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert box.x0 >= -0.01
    assert box.y0 >= -0.01
    assert box.x1 <= width + 0.01
    assert box.y1 <= height + 0.01


@every_display
def test_vector_files_stay_small(make, rng):
    display = make(1000, rng)
    figure = Figure(figsize=display.figsize(), layout="constrained")
    display.plot(figure.subplots())
    file = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        figure.savefig(file, format="svg")
    assert file.tell() < 130_000


@every_display
def test_words_have_the_colour_of_the_style(make, rng):
    with plt.style.context("dark_background"):
        display = make(10, rng).plot()
    ax = display.ax_
    written = [ax.xaxis.label, ax.yaxis.label, *ax.get_yticklabels(), ax._left_title]
    if ax.get_legend() is not None:
        written += ax.get_legend().get_texts()
    assert {to_rgb(text.get_color()) for text in written} == {(1.0, 1.0, 1.0)}
    assert to_rgb(display.figure_.get_facecolor()) == (0.0, 0.0, 0.0)


@every_display
def test_numbers_need_no_matplotlib_and_plots_name_the_extra(make, rng, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    display = make(4, rng)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        display.plot()


def luminance(colour):
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("colour", style.SERIES_COLOURS)
def test_colours_are_seen_on_light_and_on_dark(colour):
    assert 1.05 / (luminance(colour) + 0.05) >= 3
    assert (luminance(colour) + 0.05) / 0.05 >= 3


def test_60_series_differ_in_colour_or_marker_and_12_in_marker():
    styles = [tuple(style.series_style(m).values()) for m in range(60)]
    assert len(set(styles)) == 60
    assert len({marker for _, marker in styles[:12]}) == 12


def test_class_names_with_dollars_and_line_breaks_are_drawn_as_they_are(make_estimate):
    classes = ["$\\frac", "two\nlines", "$x$ and $y"]
    estimate = make_estimate([0.2, 0.3, 0.5], [0.5, 0.3, 0.2], classes)
    display = plotting.PriorsDisplay.from_estimate(estimate)
    display.figure_.savefig(io.BytesIO())
    drawn = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert drawn == ["$\\frac", "two lines", "$x$ and $y"]
    plotting.ComparisonDisplay(
        np.array([estimate.priors] * 2), ["$\\frac", "$b"], estimate.classes
    ).plot().figure_.savefig(io.BytesIO())
    conditional = ps.Confusion.from_arrays(np.eye(3), np.arange(3), decision="hard")
    plotting.ConfusionDisplay.from_confusion(conditional, classes).figure_.savefig(io.BytesIO())
