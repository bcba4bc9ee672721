"""Priors over time: what is drawn is what was seen."""

import io

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgba

from priorshift.monitor import PriorMonitor
from priorshift.plotting import MonitorDisplay
from priorshift.plotting.style import MAX_POINTS, VERMILLION, positions

CLASSES = ["ant", "bee", "cow"]


@pytest.fixture
def monitor(simulate, rng):
    world = simulate(3)
    y_proba, y = world.draw(np.array([0.5, 0.3, 0.2]), 600, rng)
    monitor = PriorMonitor(random_state=0).fit(y_proba, np.array(CLASSES)[y])
    for t in range(12):
        priors = np.array([0.5, 0.3, 0.2] if t < 6 else [0.1, 0.2, 0.7])
        monitor.update(world.draw(priors, 200, rng)[0], time=f"2026-03-{t + 1:02}")
    return monitor


def monitored(priors, source, classes, *, time=None, raised=None, **more):
    """Make a display of steps that are numbered, without an alarm, unless said otherwise."""
    n, numbered = len(priors), time is None
    raised = np.zeros(n, bool) if raised is None else np.asarray(raised, bool)
    time = tuple(range(n)) if numbered else tuple(time)
    source = None if source is None else np.asarray(source)
    alarm = more.pop("alarm", raised)
    about = (np.asarray(priors), source, np.asarray(classes), time, raised, alarm)
    return MonitorDisplay(*about, numbered=numbered, **more)


def lines(display):
    return [line for line in display.ax_.get_lines() if len(line.get_xdata()) > 1]


def test_lines_are_the_priors_and_alarms_stand_where_they_were_raised(monitor):
    display = MonitorDisplay.from_monitor(monitor)
    history = monitor.history
    drawn = np.array([line.get_ydata() for line in display.ax_.get_lines()[:3]])
    np.testing.assert_array_equal(drawn.T, history.priors)
    (marks,) = [line for line in display.ax_.get_lines() if line.get_label() == "alarm raised"]
    dates = np.array(history.time, dtype="datetime64[ms]")
    assert marks.get_xdata().tolist() == dates[history.raised].tolist()
    assert to_hex(marks.get_color()).lower() == VERMILLION.lower()
    texts = {text.get_text() for text in display.ax_.texts}
    assert set(CLASSES) <= texts
    assert "12 steps, 1 alarm;" in display.ax_.get_title(loc="left")


def test_a_history_is_as_good_as_its_monitor(monitor, ax):
    display = MonitorDisplay.from_monitor(monitor.history, ax=ax)
    assert display.ax_ is ax
    np.testing.assert_array_equal(display.priors, monitor.history.priors)
    assert display.method == "scm-l"


def test_a_stream_without_alarms_shows_none():
    display = monitored([[0.5, 0.5], [0.4, 0.6]], [0.5, 0.5], ["a", "b"]).plot()
    labels = display.ax_.get_legend_handles_labels()[1]
    assert labels == ["source"]
    assert "no alarm" in display.summary()


def test_one_step_is_drawn_too():
    monitored([[0.5, 0.5]], [0.5, 0.5], ["a", "b"]).plot().figure_.savefig(io.BytesIO())


def test_only_the_classes_that_moved_most_are_drawn(monkeypatch):
    monkeypatch.setattr(MonitorDisplay, "MAX_CLASSES", 2)
    priors = np.full((5, 30), 1 / 30)
    priors[3, 17] += 0.01
    priors[3, 4] -= 0.01
    display = monitored(priors, np.full(30, 1 / 30), np.arange(30)).plot()
    assert display.movers().tolist() == [4, 17]
    assert "not shown: 28 classes" in display.ax_.get_title(loc="left")


def test_long_streams_are_drawn_with_few_points(rng):
    priors = rng.dirichlet(np.ones(8), 5000)
    display = monitored(priors, np.full(8, 1 / 8), np.arange(8)).plot()
    assert max(len(line.get_xdata()) for line in display.ax_.get_lines()) <= MAX_POINTS
    for line in display.ax_.get_lines()[:8]:
        assert line.get_xdata()[-1] == 4999


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ((3, 5.5), [3, 5.5]),
        (("b", "a"), [0, 1]),
        (("2026-01-01T00:00:00+02:00", "2026-01-02"), ["2026-01-01", "2026-01-02"]),
        ((1, "a"), [0, 1]),
    ],
)
def test_times_are_dates_or_numbers_else_steps(time, expected):
    found = positions(time)
    assert found.tolist() == np.array(expected, dtype=found.dtype).tolist()


def test_names_at_the_ends_of_lines_keep_their_distance():
    priors = np.tile([0.3, 0.29, 0.28, 0.13], (3, 1))
    display = monitored(priors, np.full(4, 0.25), list("abcd")).plot()
    heights = sorted(text.xyann[1] for text in display.ax_.texts)
    assert min(np.diff(heights)) >= 0.05
    assert heights[-1] <= 1


def test_a_source_prior_above_all_that_came_is_inside_the_axes():
    display = monitored(np.tile([0.1, 0.2, 0.7], (5, 1)), [0.05, 0.05, 0.9], CLASSES).plot()
    assert display.ax_.get_ylim()[1] > 0.9


def heights_of_names(display):
    """Return where names stand, and where the ends of their lines are, as shares of the axes."""
    highest = display.ax_.get_ylim()[1]
    return [(text.xyann[1], text.xy[1] / highest) for text in display.ax_.texts]


@pytest.mark.parametrize(
    ("priors", "source"),
    [
        ([0.1, 0.2, 0.7], [0.05, 0.05, 0.9]),  # the source sets the height of the axes
        ([0.004, 0.002, 0.994], [0.001, 0.003, 0.996]),
    ],
)
def test_names_stand_beside_the_ends_of_their_lines(priors, source, monkeypatch):
    monkeypatch.setattr(MonitorDisplay, "MAX_CLASSES", 1)
    display = monitored(np.tile(priors, (5, 1)), source, CLASSES).plot()
    ((height, end),) = heights_of_names(display)
    assert height == pytest.approx(end)


def test_small_priors_fill_the_axes(rng):
    priors = rng.dirichlet(np.full(1000, 50.0), 9)
    display = monitored(priors, np.full(1000, 0.001), np.arange(1000)).plot()
    assert display.ax_.get_ylim()[1] < 1.1 * priors.max()


def test_names_are_in_the_ink_of_the_style_with_a_line_to_their_own():
    display = monitored(np.full((3, 2), 0.5), [0.5, 0.5], ["a", "b"]).plot()
    for text, line in zip(display.ax_.texts, display.ax_.get_lines(), strict=False):
        assert text.get_color() == "black"
        assert to_hex(text.arrow_patch.get_edgecolor()) == to_hex(line.get_color())


@pytest.mark.parametrize(
    ("time", "label"),
    [
        (None, "step"),
        ((1.5, 2, 3), "time"),
        (("2026-01-01",) * 3, "time"),
        (("b", "a", "c"), "step"),
    ],
)
def test_the_axis_says_whether_it_is_time(time, label, ax):
    display = monitored(np.full((3, 2), 0.5), [0.5, 0.5], ["a", "b"], time=time).plot(ax)
    assert display.ax_.get_xlabel() == label


def test_steps_without_times_keep_their_numbers(simulate, rng):
    world = simulate(2)
    monitor = PriorMonitor().fit(*world.draw(np.array([0.5, 0.5]), 200, rng))
    for _ in range(3):
        monitor.update(world.draw(np.array([0.5, 0.5]), 50, rng)[0])
    display = MonitorDisplay.from_monitor(monitor)
    assert display.time == tuple(monitor.history.index.tolist())
    assert display.ax_.get_xlabel() == "step"


@pytest.mark.parametrize("n_steps", [1, 2, 3])
def test_ticks_stand_at_whole_steps(n_steps):
    display = monitored(np.full((n_steps, 2), 0.5), [0.5, 0.5], ["a", "b"]).plot()
    low, high = display.ax_.get_xlim()
    ticks = [tick for tick in display.ax_.get_xticks() if low <= tick <= high]
    assert ticks == list(range(n_steps))


def test_alarms_do_not_reach_into_the_legend():
    display = monitored(np.full((3, 2), 0.5), [0.5, 0.5], ["a", "b"], raised=[0, 1, 0]).plot()
    display.figure_.draw_without_rendering()
    (marks,) = [line for line in display.ax_.get_lines() if line.get_label() == "alarm raised"]
    legend = display.ax_.get_legend().get_window_extent()
    assert not marks.get_window_extent().overlaps(legend)


def test_source_and_class_have_one_colour(ax):
    display = monitored([[0.1, 0.2, 0.7]] * 3, [0.05, 0.05, 0.9], CLASSES).plot(ax)
    (circles,) = [one for one in ax.collections if one.get_label() == "source"]
    lines = [to_rgba(line.get_color()) for line in ax.lines[:3]]
    np.testing.assert_allclose(circles.get_edgecolors(), lines)
    np.testing.assert_allclose(circles.get_offsets()[:, 1], display.source_priors)
