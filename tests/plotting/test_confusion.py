"""ConfusionDisplay: shares of decisions by true class."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import priorshift as ps
from priorshift.plotting import ConfusionDisplay
from priorshift.plotting._labelled import pool
from priorshift.solvers import condition_number

Y_PROBA = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.4, 0.6]])
Y = np.array(["cat", "dog", "dog", "dog"])


def confused(conditional, classes):
    """Make a display whose empty columns are of classes without samples."""
    conditional = np.asarray(conditional, float)
    return ConfusionDisplay(conditional, np.asarray(classes), conditional.max(axis=0) > 0)


def cells(ax):
    """Return what is written into cells, by row and column."""
    return {text.get_position()[::-1]: text.get_text() for text in ax.texts}


def test_columns_are_true_classes_and_rows_decisions(ax):
    display = ConfusionDisplay.from_predictions(Y_PROBA, Y, ax=ax)
    np.testing.assert_allclose(display.conditional, [[1, 1 / 3], [0, 2 / 3]])
    np.testing.assert_allclose(display.im_.get_array(), display.conditional)
    assert cells(ax) == {(0, 0): "100", (0, 1): "33", (1, 0): "0", (1, 1): "67"}
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("true class", "decision (hard)")
    assert [label.get_text() for label in ax.get_xticklabels()] == ["cat", "dog"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["cat", "dog"]


def test_soft_decisions_are_mean_probabilities(ax):
    confusion = ps.Confusion.from_arrays(Y_PROBA, np.array([0, 1, 1, 1]), decision="soft")
    display = ConfusionDisplay.from_confusion(confusion, ["cat", "dog"], ax=ax)
    np.testing.assert_allclose(display.conditional[:, 0], [0.9, 0.1])
    np.testing.assert_allclose(display.conditional[:, 1], Y_PROBA[1:].mean(axis=0))
    assert ax.get_ylabel() == "decision (soft)"


def test_frames_are_matched_to_classes_by_name(ax):
    frame = pd.DataFrame(Y_PROBA[:, ::-1], columns=["dog", "cat"])
    display = ConfusionDisplay.from_predictions(frame, Y, classes=["cat", "dog"], ax=ax)
    np.testing.assert_allclose(display.conditional, [[1, 1 / 3], [0, 2 / 3]])


def test_the_confusion_of_a_fitted_estimator_is_the_same(ax):
    est = ps.SCML().fit(Y_PROBA, Y)
    display = ConfusionDisplay.from_confusion(est.confusion_, est.classes_, ax=ax)
    np.testing.assert_array_equal(display.conditional, est.confusion_.conditional)
    assert display.decision == "soft"


def test_the_condition_number_stands_in_the_title(ax):
    display = confused([[0.8, 0.2], [0.2, 0.8]], ["a", "b"]).plot(ax)
    assert display.condition_number == pytest.approx(5 / 3)
    assert ax.get_title(loc="left") == "Confusion matrix\ncondition number 1.67; numbers in %"


def test_text_stands_out_from_its_cell(ax):
    confused([[0.9, 0.0], [0.1, 1.0]], ["a", "b"]).plot(ax)
    image = ax.get_images()[0]
    for text in ax.texts:
        column, row = text.get_position()
        behind = image.to_rgba(image.get_array())[row, column, :3]
        in_front = np.array(text.get_color())[:3]
        assert abs(behind.mean() - in_front.mean()) > 0.25


# Classes without samples


def test_columns_without_samples_are_hatched_and_left_out_of_the_condition(ax):
    conditional = np.array([[0.8, 0.0, 0.3], [0.1, 0.0, 0.1], [0.1, 0.0, 0.6]])
    display = confused(conditional, ["a", "b", "c"]).plot(ax)
    assert display.seen.tolist() == [True, False, True]
    assert np.ma.getmaskarray(display.im_.get_array()).tolist() == [[False, True, False]] * 3
    hatched = next(c for c in ax.collections if c.get_label() == "not in validation")
    (path,) = hatched.get_paths()
    np.testing.assert_allclose(path.get_extents().bounds, (0.5, -0.5, 1, 3))
    assert hatched.get_hatch()
    assert not any(column == 1 for _, column in cells(ax))
    assert display.condition_number == condition_number(conditional[:, [0, 2]])
    assert "1 not in validation (hatched)" in ax.get_title(loc="left")


# Many classes


@pytest.mark.parametrize(("K", "written"), [(12, True), (13, False)])
def test_numbers_are_written_where_they_fit(K, written, ax):
    confused(np.eye(K), np.arange(K)).plot(ax)
    assert len(ax.texts) == (K * K if written else 0)
    assert ("numbers in %" in ax.get_title(loc="left")) == written


@pytest.mark.parametrize(("K", "ticks"), [(30, 30), (100, 10), (400, 8)])
def test_ticks_are_thinned(K, ticks, ax):
    display = confused(np.eye(K), [f"c{k}" for k in range(K)]).plot(ax)
    shown = [label.get_text() for label in ax.get_xticklabels()]
    assert len(shown) == ticks
    assert shown[1] == f"c{K // ticks}"
    assert max(display.im_.get_array().shape) <= 200


def test_very_many_classes_are_grouped_and_ticks_stay_with_their_classes(ax):
    confused(np.eye(600), np.arange(600)).plot(ax)
    assert "a cell is 3 x 3 classes" in ax.get_title(loc="left")
    assert ax.get_images()[0].get_array().shape == (200, 200)
    np.testing.assert_allclose(ax.get_xticks()[1], 50.5 / 3 - 0.5)


def test_groups_are_averages_of_classes_and_sums_of_decisions(rng):
    conditional = rng.dirichlet(np.ones(5), 5).T
    pooled, group = pool(conditional, np.ones(5, bool), 3)
    assert group == 2
    assert pooled.shape == (3, 3)
    np.testing.assert_allclose(pooled[0, 1], conditional[0:2, 2:4].sum() / 2)
    np.testing.assert_allclose(pooled[2, 2], conditional[4, 4])
    np.testing.assert_allclose(pooled.sum(axis=0), 1)


def test_groups_leave_out_unseen_classes(rng):
    conditional = rng.dirichlet(np.ones(4), 4).T
    seen = np.array([True, False, False, False])
    pooled, _ = pool(conditional * seen, seen, 2)
    np.testing.assert_allclose(pooled[:, 0], [conditional[:2, 0].sum(), conditional[2:, 0].sum()])
    assert np.isnan(pooled[:, 1]).all()


def test_unseen_classes_within_groups_are_not_called_hatched(ax):
    confused(np.diag(np.arange(400) != 3).astype(float), np.arange(400)).plot(ax)
    assert "1 not in validation" in ax.get_title(loc="left")
    assert "hatched" not in ax.get_title(loc="left")


# Errors


def test_bad_arguments_are_refused(ax):
    with pytest.raises(ValueError, match="y has 3 labels but there are 4 rows"):
        ConfusionDisplay.from_predictions(Y_PROBA, Y[:3], ax=ax)
    with pytest.raises(ValueError, match="label outside classes: 'dog'"):
        ConfusionDisplay.from_predictions(Y_PROBA, Y, classes=["cat", "cow"], ax=ax)


@pytest.mark.parametrize(
    ("K", "name"),
    [
        (2, "a longer name {}"),
        (4, "Genus species {}, juvenile"),
        (12, "class {}"),
        (20, "c{}"),
        (30, "Genus species {}, juvenile"),
    ],
)
def test_names_of_classes_do_not_overlap(K, name):
    display = confused(np.eye(K), [name.format(k) for k in range(K)]).plot()
    display.figure_.draw_without_rendering()
    for labels in (display.ax_.get_xticklabels(), display.ax_.get_yticklabels()):
        boxes = [label.get_window_extent() for label in labels]
        assert not any(one.overlaps(other) for one, other in pairwise(boxes))


@pytest.mark.parametrize("K", [31, 77, 100, 121, 1000, 10_000])
def test_of_many_classes_few_are_named_at_even_distances(K):
    at, shown = ConfusionDisplay(np.eye(1), np.arange(K), np.ones(K, bool))._names()
    assert 2 <= at.size == len(shown) <= 12
    assert at[0] == 0
    assert at[-1] < K
    assert np.unique(np.diff(at)).size == 1
