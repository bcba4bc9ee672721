"""Uncertain target priors: exact bounds where one number decides, quantiles of draws elsewhere."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, norm

import priorshift as ps
from priorshift.adapt import _uncertain, adapt_proba_interval

quick = settings(max_examples=60)
inside = st.floats(0.01, 0.99)
NONE = (np.nan, np.nan)


def by_odds(f, source, prior):
    """Adapt the probability of a positive by its odds."""
    odds = f / (1 - f) * prior / (1 - prior) * (1 - source) / source
    return odds / (1 + odds)


def dirichlet_interval(priors, concentration, level=0.95):
    """Return the marginal quantiles of a Dirichlet distribution."""
    a, tail = concentration * priors, (1 - level) / 2
    bounds = [beta.ppf(q, a, concentration - a) for q in (tail, 1 - tail)]
    return np.column_stack([np.minimum(bounds[0], priors), np.maximum(bounds[1], priors)])


@st.composite
def problems(draw):
    """Draw predictions, source and target priors, and bounds around the latter."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, K = draw(st.integers(1, 6)), draw(st.integers(3, 6))
    source, target = 0.02 / K + 0.98 * rng.dirichlet(np.ones(K), 2)
    interval = dirichlet_interval(target, draw(st.sampled_from([20.0, 200.0])))
    return rng.dirichlet(np.ones(K), n), source, target, interval


# Exact bounds


@quick
@given(f=inside, source=inside, ends=st.tuples(inside, inside, inside))
def test_two_classes_follow_the_closed_form(f, source, ends):
    low, prior, high = sorted(ends)
    found = adapt_proba_interval(np.array([f]), source, prior, interval=(low, high))
    expected = [by_odds(f, source, p) for p in (prior, low, high)]
    np.testing.assert_allclose(np.ravel(found), expected, rtol=1e-9)
    both = adapt_proba_interval(
        [[1 - f, f]], [1 - source, source], [1 - prior, prior], interval={1: (low, high)}
    )
    np.testing.assert_allclose(both.lower[0], [1 - expected[2], expected[1]], atol=1e-12)
    np.testing.assert_allclose(both.upper[0], [1 - expected[1], expected[2]], atol=1e-12)


def test_bounds_of_two_classes_may_be_given_for_either_or_both():
    y_proba, source, target = [[0.3, 0.7], [0.9, 0.1]], [0.5, 0.5], [0.8, 0.2]
    ways = [{"b": (0.18, 0.23)}, {"a": (0.77, 0.82)}, [[0.77, 0.82], [0.18, 0.23]]]
    results = [
        adapt_proba_interval(y_proba, source, target, interval=way, classes=["a", "b"])
        for way in ways
    ]
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-12)


@quick
@given(problem=problems(), data=st.data())
def test_one_uncertain_class_of_many_is_exact(problem, data):
    y_proba, source, target, interval = problem
    k = data.draw(st.integers(0, target.size - 1))
    found = adapt_proba_interval(y_proba, source, target, interval={k: interval[k]})
    others = np.delete(target, k) / np.delete(target, k).sum()
    swept = np.array(
        [
            ps.adapt_proba(y_proba, source, np.insert((1 - p) * others, k, p))
            for p in np.linspace(*interval[k], 30)
        ]
    )
    np.testing.assert_allclose(found.lower, swept.min(axis=0), atol=1e-12)
    np.testing.assert_allclose(found.upper, swept.max(axis=0), atol=1e-12)
    np.testing.assert_allclose(found.proba, ps.adapt_proba(y_proba, source, target), atol=1e-12)


def test_a_class_that_was_certain_leaves_the_rest_to_the_others_alike():
    found = adapt_proba_interval(
        [[0.2, 0.3, 0.5]], [1 / 3] * 3, [0.0, 0.0, 1.0], interval={2: (0.8, 1.0)}
    )
    np.testing.assert_allclose(found.upper[0, :2], np.array([0.02, 0.03]) / 0.45)
    np.testing.assert_allclose(found.lower[0], [0.0, 0.0, 0.4 / 0.45])


def test_draws_of_two_classes_are_ranked_by_their_prior(rng):
    drawn = rng.beta(20, 80, 401)
    f, source = np.array([0.2, 0.5, 0.9]), 0.4
    found = adapt_proba_interval(f, source, draws=drawn, confidence_level=0.9)
    ends = np.sort(drawn)[[20, 380]]  # 5 % and 95 % of 400 steps
    np.testing.assert_allclose(found.lower, by_odds(f, source, ends[0]))
    np.testing.assert_allclose(found.upper, by_odds(f, source, ends[1]))
    np.testing.assert_allclose(found.proba, by_odds(f, source, drawn.mean()))


# Draws


def test_draws_of_many_classes_give_quantiles_of_adapted_probabilities(rng):
    y_proba, source = rng.dirichlet(np.ones(4), 7), np.array([0.4, 0.3, 0.2, 0.1])
    drawn = rng.dirichlet([5.0, 20.0, 30.0, 10.0], 301)
    found = adapt_proba_interval(y_proba, source, draws=drawn, confidence_level=0.8)
    adapted = np.array([ps.adapt_proba(y_proba, source, p) for p in drawn])
    np.testing.assert_allclose(found.lower, np.quantile(adapted, 0.1, axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.upper, np.quantile(adapted, 0.9, axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.proba, ps.adapt_proba(y_proba, source, drawn.mean(axis=0)))


def test_drawing_agrees_with_the_closed_form():
    # a third class without any part in it turns the two into a case for draws
    source, ends = 0.5, (0.15, 0.26)
    f = np.array([0.1, 0.5, 0.9])
    found = adapt_proba_interval(
        np.column_stack([1 - f, f, 0 * f]),
        [0.45, 0.45, 0.1],
        [0.8, 0.2, 0.0],
        interval=[[0.74, 0.85], ends, [0.0, 0.0]],
    )
    for bound, end in zip((found.lower, found.upper), ends, strict=True):
        np.testing.assert_allclose(bound[:, 1], by_odds(f, source, end), atol=0.008)
    np.testing.assert_array_equal(found.upper[:, 2], 0.0)


@pytest.mark.parametrize(
    ("priors", "concentration"),
    [
        ([0.7, 0.2, 0.1], 200),
        ([0.5, 0.3, 0.2], 200),
        ([0.9, 0.05, 0.05], 100),
        ([0.1] * 10, 300),
        ([0.5, 0.4, 0.06, 0.03, 0.01], 400),
    ],
)
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_priors_drawn_have_the_interval_given(priors, concentration, level):
    # where the prediction is the source prior itself, the adapted probability is the target prior
    priors = np.array(priors)
    interval = dirichlet_interval(priors, concentration, level)
    source = np.full(priors.size, 1 / priors.size)
    found = adapt_proba_interval(
        [source], source, priors, interval=interval, confidence_level=level
    )
    width = interval[:, 1] - interval[:, 0]
    assert (np.abs(found.lower[0] - interval[:, 0]) < 0.1 * width).all()
    assert (np.abs(found.upper[0] - interval[:, 1]) < 0.1 * width).all()


def test_bounds_agree_with_draws_from_the_distribution_itself(rng):
    priors, source = np.array([0.5, 0.3, 0.15, 0.05]), np.full(4, 0.25)
    y_proba = rng.dirichlet(np.ones(4), 50)
    exact = adapt_proba_interval(
        y_proba, source, priors, draws=rng.dirichlet(300 * priors, 8000), confidence_level=0.9
    )
    found = adapt_proba_interval(
        y_proba,
        source,
        priors,
        interval=dirichlet_interval(priors, 300, 0.9),
        confidence_level=0.9,
    )
    assert np.abs(found.lower - exact.lower).max() < 0.02
    assert np.abs(found.upper - exact.upper).max() < 0.02
    assert (exact.upper - exact.lower).max() > 0.1


def test_classes_without_bounds_share_the_rest_in_proportion():
    source = np.full(4, 0.25)
    target = [0.3, 0.3, 0.3, 0.1]
    interval = {0: (0.25, 0.35), 1: (0.28, 0.32)}
    found = adapt_proba_interval([source], source, target, interval=interval)
    np.testing.assert_allclose(found.lower[0, :2], [0.25, 0.28], atol=0.002)
    np.testing.assert_allclose(found.upper[0, :2], [0.35, 0.32], atol=0.002)
    # the rest has the standard deviations of both; it falls to the others as 3 to 1
    half = np.hypot(0.05, 0.02) * np.array([0.75, 0.25])
    np.testing.assert_allclose(found.upper[0, 2:], np.array([0.3, 0.1]) + half, atol=0.002)
    by_rows = [[0.25, 0.35], [0.28, 0.32], [np.nan, np.nan], [np.nan, 0.2]]
    same = adapt_proba_interval([source], source, target, interval=by_rows)
    np.testing.assert_array_equal(same, found)


def test_a_confidence_level_of_about_0_divides_by_no_0():
    p = np.full(3, 1 / 3)
    found = adapt_proba_interval([p], p, p, interval=np.column_stack([p, p]), confidence_level=1e-9)
    np.testing.assert_allclose(found.proba, [p])
    np.testing.assert_allclose(found.lower, found.upper)


def test_priors_of_zero_may_rise():
    found = adapt_proba_interval(
        [[1 / 3] * 3],
        [1 / 3] * 3,
        [0.0, 0.4, 0.6],
        interval=[[0.0, 0.04], [0.35, 0.45], [0.55, 0.65]],
    )
    assert found.lower[0, 0] == 0
    assert abs(found.upper[0, 0] - 0.04) < 0.005


def test_a_prior_of_1_may_fall():
    source = [1 / 3] * 3
    found = adapt_proba_interval(
        [source], source, [1.0, 0.0, 0.0], interval=[[0.9, 1.0], [0.0, 0.06], [0.0, 0.06]]
    )
    np.testing.assert_allclose(found.lower[0], [0.9, 0.0, 0.0], atol=0.02)
    np.testing.assert_allclose(found.upper[0], [1.0, 0.06, 0.06], atol=0.01)
    hardly = adapt_proba_interval(
        [source], source, [1.0, 0.0, 0.0], interval=[[1.0, 1.0], [0.0, 1e-200], [0.0, 0.0]]
    )
    np.testing.assert_allclose(hardly.lower, [[1.0, 0.0, 0.0]])


# Properties


@quick
@given(problem=problems())
def test_bounds_hold_the_point_and_widen_with_the_interval(problem):
    y_proba, source, target, interval = problem
    found = adapt_proba_interval(y_proba, source, target, interval=interval)
    assert (found.lower <= found.proba).all()
    assert (found.proba <= found.upper).all()
    assert (found.lower >= 0).all()
    assert (found.upper <= 1 + 1e-12).all()
    narrow = target[:, None] + 0.3 * (interval - target[:, None])
    less = adapt_proba_interval(y_proba, source, target, interval=narrow)
    assert (less.upper - less.lower).sum() < (found.upper - found.lower).sum()


@pytest.mark.parametrize("K", [2, 3])
def test_certain_priors_have_no_bounds_to_speak_of(K, rng):
    y_proba, source = rng.dirichlet(np.ones(K), 5), np.full(K, 1 / K)
    target = np.arange(1, K + 1) / np.arange(1, K + 1).sum()
    found = adapt_proba_interval(
        y_proba, source, target, interval=np.column_stack([target, target])
    )
    np.testing.assert_allclose(found.lower, found.proba, atol=1e-12)
    np.testing.assert_allclose(found.upper, found.proba, atol=1e-12)


@pytest.mark.parametrize("K", [2, 3])
def test_strength_scales_down_to_nothing(K, rng):
    y_proba, source = rng.dirichlet(np.ones(K), 5), np.full(K, 1 / K)
    drawn = rng.dirichlet(np.full(K, 9.0), 500)
    widths = []
    for strength in (0.0, 0.5, 1.0):
        found = adapt_proba_interval(y_proba, source, draws=drawn, strength=strength)
        expected = ps.adapt_proba(y_proba, source, drawn.mean(axis=0), strength=strength)
        np.testing.assert_allclose(found.proba, expected)
        widths.append((found.upper - found.lower).mean())
    assert widths[0] < 1e-12
    assert widths[1] < widths[2]


def test_rows_and_seeds_make_no_difference_to_each_other(rng, monkeypatch):
    y_proba, source = rng.dirichlet(np.ones(3), 40), np.full(3, 1 / 3)
    target = np.array([0.2, 0.3, 0.5])
    given_ = {"interval": dirichlet_interval(target, 50)}
    whole = adapt_proba_interval(y_proba, source, target, **given_)
    monkeypatch.setattr("priorshift.adapt._uncertain.BLOCK_BYTES", 8 * 3 * 1000 * 7)
    np.testing.assert_array_equal(adapt_proba_interval(y_proba, source, target, **given_), whole)
    other = adapt_proba_interval(y_proba, source, target, random_state=1, **given_)
    assert (other.lower != whole.lower).any()
    np.testing.assert_allclose(other.lower, whole.lower, atol=0.05)


def test_memory_does_not_grow_with_rows(rng):
    y_proba, source = rng.dirichlet(np.ones(20), 500).astype(np.float32), np.full(20, 0.05)
    drawn = rng.dirichlet(np.full(20, 5.0), 1000)
    tracemalloc.start()
    found = adapt_proba_interval(y_proba, source, draws=drawn)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 45e6  # all rows at once would be 80 MB, and a copy
    assert found.lower.dtype == found.proba.dtype == np.float32


def test_draws_that_leave_a_row_nothing_leave_it_alone():
    # half of the draws make the only class of the row impossible
    drawn = np.repeat([[0.0, 0.5, 0.5], [0.5, 0.25, 0.25]], 50, axis=0)
    found = adapt_proba_interval([[1.0, 0.0, 0.0]], [1 / 3] * 3, draws=drawn)
    np.testing.assert_array_equal(np.vstack(found), [[1.0, 0.0, 0.0]] * 3)


def test_names_are_matched_everywhere(rng):
    names = ["ash", "beech", "oak"]
    y_proba = rng.dirichlet(np.ones(3), 6)
    source, target = np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.3, 0.2])
    drawn = rng.dirichlet(50 * target, 300)
    plain = adapt_proba_interval(y_proba, source, target, draws=drawn)
    turned = ["oak", "ash", "beech"]
    named = adapt_proba_interval(
        pd.DataFrame(y_proba, columns=names)[turned],
        dict(zip(names, source, strict=True)),
        dict(zip(names, target, strict=True)),
        draws=pd.DataFrame(drawn, columns=names),
    )
    np.testing.assert_allclose(np.asarray(named)[:, :, [1, 2, 0]], plain, rtol=1e-9)


def test_the_level_decides_the_draws_scale(monkeypatch):
    monkeypatch.setattr(_uncertain, "N_DRAWS", 20_000)
    # the same bounds at a lower level speak of more spread, so quantiles at that level agree
    target, source = np.array([0.2, 0.3, 0.5]), np.full(3, 1 / 3)
    interval = np.column_stack([target - 0.05, target + 0.05])
    for level in (0.5, 0.9):
        found = adapt_proba_interval(
            [source], source, target, interval=interval, confidence_level=level
        )
        np.testing.assert_allclose(found.upper[0] - target, 0.05, rtol=0.1)
    scale = 0.05 / norm.ppf(0.75)
    assert scale > 0.05  # a level of 0.5 is less than one standard deviation


# Bad input

GOOD = {"interval": [[0.1, 0.3], [0.2, 0.4], [0.4, 0.6]]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "pass either interval= or draws="),
        ({**GOOD, "draws": [[0.2, 0.3, 0.5]]}, "pass either interval= or draws="),
        ({**GOOD, "confidence_level": 1.0}, "confidence_level must be above 0 and below 1"),
        ({**GOOD, "confidence_level": 95}, r"confidence_level must be a number in \[0, 1\]"),
        ({**GOOD, "strength": 2}, "strength must be a number in"),
        ({"interval": [[0.1, 0.3]]}, r"interval must have shape \(3, 2\).* got shape \(1, 2\)"),
        ({"interval": (0.1, 0.3)}, r"interval must have shape \(3, 2\).* got shape \(2,\)"),
        ({"interval": [["a", "b"]] * 3}, "interval must have shape .* type <U1"),
        ({"interval": [[np.nan, 0.1]] * 3}, "gives no class any bounds"),
        ({"interval": {}}, "gives no class any bounds"),
        ({"interval": {3: (0.1, 0.2)}}, "interval names class 3, but the classes are 0, 1, 2"),
        ({"interval": {0: (0.3, 0.4)}}, "of class 0 does not hold its target prior: 0.3 to 0.4"),
        ({"interval": {2: (0.3, 0.4)}}, "of class 2 does not hold its target prior"),
        ({"interval": {1: (0.4, 0.2)}}, "of class 1 has a lower bound above the upper one"),
        ({"interval": {1: (-0.1, 0.4)}}, r"of class 1 is not in \[0, 1\]"),
        (
            {"interval": [[0.1, 0.3], [0.3, 0.3], [0.5, 0.5]]},
            "lets class 0 vary by more than all the others .* leave out the others",
        ),
        ({"draws": [[0.2, 0.3, 0.6]]}, "row 0 of draws sums to 1.1"),
        ({"draws": [0.2, 0.3]}, "draws has 2 columns but there are 3 classes"),
        ({**GOOD, "source_priors": [0.0, 0.5, 0.5]}, "source_priors is 0 for class 0"),
        ({**GOOD, "target_priors": None}, "target_priors must be 3 numbers"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    known = {"source_priors": [0.3, 0.3, 0.4], "target_priors": [0.2, 0.3, 0.5]}
    with pytest.raises(ValueError, match=message):
        adapt_proba_interval([[0.2, 0.3, 0.5]], **{**known, **arguments})


def test_bounds_of_two_classes_must_agree():
    with pytest.raises(ValueError, match=r"the bounds of one follow .* 'b' has \[0\.1, 0\.3\]"):
        adapt_proba_interval(
            [[0.5, 0.5]],
            [0.5, 0.5],
            [0.8, 0.2],
            interval=[[0.75, 0.85], [0.1, 0.3]],
            classes=["a", "b"],
        )


def test_a_prior_of_the_positive_class_is_a_probability():
    with pytest.raises(ValueError, match=r"it must be in \[0, 1\], but is 20"):
        adapt_proba_interval(np.array([0.5]), 0.5, 20, interval=(0.18, 0.22))


@pytest.mark.parametrize("bounds", [[(0.1, 0.3), (0.2, 0.4), (0.4, 0.6)], [(0.1, 0.3), NONE, NONE]])
def test_what_is_drawn_are_priors(bounds):
    drawn = _uncertain._draw_priors(
        np.array([0.2, 0.3, 0.5]), np.array(bounds), 0.025, 0, np.arange(3)
    )
    np.testing.assert_allclose(drawn.sum(axis=1), 1)
    assert drawn.min() >= 0
    assert drawn.std(axis=0).min() > 0.01
