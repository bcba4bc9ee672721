"""SampleSizeDisplay: how estimates on subsets approach the full one."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import priorshift as ps
from priorshift.plotting import SampleSizeDisplay


@pytest.fixture
def fitted(simulate, rng):
    """Return an estimator and 2000 rows of a target."""
    world = simulate(3, spread=2.0)
    est = ps.SCML().fit(*world.draw(world.source_priors, 2000, rng))
    return est, world.draw(np.array([0.2, 0.3, 0.5]), 2000, rng)[0]


def law(c, n_target, sizes, n_repeats=5):
    """Make distances that follow d(n) = c sqrt(1/n - 1/N) exactly."""
    sizes = np.asarray(sizes)
    distances = c * np.sqrt(1 / sizes - 1 / n_target)
    return SampleSizeDisplay(sizes, np.tile(distances[:, None], n_repeats), n_target, method="em")


def line(ax, label):
    return next(found for found in ax.get_lines() if found.get_label() == label)


# What is computed


def test_distances_are_those_of_estimates_on_subsets(fitted, ax):
    est, y_proba = fitted
    display = SampleSizeDisplay.from_predictions(est, y_proba, random_state=7, ax=ax)
    full, rng = est.estimate(y_proba).priors, np.random.default_rng(7)
    expected = [
        [
            np.abs(est.estimate(y_proba[rows]).priors - full).sum()
            for rows in (rng.choice(2000, n, replace=False, shuffle=False) for _ in range(10))
        ]
        for n in display.sizes
    ]
    np.testing.assert_allclose(display.distances, expected)
    assert display.n_target == 2000


def test_larger_subsets_are_nearer_to_the_full_estimate(fitted, ax):
    display = SampleSizeDisplay.from_predictions(*fitted, ax=ax)
    assert display.sizes[0] == 50
    assert display.sizes[-1] == 500
    assert display.distances.shape == (8, 10)
    assert display.median[-1] < 0.6 * display.median[0]


def test_the_same_seed_gives_the_same_plot_and_another_another(fitted, ax):
    def distances(seed):
        return SampleSizeDisplay.from_predictions(*fitted, random_state=seed, ax=ax).distances

    np.testing.assert_array_equal(distances(3), distances(3))
    np.testing.assert_array_equal(distances(3), distances(np.random.default_rng(3)))
    assert (distances(3) != distances(4)).all()


def test_the_law_gives_the_error_that_fresh_samples_have(simulate, rng, ax):
    world, priors = simulate(3, spread=2.0), np.array([0.2, 0.3, 0.5])
    est = ps.EM().fit(source_priors=world.source_priors)
    display = SampleSizeDisplay.from_predictions(est, world.draw(priors, 4000, rng)[0], ax=ax)
    errors = [
        np.abs(est.estimate(world.draw(priors, 400, rng)[0]).priors - priors).sum()
        for _ in range(60)
    ]
    assert display.scale / np.sqrt(400) == pytest.approx(np.median(errors), rel=0.35)


def test_the_scale_and_the_samples_needed_follow_the_law():
    display = law(2.0, 1000, [10, 50, 100, 500])
    assert display.scale == pytest.approx(2.0)
    assert display.samples_needed == pytest.approx(1600, abs=1)


def test_very_small_subsets_do_not_count_for_the_law():
    sizes, n_target = np.array([2, 5, 200, 400]), 1000
    distances = 3.0 * np.sqrt(1 / sizes - 1 / n_target)[:, None]
    distances[:2] = 0.5
    assert SampleSizeDisplay(sizes, distances, n_target).scale == pytest.approx(3.0)


def test_warnings_come_once_not_from_every_subset(simulate, rng, ax):
    world = simulate(3)
    y_proba, y = world.draw(np.full(3, 1 / 3), 300, rng)
    est = ps.SCML().fit(y_proba[y < 2], y[y < 2], classes=[0, 1, 2])
    with pytest.warns(ps.PriorShiftWarning, match="no sample of class 2") as caught:
        SampleSizeDisplay.from_predictions(est, y_proba, ax=ax)
    assert len(caught) == 1


def test_one_column_and_named_columns_are_understood(ax):
    rng = np.random.default_rng(0)
    positive = rng.uniform(size=200)
    est = ps.EM().fit(source_priors=[0.4, 0.6], classes=["no", "yes"])
    plain = SampleSizeDisplay.from_predictions(est, positive, ax=ax)
    frame = pd.DataFrame({"yes": positive, "no": 1 - positive})
    named = SampleSizeDisplay.from_predictions(est, frame, ax=ax)
    np.testing.assert_allclose(named.distances, plain.distances, atol=1e-6)


# What is drawn


def test_median_band_and_law_are_drawn_on_logarithmic_axes(ax):
    sizes = [10, 100, 400]
    distances = np.array([[0.5, 0.6, 0.9], [0.2, 0.25, 0.3], [0.05, 0.1, 0.2]])
    display = SampleSizeDisplay(sizes, distances, 1000, method="em").plot(ax)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    np.testing.assert_array_equal(
        line(ax, "median distance").get_xydata(), np.column_stack([sizes, [0.6, 0.25, 0.1]])
    )
    (band,) = ax.collections
    assert band.get_label() == "80% of the subsets"
    corners = band.get_paths()[0].vertices
    np.testing.assert_allclose(
        [corners[corners[:, 0] == 10, 1].min(), corners[corners[:, 0] == 10, 1].max()],
        np.quantile(distances[0], [0.1, 0.9]),
    )
    expected = line(ax, "error to expect").get_xydata()
    np.testing.assert_allclose(expected[:, 1], display.scale / np.sqrt(expected[:, 0]))
    assert expected[0, 0] == 40  # from where the law was fitted


def test_the_title_says_how_many_samples_are_needed(ax):
    law(2.0, 1000, [100, 500]).plot(ax)
    assert ax.get_title(loc="left") == (
        "How the estimate by em settles\n"
        "L1 error to expect at 1,000 samples: 0.063; 0.05 needs about 1,600"
    )
    ((n, error),) = line(ax, "samples needed").get_xydata()
    assert (n, error) == (pytest.approx(1600, abs=1), 0.05)


def test_a_need_far_beyond_the_data_is_said_but_not_drawn(ax):
    law(20.0, 1000, [100, 500]).plot(ax)
    assert "0.05 needs about 160,000" in ax.get_title(loc="left")
    assert "samples needed" not in [found.get_label() for found in ax.get_lines()]


def test_ticks_are_plain_numbers(ax):
    law(2.0, 100_000, [100, 5000]).plot(ax)
    ax.figure.draw_without_rendering()
    shown = [label.get_text() for label in ax.get_xticklabels()]
    assert "1,000" in shown
    assert not any("10^" in text or "e+" in text for text in shown)


def test_an_estimate_that_never_moves_is_drawn_too(ax):
    y_proba = np.random.default_rng(0).dirichlet(np.ones(3), 100)
    est = ps.NoAdaptation().fit(y_proba, np.arange(100) % 3)
    display = SampleSizeDisplay.from_predictions(est, y_proba, ax=ax)
    ax.figure.draw_without_rendering()
    assert not display.distances.any()
    assert ax.get_yscale() == "linear"
    assert display.samples_needed == 0


# Numbers and errors


def test_the_frame_has_a_row_a_size():
    display = law(2.0, 1000, [100, 500])
    distances = display.distances[:, 0]
    expected = {
        "n_samples": display.sizes,
        "median_distance": distances,
        "lower": distances,
        "upper": distances,
        "expected_error": 2.0 / np.sqrt([100, 500]),
    }
    pd.testing.assert_frame_equal(display.frame(), pd.DataFrame(expected))


def test_bad_arguments_are_refused(ax):
    est = ps.EM().fit(source_priors=[0.5, 0.5])
    with pytest.raises(ValueError, match=r"rows of y_proba must be .* at least 4; got 3"):
        SampleSizeDisplay.from_predictions(est, np.full((3, 2), 0.5), ax=ax)


@pytest.mark.parametrize("n_target", [100, 10_000, 10**6, 10**9])
def test_numbers_along_the_axes_do_not_overlap(n_target):
    sizes = np.unique(np.geomspace(6, n_target // 4, 8).astype(int))
    display = SampleSizeDisplay(sizes, 2 / np.sqrt(sizes[:, None]), n_target).plot()
    display.figure_.draw_without_rendering()
    low, high = display.ax_.get_xlim()
    labels = [
        label.get_window_extent()
        for at, label in zip(display.ax_.get_xticks(), display.ax_.get_xticklabels(), strict=True)
        if low <= at <= high
    ]
    assert len(labels) >= 2
    assert not any(one.overlaps(other) for one, other in pairwise(labels))


def test_an_estimate_that_never_moves_says_so():
    display = SampleSizeDisplay([10, 20], np.zeros((2, 3)), 100).plot()
    assert display.ax_.get_title(loc="left").endswith("every subset gives the same priors")
    assert "samples needed" not in display.ax_.get_legend_handles_labels()[1]
    assert display.ax_.get_ylim()[0] == 0
