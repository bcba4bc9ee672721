"""GroupsDisplay: one row a group, one colour and marker a class."""

import numpy as np

import priorshift as ps
from priorshift.groups import estimate_groups
from priorshift.plotting import GroupsDisplay

CLASSES = ["ant", "bee", "cow"]
GROUPS = ["north", "south", "west"]
PRIORS = np.array([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2], [0.4, 0.25, 0.35]])
POOLED = np.array([0.4, 0.25, 0.35])


def display(**more):
    return GroupsDisplay(PRIORS, GROUPS, CLASSES, POOLED, **more)


def drawn(ax):
    return {line.get_label(): line for line in ax.get_lines() if line.get_label()[0] != "_"}


def test_every_prior_is_a_marker_in_the_row_of_its_group(ax):
    display().plot(ax)
    lines = drawn(ax)
    assert list(lines) == CLASSES
    for k, name in enumerate(CLASSES):
        x, y = lines[name].get_data()
        np.testing.assert_array_equal(x, PRIORS[:, k])
        np.testing.assert_array_equal(np.round(y), [0, 1, 2])
    styles = {(line.get_color(), line.get_marker()) for line in lines.values()}
    assert len({colour for colour, _ in styles}) == len({marker for _, marker in styles}) == 3
    assert [label.get_text() for label in ax.get_yticklabels()] == GROUPS
    bottom, top = ax.get_ylim()
    assert bottom > top


def test_dotted_lines_are_the_pooled_priors(ax):
    display().plot(ax)
    dotted = [line.get_xdata()[0] for line in ax.get_lines() if line.get_linestyle() == ":"]
    assert dotted == POOLED.tolist()


def test_rows_and_intervals_are_shown_where_there_are_any(ax):
    interval = np.stack([0.9 * PRIORS, 1.1 * PRIORS], axis=-1)
    display(n=[10, 2000, 5], interval=interval).plot(ax)
    assert [text.get_text() for text in ax.texts] == ["n = 10", "n = 2,000", "n = 5"]
    bars = ax.collections[:3]  # the last parts the rows
    segments = [segment[:, 0] for of_class in bars for segment in of_class.get_segments()]
    np.testing.assert_allclose(segments, interval.transpose(1, 0, 2).reshape(9, 2))


def test_the_groups_that_moved_and_the_classes_that_vary_are_drawn(ax, rng, monkeypatch):
    monkeypatch.setattr(GroupsDisplay, "MAX_GROUPS", 5)
    monkeypatch.setattr(GroupsDisplay, "MAX_CLASSES", 2)
    priors = rng.dirichlet(np.ones(9), 50)
    pooled = priors.mean(axis=0)
    shown = GroupsDisplay(priors, np.arange(50), np.arange(9), pooled).plot(ax)
    distance = np.abs(priors - pooled).sum(axis=1)
    assert set(shown.movers()) == set(np.argsort(-distance)[:5])
    assert set(shown.varying()) == set(np.argsort(-np.abs(priors - pooled).mean(axis=0))[:2])
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == [str(g) for g in np.sort(np.argsort(-distance)[:5])]
    assert ax.get_title("left").splitlines()[1:] == [
        f"50 groups, 9 classes; median total variation from pooled {np.median(distance) / 2:.0%}",
        "shown: the 5 groups that moved most, the 2 classes that vary most",
    ]


def test_from_estimates(ax):
    cm = ps.CML().fit(np.eye(2)[np.repeat([0, 1, 0, 1], [40, 10, 10, 40])], np.repeat([0, 1], 50))
    target = np.eye(2)[np.repeat([0, 1, 0, 1], [70, 30, 30, 70])]
    found = estimate_groups(
        cm, target, np.repeat(["n", "s"], 100), pooling=None, confidence_level=0.9
    )
    shown = GroupsDisplay.from_estimates(found, ax=ax)
    np.testing.assert_array_equal(shown.priors, found.priors)
    np.testing.assert_array_equal(shown.interval, found.interval)
    assert ax.get_title("left").startswith("Class priors of groups by cm-l\n2 groups, 2 classes; ")
    assert [text.get_text() for text in ax.texts] == ["n = 100", "n = 100"]


def test_rows_are_parted_and_have_room_for_every_class(ax, monkeypatch):
    display().plot(ax)
    (between,) = ax.collections
    assert [segment[0, 1] for segment in between.get_segments()] == [0.5, 1.5]
    tall = display().figsize()[1]
    monkeypatch.setattr(GroupsDisplay, "MAX_CLASSES", 1)
    assert display().figsize()[1] < tall


def test_one_group_is_not_called_groups():
    assert GroupsDisplay([[0.5, 0.5]], ["a"], ["b", "c"], [0.5, 0.5]).summary() == (
        "1 group, 2 classes; median total variation from pooled 0%"
    )
