"""ReliabilityDisplay: bins, intervals, ECE and the histogram underneath."""

import numpy as np
import pytest
from scipy.stats import binomtest

from priorshift.plotting import ReliabilityDisplay


def reliable(confidence, accuracy, rows, histogram, n_classes):
    bins = np.asarray(confidence), np.asarray(accuracy)
    return ReliabilityDisplay(np.asarray(rows), *bins, histogram, n_classes)


@pytest.fixture
def data(simulate, rng):
    return simulate(5).draw(np.full(5, 0.2), 2000, rng)


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_points_are_mean_confidence_and_accuracy_of_bins(data, ax):
    y_proba, y = data
    display = ReliabilityDisplay.from_predictions(y_proba, y, ax=ax)
    confidence, right = y_proba.max(axis=1), y_proba.argmax(axis=1) == y
    parts = np.array_split(np.argsort(confidence), 10)
    np.testing.assert_allclose(display.confidence, [confidence[p].mean() for p in parts])
    np.testing.assert_allclose(display.accuracy, [right[p].mean() for p in parts])
    np.testing.assert_array_equal(display.rows, [p.size for p in parts])
    drawn = next(found for found in ax.get_lines() if found.get_marker() == "o")
    np.testing.assert_array_equal(
        drawn.get_xydata(), np.column_stack([display.confidence, display.accuracy])
    )


def test_bins_have_equally_many_samples_by_default(data, ax):
    display = ReliabilityDisplay.from_predictions(*data, ax=ax)
    np.testing.assert_array_equal(display.rows, np.full(10, 200))
    assert legend(ax) == ["perfectly calibrated", "bins of equal count, 95% interval"]


def test_ece_of_a_calibrated_classifier_is_small_and_grows_with_overconfidence(data, ax):
    y_proba, y = data
    calm = ReliabilityDisplay.from_predictions(y_proba, y, ax=ax)
    sharp = y_proba**3 / (y_proba**3).sum(axis=1, keepdims=True)
    sure = ReliabilityDisplay.from_predictions(sharp, y, ax=ax)
    assert calm.error < 0.03
    assert sure.error > 2 * calm.error
    assert (sure.accuracy < sure.confidence)[:5].all()


def test_ece_weighs_bins_by_samples():
    display = reliable([0.5, 0.9], [0.4, 0.95], [30, 10], np.ones(40), 2)
    assert display.error == pytest.approx((30 * 0.1 + 10 * 0.05) / 40)


def test_labels_may_be_names_and_predictions_one_column(ax):
    y_proba = np.array([0.75, 0.75, 0.25, 0.25])
    display = ReliabilityDisplay.from_predictions(y_proba, [1, 0, 0, 0], ax=ax)
    np.testing.assert_allclose(display.confidence, [0.75])
    np.testing.assert_allclose(display.accuracy, [0.75])
    y = ["b", "a", "a", "a"]
    named = ReliabilityDisplay.from_predictions(y_proba, y, classes=["a", "b"], ax=ax)
    np.testing.assert_allclose(named.accuracy, [0.75])


# What is drawn


def test_the_title_has_the_numbers(ax):
    reliable([0.5, 0.9], [0.4, 0.94], [3000, 1000], np.ones(40), 10).plot(ax)
    assert ax.get_title(loc="left") == (
        "Reliability: calibration error 8.5%\naccuracy 54%, mean confidence 60%, 4,000 samples"
    )


def test_error_bars_are_the_intervals(ax):
    display = reliable([0.5, 0.9], [0.4, 0.95], [30, 20], np.ones(40), 10).plot(ax)
    (bars,) = ax.collections
    np.testing.assert_allclose([s[:, 1] for s in bars.get_segments()], display.interval)
    assert ax.get_ylim()[0] < 0  # room for the histogram


def test_the_histogram_counts_confidence_in_a_strip_below(data, ax):
    y_proba, y = data
    display = ReliabilityDisplay.from_predictions(y_proba, y, ax=ax)
    counts = np.histogram(y_proba.max(axis=1), bins=40, range=(0, 1))[0]
    np.testing.assert_array_equal(display.histogram, counts)
    assert counts.sum() == 2000
    (stairs,) = ax.patches
    heights, edges, bottom = stairs.get_data()
    np.testing.assert_allclose(edges, np.linspace(0, 1, 41))
    assert heights.max() < 0  # nothing of the diagram is covered
    assert ax.get_ylim()[0] == bottom
    np.testing.assert_allclose((heights - bottom) / (heights - bottom).max(), counts / counts.max())
    assert [text.get_text() for text in ax.texts] == [f"samples, up to {counts.max():,} per bar"]


@pytest.mark.parametrize(("K", "lowest"), [(2, 0.5), (3, 0.3), (10, 0.1), (1000, 0.0)])
def test_the_axis_begins_where_confidence_does(K, lowest, ax):
    reliable([0.8], [0.8], [5], np.ones(40), K).plot(ax)
    assert ax.get_xlim()[0] == pytest.approx(lowest)


# Few samples


def test_a_single_sample_is_a_bin_with_a_wide_interval(ax):
    display = ReliabilityDisplay.from_predictions([[0.7, 0.3]], [0], classes=[0, 1], ax=ax)
    np.testing.assert_allclose(display.confidence, [0.7])
    assert display.interval[0, 0] < 0.25
    assert display.interval[0, 1] == pytest.approx(1)


@pytest.mark.parametrize(("right", "n"), [(0, 3), (3, 3), (7, 20), (450, 1000)])
def test_intervals_are_those_of_scipy(right, n):
    display = reliable([0.9], [right / n], [n], np.zeros(40), 2)
    ours = display.interval[0]
    theirs = binomtest(right, n).proportion_ci(0.95, method="wilson")
    np.testing.assert_allclose(ours, [theirs.low, theirs.high], atol=1e-12)


# Numbers and errors


def test_bad_arguments_are_refused(data, ax):
    y_proba, y = data
    with pytest.raises(ValueError, match="y has 5 labels but there are 2000 rows"):
        ReliabilityDisplay.from_predictions(y_proba, y[:5], ax=ax)
