"""ComparisonDisplay: priors by method."""

from itertools import pairwise

import numpy as np
import pytest

from priorshift.plotting import ComparisonDisplay

CLASSES = ["ant", "bee", "cow"]
PRIORS = np.array([[0.2, 0.3, 0.5], [0.3, 0.3, 0.4], [0.6, 0.3, 0.1]])
METHODS = ["em", "cm", "na"]
TRUTH = np.array([0.25, 0.35, 0.4])


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
    ComparisonDisplay(base, ["a", "b"], np.arange(50)).plot(ax)
    assert names_along(ax.yaxis) == ["31", "7", "20"]
    assert "the 3 on which methods differ most" in ax.get_title(loc="left")
    assert len(ax.get_lines()) == 2


def test_classes_that_only_no_adaptation_disputes_are_not_drawn(ax, monkeypatch):
    monkeypatch.setattr(ComparisonDisplay, "MAX_CLASSES", 1)
    priors = [[0.2, 0.3, 0.5], [0.22, 0.38, 0.4], [0.9, 0.05, 0.05]]
    ComparisonDisplay(priors, ["em", "cm", "na"], CLASSES).plot(ax)
    assert names_along(ax.yaxis) == ["cow"]
    ax.clear()
    ComparisonDisplay(priors, ["em", "cm", "bbse"], CLASSES).plot(ax)
    assert names_along(ax.yaxis) == ["ant"]


def test_one_method_is_a_comparison_too(ax):
    ComparisonDisplay(PRIORS[:1], ["em"], CLASSES, truth=TRUTH).plot(ax)
    (dots,) = ax.get_lines()
    np.testing.assert_array_equal(dots.get_ydata(), [0, 1, 2])
    assert ax.get_title(loc="left") == "Agreement of methods\n1 method, 3 classes"


# Distances


def test_distances_are_total_variation():
    distances = ComparisonDisplay(PRIORS, METHODS, CLASSES).distances
    np.testing.assert_allclose(distances, [[0, 0.1, 0.4], [0.1, 0, 0.3], [0.4, 0.3, 0]])


def test_the_title_names_the_two_furthest_apart_but_not_na(ax):
    priors = np.vstack([PRIORS, [0.25, 0.25, 0.5]])
    ComparisonDisplay(priors, [*METHODS, "rlls"], CLASSES).plot(ax)
    assert ax.get_title(loc="left") == (
        "Agreement of methods\n4 methods, 3 classes\nfurthest apart: em and cm, by 10%"
    )


@pytest.mark.parametrize(
    ("M", "K", "rows"), [(12, 2, 2), (5, 12, 12), (12, 10, 5), (2, 1000, 12), (30, 100, 3)]
)
def test_the_number_of_classes_follows_the_number_of_dots(M, K, rows, rng, ax):
    ComparisonDisplay(rng.dirichlet(np.ones(K), M), list(map(str, range(M))), np.arange(K)).plot(ax)
    assert len(names_along(ax.yaxis)) == rows
    assert ("differ most" in ax.get_title(loc="left")) == (rows < K)


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
