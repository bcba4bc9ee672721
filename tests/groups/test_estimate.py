"""Groups left to themselves: each gets what its estimator says of its rows."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import priorshift as ps
from priorshift.exceptions import ConvergenceWarning, PriorShiftWarning
from priorshift.groups import GroupCounts, estimate_groups
from priorshift.solvers import Mixture

DECISIONS = ["cm", "scm", "cm-l", "scm-l", "cm-m", "scm-m", "scm-l-shrunk", "bbse", "bbse-s"]
METHODS = [*DECISIONS, "em", "map"]


def quietly(function, *arguments, **options):
    """Call without the warnings of clipped priors and of the solver of one problem."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PriorShiftWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        return function(*arguments, **options)


def objective(est, priors, rows):
    """Return what likelihood methods maximise, from the rows of a group."""
    alpha = getattr(est, "alpha", 1.0)
    if isinstance(est, ps.EM | ps.MAP):
        problem = Mixture(rows, scale=1 / est.source_priors_, alpha=alpha)
    else:
        counts = ps.DecisionCounts.from_arrays(rows, decision=est.confusion_.decision).counts
        problem = Mixture(est.confusion_.conditional, weights=counts, alpha=alpha)
    return problem.at(priors).objective


@pytest.mark.parametrize("method", METHODS)
def test_each_group_has_the_estimate_of_its_rows(grouped, method):
    data = grouped()
    est = data.fit(method, **({"tol": 1e-6} if method in ("em", "map") else {}))
    found = quietly(estimate_groups, est, data.y_proba, data.groups, pooling=None)
    assert found.groups.tolist() == [0, 1, 2, 3, 4]
    assert found.n.tolist() == [80, 5, 200, 1, 40]
    for g in range(5):
        rows = data.y_proba[data.groups == g]
        alone = quietly(est.estimate, rows)
        assert found.status[g] == alone.status
        if alone.status == "direct":
            np.testing.assert_allclose(found.priors[g], alone.priors, atol=1e-12)
            assert np.isinf(found.gap[g])
            continue
        assert found.gap[g] <= est.tol
        if method != "scm-l-shrunk":  # same objective, to the gap
            mine, theirs = (objective(est, p, rows) for p in (found.priors[g], alone.priors))
            assert mine == pytest.approx(theirs, abs=2e-6)
        np.testing.assert_allclose(found.priors[g], alone.priors, atol=5e-3)
    whole = quietly(est.estimate, data.y_proba)
    np.testing.assert_allclose(found.whole.priors, whole.priors, atol=1e-6)
    assert found.pooled is found.whole
    assert found.pooling == 0
    np.testing.assert_array_equal(found.weight, 1)


@pytest.mark.parametrize(
    ("method", "pooling"),
    [
        ("scm-l", None),
        ("scm-l", "auto"),
        ("cm-m", 30.0),
        ("em", "auto"),
        ("map", None),
        ("scm", "auto"),
    ],
)
def test_rows_and_classes_permute(grouped, rng, method, pooling):
    data = grouped(sizes=(80, 20, 200, 11, 40))
    est = data.fit(method)
    one = quietly(estimate_groups, est, data.y_proba, data.groups, pooling=pooling)
    rows = rng.permutation(data.groups.size)
    other = quietly(estimate_groups, est, data.y_proba[rows], data.groups[rows], pooling=pooling)
    # EM stops at a gap of 0.01, wherever that is
    close = 0.02 if method in ("em", "map") else 1e-6
    np.testing.assert_allclose(other.priors, one.priors, atol=close)
    order = np.array([2, 0, 3, 1])
    turned = ps.get_estimator(method).fit(
        data.y_proba_val[:, order],
        data.y_val,
        source_priors=data.source_priors[order],
        classes=order,
    )
    third = quietly(estimate_groups, turned, data.y_proba[:, order], data.groups, pooling=pooling)
    np.testing.assert_allclose(third.priors, one.priors[:, order], atol=max(close, 2e-4))


@pytest.mark.parametrize(
    ("method", "pooling"), [("cm-l", None), ("scm-l", "auto"), ("scm-m", None), ("bbse", "auto")]
)
def test_counts_made_in_parts_give_the_same(grouped, method, pooling):
    data = grouped()
    est = data.fit(method)
    whole = quietly(estimate_groups, est, data.y_proba, data.groups, pooling=pooling)
    decision = est.confusion_.decision
    counts = [
        GroupCounts.from_arrays(data.y_proba[part], data.groups[part], decision=decision)
        for part in (slice(0, 100), slice(100, 130), slice(130, None))
    ]
    found = quietly(estimate_groups, est, counts[2] + counts[0] + counts[1], pooling=pooling)
    np.testing.assert_allclose(found.priors, whole.priors, atol=1e-9)
    np.testing.assert_allclose(found.weight, whole.weight, atol=1e-9)
    np.testing.assert_allclose(found.gap, whole.gap, atol=1e-9)


@pytest.mark.parametrize("method", ["scm-l", "cm-m", "bbse"])
def test_sparse_rows_are_read_in_blocks(grouped, method):
    data = grouped()
    est = data.fit(method)
    dense = quietly(estimate_groups, est, data.y_proba, data.groups, confidence_level=0.9)
    sparse = quietly(
        estimate_groups, est, csr_array(data.y_proba), data.groups, confidence_level=0.9
    )
    np.testing.assert_array_equal(sparse.priors, dense.priors)
    np.testing.assert_array_equal(sparse.interval, dense.interval)
    with pytest.raises(ValueError, match="sparse"):
        estimate_groups(data.fit("em"), csr_array(data.y_proba), data.groups)


def test_groups_too_large_to_stack_go_one_by_one(grouped, monkeypatch):
    from priorshift.solvers import _maximise

    data = grouped()
    est = data.fit("em", tol=1e-6)
    stacked = estimate_groups(est, data.y_proba, data.groups, pooling=None)
    monkeypatch.setattr(_maximise, "STACK_BYTES", 8 * 4 * 50)
    single = estimate_groups(est, data.y_proba, data.groups, pooling=None)
    np.testing.assert_allclose(single.priors, stacked.priors, atol=1e-3)
    assert single.gap.max() <= 1e-6


def test_frames_find_their_columns(grouped):
    data = grouped()
    names = np.array(["ant", "bee", "cow", "dog"])
    est = ps.SCML().fit(data.y_proba_val, names[data.y_val], classes=names)
    frame = pd.DataFrame(data.y_proba, columns=names)[["dog", "ant", "cow", "bee"]]
    frame["site"] = np.array(["s0", "s1", "s2", "s3", "s4"])[data.groups]
    found = estimate_groups(est, frame.drop(columns="site"), frame["site"])
    plain = estimate_groups(est, data.y_proba, data.groups)
    np.testing.assert_array_equal(found.priors, plain.priors)
    assert found.groups.tolist() == ["s0", "s1", "s2", "s3", "s4"]
    assert found.classes.tolist() == names.tolist()


def test_two_classes_as_one_column(grouped):
    data = grouped(K=2)
    est = data.fit("scm-l")
    one = estimate_groups(est, data.y_proba[:, 1], data.groups)
    np.testing.assert_allclose(
        one.priors, estimate_groups(est, data.y_proba, data.groups).priors, atol=1e-9
    )


def test_decisions_that_validation_never_saw_say_nothing():
    y_proba_val = np.eye(3)[[0, 0, 1, 1, 0, 1]]
    est = ps.CML().fit(
        y_proba_val, [0, 0, 1, 1, 2, 2], classes=[0, 1, 2], source_priors=[0.4, 0.4, 0.2]
    )
    target = np.eye(3)[[0, 0, 1, 2, 2]]
    with pytest.warns(PriorShiftWarning) as told:
        found = estimate_groups(est, target, ["a", "a", "a", "b", "b"], pooling=None)
    assert any("get the pooled priors: 'b'" in str(w.message) for w in told)
    np.testing.assert_array_equal(found["b"].priors, found.whole.priors)


def test_what_is_not_certified_is_said():
    rng = np.random.default_rng(0)
    y_val = np.repeat([0, 1, 2], 50)
    y_proba_val = 0.5 * np.eye(3)[y_val] + 0.5 * rng.dirichlet(np.ones(3), 150)
    est = ps.SCML(max_iter=2, tol=1e-9).fit(y_proba_val, y_val)
    with pytest.warns(ConvergenceWarning) as told:
        found = estimate_groups(est, y_proba_val, np.arange(150) % 7, pooling=None)
    assert any("not certified in" in str(w.message) for w in told)
    assert "not_converged" in found.status


@pytest.mark.parametrize("method", ["rlls", "gls", "elsa", "na", "joint", "mapls"])
def test_other_methods_estimate_each_group_by_itself(grouped, method):
    data = grouped()
    available = [name for name in ps.available_estimators() if name.startswith(method)]
    est = data.fit(available[0])
    with pytest.raises(ValueError, match=r"cannot pool groups.* use a method such as SCM-L"):
        estimate_groups(est, data.y_proba, data.groups)
    found = quietly(estimate_groups, est, data.y_proba, data.groups, pooling=None)
    for g in range(len(found)):
        alone = quietly(est.estimate, data.y_proba[data.groups == g])
        np.testing.assert_array_equal(found.priors[g], alone.priors)
        assert found.status[g] == alone.status


@pytest.mark.parametrize(
    ("params", "name", "message"),
    [
        ({"solver": "paper"}, "scm-l", "use solver='certified'"),
        ({"solver": "paper"}, "em", "use solver='certified'"),
        ({"alpha": 0.5}, "scm-m", "alpha of at least 1"),
        ({"alpha": 0.5}, "map", "alpha of at least 1"),
        ({"constrained": True}, "bbse", r"BBSE\(constrained=True\) cannot pool groups"),
    ],
)
def test_what_has_no_certificate_is_refused(grouped, params, name, message):
    data = grouped()
    with pytest.raises(ValueError, match=message):
        estimate_groups(data.fit(name, **params), data.y_proba, data.groups)


def test_a_class_that_validation_lacks_is_refused(grouped):
    data = grouped()
    seen = data.y_val != 2
    est = ps.SCML().fit(
        data.y_proba_val[seen],
        data.y_val[seen],
        classes=[0, 1, 2, 3],
        source_priors=data.source_priors,
    )
    with pytest.raises(ValueError, match=r"no sample of class 2, .* use EM or MAP"):
        estimate_groups(est, data.y_proba, data.groups)
    em = ps.EM().fit(source_priors=data.source_priors)
    assert estimate_groups(em, data.y_proba, data.groups).priors.shape == (5, 4)


def test_clear_errors(grouped):
    data = grouped()
    est = data.fit("scm-l")
    with pytest.raises(ValueError, match="groups is missing"):
        estimate_groups(est, data.y_proba)
    with pytest.raises(ValueError, match="no label at position 0"):
        estimate_groups(est, data.y_proba, [None] * data.groups.size)
    for bad in ("some", -1.0, np.nan, True):
        with pytest.raises(ValueError, match="pooling must be 'auto', None, or a number"):
            estimate_groups(est, data.y_proba, data.groups, pooling=bad)
    with pytest.raises(ValueError, match="confidence_level must be"):
        estimate_groups(est, data.y_proba, data.groups, confidence_level=95.0)
    with pytest.raises(ValueError, match="EM has no intervals by group"):
        estimate_groups(data.fit("em"), data.y_proba, data.groups, confidence_level=0.9)
    counts = GroupCounts.from_arrays(data.y_proba, data.groups, decision="hard")
    with pytest.raises(ValueError, match="SCML needs counts of soft decisions on 4 classes"):
        estimate_groups(est, counts)
    with pytest.raises(ValueError, match="leave out the argument"):
        estimate_groups(data.fit("cm-l"), counts, data.groups)
    for method in ("em", "auto"):
        with pytest.raises(ValueError, match="needs the rows of the target"):
            estimate_groups(data.fit(method), counts)


# Auto: its calibration, then soft decisions


@pytest.fixture
def overconfident(grouped):
    """Make outputs that need a temperature."""

    def make(**more):
        data = grouped(**more)

        def sharpen(y_proba):
            sharp = y_proba**2.5
            return sharp / sharp.sum(axis=1, keepdims=True)

        auto = ps.Auto(random_state=0).fit(
            sharpen(data.y_proba_val), data.y_val, source_priors=data.source_priors
        )
        return data, auto, sharpen(data.y_proba)

    return make


def test_groups_that_differ_are_adapted_to_their_own(overconfident):
    data, auto, y_proba = overconfident(sizes=(600, 700, 800, 20, 3), concentration=3.0)
    found = estimate_groups(auto, y_proba, data.groups, confidence_level=0.95)
    whole = auto.estimate(y_proba)
    np.testing.assert_array_equal(found.whole.priors, whole.priors)
    assert found.method == "auto"
    assert np.isfinite(found.pooling)
    assert found.pooled.calibrator is not None
    own = np.abs(found.priors[:3] - data.truth[:3]).sum(axis=1)
    alike = np.abs(whole.priors - data.truth[:3]).sum(axis=1)
    assert own.mean() < 0.4 * alike.mean()
    adapted = found.adapt(y_proba, data.groups)
    one = data.groups == 1
    np.testing.assert_allclose(adapted[one], found[1].adapt(y_proba[one]), atol=1e-12)
    right = (adapted.argmax(axis=1) == data.y).mean()
    assert right > (whole.adapt(y_proba).argmax(axis=1) == data.y).mean()


def test_groups_that_are_alike_get_what_auto_says(overconfident):
    _, auto, y_proba = overconfident(sizes=(300,), concentration=3.0)
    copies = np.tile(y_proba, (4, 1))
    found = estimate_groups(auto, copies, np.repeat(np.arange(4), 300))
    whole = auto.estimate(copies)
    np.testing.assert_array_equal(found.priors, np.tile(whole.priors, (4, 1)))
    np.testing.assert_allclose(
        found.adapt(copies, np.repeat(np.arange(4), 300)), whole.adapt(copies), atol=1e-12
    )
    assert found[2].decision["sentence"] == whole.decision["sentence"]


def test_a_frame_after_a_frame_is_no_surprise():
    """Columns are matched by name, so nothing is to be said of their order."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    y_proba = rng.dirichlet(np.ones(3), 600)
    y = (y_proba.cumsum(axis=1) > rng.random((600, 1))).argmax(axis=1)
    names = np.array(["ant", "bee", "cat"])
    validation = pd.DataFrame(y_proba[:300], columns=names)
    target = pd.DataFrame(y_proba[300:, ::-1], columns=names[::-1])
    auto = ps.Auto().fit(validation, names[y[:300]])
    assert len(ps.estimate_groups(auto, target, np.arange(300) % 3)) == 3
