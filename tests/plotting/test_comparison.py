"""ComparisonDisplay: priors by method, or distances between methods."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure

from priorshift.plotting import ComparisonDisplay

CLASSES = ["ant", "bee", "cow"]
PRIORS = np.array([[0.2, 0.3, 0.5], [0.3, 0.3, 0.4], [0.6, 0.3, 0.1]])
METHODS = ["em", "cm", "na"]
TRUTH = np.array([0.25, 0.35, 0.4])


def plotted(display, ax, kind):
    """Show priors or distances, however many there are."""
    display.MAX_DOTS = 0 if kind == "distance" else 10**9
    return display.plot(ax)


def names_along(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# Priors


def test_few_priors_are_dots_a_row_a_class(ax):
    ComparisonDisplay(PRIORS, METHODS, CLASSES).plot(ax)
    assert names_along(ax.yaxis) == CLASSES
    assert legend(ax) == METHODS
    for method, dots in zip(PRIORS, ax.get_lines(), strict=True):
        np.testing.assert_array_equal(dots.get_xdata(), method)
        np.testing.assert_array_equal(np.round(dots.get_ydata()), [0, 1, 2])
    assert len({dots.get_marker() for dots in ax.get_lines()}) == 3
    assert len({dots.get_color() for dots in ax.get_lines()}) == 3


def test_methods_are_stacked_within_a_row_in_the_order_of_the_legend(ax):
    ComparisonDisplay(PRIORS, METHODS, CLASSES).plot(ax)
    heights = [dots.get_ydata()[0] for dots in ax.get_lines()]
    assert all(one < other for one, other in pairwise(heights))  # downwards
    assert ax.yaxis_inverted()


def test_the_truth_is_a_line_through_the_row(ax):
    ComparisonDisplay(PRIORS, METHODS, CLASSES, truth=TRUTH).plot(ax)
    lines = next(found for found in ax.collections if found.get_label() == "truth")
    np.testing.assert_allclose([s[:, 0] for s in lines.get_segments()], np.tile(TRUTH, (2, 1)).T)
    np.testing.assert_allclose([s[:, 1].mean() for s in lines.get_segments()], [0, 1, 2])
    assert legend(ax) == ["truth", *METHODS]


def test_of_many_classes_those_in_dispute_are_drawn(ax, monkeypatch):
    monkeypatch.setattr(ComparisonDisplay, "MAX_CLASSES", 3)
    base = np.full((2, 50), 0.02)
    base[1, [7, 31, 20]] += [0.01, -0.015, 0.005]
    plotted(ComparisonDisplay(base, ["a", "b"], np.arange(50)), ax, "priors")
    assert names_along(ax.yaxis) == ["31", "7", "20"]
    assert "the 3 on which methods differ most" in ax.get_title(loc="left")
    assert len(ax.get_lines()) == 2


def test_one_method_is_a_comparison_too(ax):
    ComparisonDisplay(PRIORS[:1], ["em"], CLASSES, truth=TRUTH).plot(ax)
    (dots,) = ax.get_lines()
    np.testing.assert_array_equal(dots.get_ydata(), [0, 1, 2])
    assert ax.get_title(loc="left") == "Agreement of methods\n1 method, 3 classes"


# Distances


def test_distances_are_total_variation():
    distances = ComparisonDisplay(PRIORS, METHODS, CLASSES).distances
    np.testing.assert_allclose(distances, [[0, 0.1, 0.4], [0.1, 0, 0.3], [0.4, 0.3, 0]])


def test_the_method_nearest_to_all_comes_first(ax):
    plotted(ComparisonDisplay(PRIORS, METHODS, CLASSES), ax, "distance")
    assert names_along(ax.xaxis) == names_along(ax.yaxis) == ["cm", "em", "na"]
    drawn = ax.get_images()[0].get_array()
    assert np.ma.getmaskarray(drawn).tolist() == np.eye(3, dtype=bool).tolist()
    np.testing.assert_allclose(drawn.filled(0), [[0, 0.1, 0.3], [0.1, 0, 0.4], [0.3, 0.4, 0]])
    cells = {text.get_position()[::-1]: text.get_text() for text in ax.texts}
    assert cells[0, 2] == cells[2, 0] == "30.0"
    assert (1, 1) not in cells


def test_with_the_truth_methods_are_in_the_order_of_their_error(ax):
    truth = PRIORS[1]  # a method that is right does not push the truth from its place
    plotted(ComparisonDisplay(PRIORS, METHODS, CLASSES, truth=truth), ax, "distance")
    assert names_along(ax.yaxis) == ["truth", "cm", "em", "na"]
    np.testing.assert_allclose(ax.get_images()[0].get_array()[0, 1:], [0.0, 0.1, 0.3])


def test_methods_that_agree_look_alike(ax):
    priors = [[0.5, 0.5], [0.51, 0.49]]
    plotted(ComparisonDisplay(priors, ["a", "b"], ["x", "y"]), ax, "distance")
    assert ax.get_images()[0].get_clim() == (0.0, 0.25)


def test_the_title_names_the_two_furthest_apart_but_not_na(ax):
    priors = np.vstack([PRIORS, [0.25, 0.25, 0.5]])
    plotted(ComparisonDisplay(priors, [*METHODS, "rlls"], CLASSES), ax, "distance")
    assert ax.get_title(loc="left") == (
        "Agreement of methods\n4 methods, 3 classes; numbers in %\n"
        "furthest apart: em and cm, by 10%"
    )


@pytest.mark.parametrize(
    ("M", "K", "image"), [(12, 2, False), (5, 12, False), (12, 10, True), (2, 1000, True)]
)
def test_the_kind_follows_the_number_of_dots(M, K, image, rng, ax):
    ComparisonDisplay(rng.dirichlet(np.ones(K), M), list(map(str, range(M))), np.arange(K)).plot(ax)
    assert bool(ax.get_images()) == image


def test_many_methods_are_cells_without_numbers(rng, ax):
    priors = rng.dirichlet(np.ones(100), 30)
    ComparisonDisplay(priors, [f"m{m}" for m in range(30)], np.arange(100)).plot(ax)
    assert not ax.texts
    assert len(names_along(ax.yaxis)) == 30
    assert "numbers" not in ax.get_title(loc="left")


# From estimates


def test_estimates_give_priors_by_name(make_estimate, ax):
    estimates = {
        "one": make_estimate(TRUTH, PRIORS[0], CLASSES),
        "two": make_estimate(TRUTH, PRIORS[1], CLASSES),
    }
    truth = {"cow": 0.4, "ant": 0.25, "bee": 0.35}
    display = ComparisonDisplay.from_estimates(estimates, truth=truth, ax=ax)
    assert display.methods == ("one", "two")
    np.testing.assert_array_equal(display.priors, PRIORS[:2])
    np.testing.assert_allclose(display.truth, TRUTH)


# Errors


def test_estimates_of_other_classes_are_refused(make_estimate, ax):
    estimates = {
        "one": make_estimate(TRUTH, PRIORS[0], CLASSES),
        "two": make_estimate(TRUTH, PRIORS[1], ["ant", "bee", "yak"]),
    }
    with pytest.raises(ValueError, match="'two' and 'one' have different classes"):
        ComparisonDisplay.from_estimates(estimates, ax=ax)
    for nothing in ({}, list(estimates.values())):
        with pytest.raises(ValueError, match="estimates must map names to at least one"):
            ComparisonDisplay.from_estimates(nothing, ax=ax)


@pytest.mark.parametrize("width", [4.0, 12.0])
def test_cells_hold_numbers_only_where_they_have_room(width, rng):
    methods = [f"m{m}" for m in range(20)]
    figure = Figure(figsize=(width, width), layout="constrained")
    display = ComparisonDisplay(rng.dirichlet(np.ones(9), 20), methods, np.arange(9))
    ax = plotted(display, figure.subplots(), "distance").ax_
    figure.draw_without_rendering()
    first_row = [text.get_window_extent() for text in ax.texts if text.get_position()[1] == 0]
    assert len(first_row) == (19 if width > 6 else 0)
    assert ("numbers in %" in ax.get_title(loc="left")) == bool(first_row)
    assert not any(one.overlaps(other) for one, other in pairwise(first_row))
