"""PriorsDisplay: dumbbells of the classes that moved."""

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from priorshift.plotting import PriorsDisplay
from priorshift.plotting.style import BLUE, VERMILLION, times
from priorshift.text import short_percent, shorten

CLASSES = ["ant", "bee", "cow", "dog"]
SOURCE = np.array([0.4, 0.3, 0.2, 0.1])
TARGET = np.array([0.1, 0.35, 0.2, 0.35])


def line(ax, label):
    return next(found for found in ax.get_lines() if found.get_label() == label)


def row_names(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def right_of(ax):
    """Return what is written to the right of the rows, from top to bottom."""
    return [text.get_text() for text in ax.texts]


def test_rows_go_from_gain_to_loss(make_estimate, ax):
    PriorsDisplay.from_estimate(make_estimate(SOURCE, TARGET, CLASSES), ax=ax)
    assert row_names(ax) == ["dog", "bee", "cow", "ant"]
    bottom, top = ax.get_ylim()
    assert bottom > top  # the first row is the highest


def test_every_prior_is_a_marker_at_its_place(make_estimate, ax):
    PriorsDisplay.from_estimate(make_estimate(SOURCE, TARGET, CLASSES), ax=ax)
    np.testing.assert_array_equal(
        line(ax, "source").get_xydata(), [[0.1, 0], [0.3, 1], [0.2, 2], [0.4, 3]]
    )
    gained, lost = line(ax, "target (gained)"), line(ax, "target (lost)")
    np.testing.assert_array_equal(gained.get_xydata(), [[0.35, 0], [0.35, 1]])
    np.testing.assert_array_equal(line(ax, "unmoved").get_xydata(), [[0.2, 2]])
    np.testing.assert_array_equal(lost.get_xydata(), [[0.1, 3]])
    assert (gained.get_marker(), lost.get_marker()) == (">", "<")  # never colour alone


def test_classes_that_did_not_move_neither_gained_nor_lost(ax):
    PriorsDisplay([0.3, 0.7], [0.3, 0.7], ["a", "b"]).plot(ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["source", "unmoved"]


def test_bars_join_source_and_target_in_the_colour_of_the_move(make_estimate, ax):
    PriorsDisplay.from_estimate(make_estimate(SOURCE, TARGET, CLASSES), ax=ax)
    (bars,) = ax.collections
    np.testing.assert_array_equal(
        [segment[:, 0] for segment in bars.get_segments()],
        [[0.1, 0.35], [0.3, 0.35], [0.2, 0.2], [0.4, 0.1]],
    )
    np.testing.assert_array_equal(
        bars.get_colors()[[0, 1, 3]], [to_rgba(c) for c in (BLUE, BLUE, VERMILLION)]
    )


def test_ratios_stand_at_the_right(make_estimate, ax):
    PriorsDisplay.from_estimate(make_estimate(SOURCE, TARGET, CLASSES), ax=ax)
    assert right_of(ax) == ["×3.5", "×1.2", "×1.0", "×0.25"]


def test_a_class_that_the_source_never_had_is_new(make_estimate, ax):
    PriorsDisplay.from_estimate(make_estimate([1.0, 0.0], [0.25, 0.75]), ax=ax)
    assert right_of(ax) == ["new", "×0.25"]


def test_the_title_sums_up(make_estimate, ax):
    PriorsDisplay.from_estimate(make_estimate(SOURCE, TARGET, CLASSES), ax=ax)
    assert ax.get_title(loc="left") == (
        "Class priors by scm-l\n2 of 4 classes gained, 1 lost; total variation 30%"
    )
    assert ax.get_xlabel() == "class prior"


def test_the_axis_is_in_per_cent_from_0(make_estimate, ax):
    PriorsDisplay.from_estimate(make_estimate(SOURCE, TARGET, CLASSES), ax=ax)
    ax.figure.draw_without_rendering()
    assert ax.get_xlim()[0] == 0
    assert ax.get_xlim()[1] >= 0.4
    assert ax.get_xticklabels()[0].get_text() == "0%"


def test_ticks_have_no_more_digits_than_they_need(ax):
    PriorsDisplay(TARGET, SOURCE, CLASSES).plot(ax)
    ax.set_xticks([0, 0.001, 0.025, 0.3])
    ax.figure.draw_without_rendering()
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0%", "0.1%", "2.5%", "30%"]


# Intervals and classes that validation lacks


def test_no_interval_no_bar(make_estimate, ax):
    PriorsDisplay.from_estimate(make_estimate(SOURCE, TARGET, CLASSES), ax=ax)
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["source", "target (gained)", "target (lost)", "unmoved"]


def test_intervals_are_bars_in_the_order_of_rows(ax):
    interval = np.column_stack([TARGET - 0.05, TARGET + 0.02])
    PriorsDisplay(TARGET, SOURCE, CLASSES, interval=interval).plot(ax)
    bars = next(found for found in ax.collections if found.get_label() == "interval")
    order = [3, 1, 2, 0]
    np.testing.assert_array_equal([s[:, 0] for s in bars.get_segments()], interval[order])
    np.testing.assert_array_equal([s[0, 1] for s in bars.get_segments()], [0, 1, 2, 3])


def test_the_interval_of_an_estimate_is_drawn(make_estimate, ax):
    class WithInterval:
        def __init__(self, estimate):
            self.estimate, self.interval = estimate, np.array([[0.1, 0.5], [0.5, 0.9]])

        def __getattr__(self, name):
            return getattr(self.estimate, name)

    display = PriorsDisplay.from_estimate(
        WithInterval(make_estimate([0.5, 0.5], [0.3, 0.7])), ax=ax
    )
    np.testing.assert_array_equal(display.interval, [[0.1, 0.5], [0.5, 0.9]])


def test_classes_not_in_validation_have_a_star(make_estimate, ax):
    estimate = make_estimate(SOURCE, TARGET, CLASSES, unseen_classes=("cow",))
    PriorsDisplay.from_estimate(estimate, ax=ax)
    assert row_names(ax) == ["dog", "bee", "cow *", "ant"]
    assert "* class not in validation" in ax.get_xlabel()


# Many classes


@pytest.fixture
def many(rng):
    """Of 1000 classes, five gain much, five lose a little."""
    moved = rng.choice(1000, 10, replace=False)
    target = np.full(1000, 0.001)
    target[moved] *= [6, 5, 4, 3, 2, 0.9, 0.8, 0.7, 0.6, 0.5]
    return PriorsDisplay(target / target.sum(), np.full(1000, 0.001), np.arange(1000)), moved


def test_only_the_top_movers_are_drawn(many, ax, monkeypatch):
    display, moved = many
    tall = display.figsize()[1]
    monkeypatch.setattr(PriorsDisplay, "MAX_CLASSES", 5)
    display.plot(ax)
    assert row_names(ax) == [str(k) for k in moved[:5]]
    assert len(ax.texts) == 5
    assert len(ax.get_lines()) <= 3
    assert display.figsize()[1] < tall


def test_losers_among_the_top_movers_stand_below(monkeypatch):
    change = np.array([0.01, -0.09, 0.03, 0.05])
    display = PriorsDisplay(0.25 + change, np.full(4, 0.25), CLASSES)
    for most, rows in {20: [3, 2, 0, 1], 3: [3, 2, 1], 1: [1]}.items():
        monkeypatch.setattr(PriorsDisplay, "MAX_CLASSES", most)
        assert display.movers().tolist() == rows


def test_equal_moves_keep_the_order_of_classes():
    display = PriorsDisplay(np.full(4, 0.25), np.full(4, 0.25), CLASSES)
    assert display.movers().tolist() == [0, 1, 2, 3]
    assert display.summary() == "0 of 4 classes gained, 0 lost; total variation 0%"


def test_the_summary_counts_what_is_not_shown(ax, monkeypatch):
    monkeypatch.setattr(PriorsDisplay, "MAX_CLASSES", 2)
    display = PriorsDisplay(TARGET, SOURCE, CLASSES).plot(ax)
    assert row_names(ax) == ["dog", "ant"]
    assert display.summary().splitlines() == [
        "2 of 4 classes gained, 1 lost; total variation 30%",
        "not shown: 2 that moved less, 50% before and 55% after",
    ]
    assert ax.get_title(loc="left").endswith("50% before and 55% after")


# Numbers and errors


# Words


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("cat", "cat"),
        (7, "7"),
        ("x" * 22, "x" * 22),
        ("tabs\tand\nbreaks", "tabs and breaks"),
        ("a very long name that ends in 12", "a very long n…ds in 12"),
    ],
)
def test_names_are_shortened_in_the_middle(label, shown):
    assert shorten(label) == shown
    assert len(shown) <= 22


def test_ratios_and_shares_in_words():
    assert [times(r) for r in (0, 0.5, 0.96, 9.94, 1234.5)] == [
        "<×0.01",
        "×0.5",
        "×1.0",
        "×9.9",
        "×1,234",
    ]
    assert [short_percent(s) for s in (1e-17, 1e-7, 1.0, 0.0994, 0.001, 0.0001)] == [
        "0%",
        "<0.001%",
        "100%",
        "9.9%",
        "0.1%",
        "0.01%",
    ]
