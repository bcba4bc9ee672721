"""Decisions without probabilities: `y_pred` instead of `y_proba`."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import priorshift as ps
from priorshift.exceptions import PriorShiftWarning

VERDICTS = np.array(["bad", "fair", "good"])
JUDGE = np.array([[0.8, 0.1, 0.05], [0.15, 0.8, 0.15], [0.05, 0.1, 0.8]])
METHODS = ("cm", "cm-l", "cm-m", "bbse", "rlls", "joint")


def draw(priors, n, rng, C=JUDGE):
    """Draw labels and a judge's decisions, as column numbers."""
    y = rng.choice(len(priors), n, p=priors)
    chosen = (rng.random(n)[:, None] > np.cumsum(C.T[y], axis=1)).sum(axis=1)
    return chosen, y


@pytest.fixture
def judged():
    """Return 400 labelled and 5000 other verdicts, as column numbers."""
    rng = np.random.default_rng(0)
    return *draw([0.3, 0.4, 0.3], 400, rng), draw([0.1, 0.6, 0.3], 5000, rng)[0]


def test_the_methods_of_hard_decisions_take_them():
    taking = [name for name in ps.available_estimators() if not _needs(name)]
    assert set(METHODS) <= set(taking)
    assert "em" not in taking
    assert "auto" not in taking
    assert ps.RLLS(decision="soft").needs_probabilities


def _needs(name):
    return ps.get_estimator(name).needs_probabilities


@pytest.mark.parametrize("method", [name for name in METHODS if name != "joint"])
def test_they_are_one_hot_rows(judged, method):
    decided, y, target = judged
    by_labels = ps.get_estimator(method).fit(y_pred=VERDICTS[decided], y=VERDICTS[y])
    found = by_labels.estimate(y_pred=VERDICTS[target])
    shares = np.bincount(y) / y.size
    rows = ps.get_estimator(method).fit(np.eye(3)[decided], y, source_priors=shares)
    assert_allclose(found.priors, rows.estimate(np.eye(3)[target]).priors, atol=1e-9)
    assert found.classes.tolist() == VERDICTS.tolist()
    assert found.source_priors_from == "label frequencies of validation"
    assert_allclose(found.source_priors, shares)


def test_joint_is_cm_l_where_nothing_is_shrunk(judged):
    decided, y, target = judged
    joint = ps.JointLikelihood(shrinkage=0, tol=1e-9).fit(y_pred=decided, y=y)
    plain = ps.CML().fit(y_pred=decided, y=y).estimate(y_pred=target)
    assert_allclose(joint.estimate(y_pred=target).priors, plain.priors, atol=1e-5)
    chosen = ps.JointLikelihood().fit(y_pred=decided, y=y)
    assert chosen.shrinkage_ > 0  # these columns are much alike
    assert_allclose(chosen.estimate(y_pred=target).priors, plain.priors, atol=0.05)


@pytest.mark.parametrize(
    "names",
    [
        [False, True],
        [-1, 1],
        [0.5, 2.0],
        ["no", "yes"],
        [10**12, 10**12 + 1],
    ],
)
def test_labels_of_any_kind(names):
    names, decided = np.array(names), np.repeat([0, 1, 0, 1], [8, 2, 2, 8])
    y, target = np.repeat([0, 1], 10), np.repeat([0, 1], [30, 10])
    fitted = ps.CM().fit(y_pred=names[decided], y=names[y])
    found = fitted.estimate(y_pred=names[target])
    assert_allclose(found.priors, [11 / 12, 1 / 12])
    assert found.classes.tolist() == names.tolist()
    as_list = ps.CM().fit(y_pred=names[decided].tolist(), y=names[y].tolist())
    assert_allclose(as_list.estimate(y_pred=names[target].tolist()).priors, found.priors)


@pytest.mark.parametrize("dtype", ["category", "object", "string"])
def test_columns_of_a_frame(judged, dtype):
    decided, y, target = judged
    frame = pd.DataFrame({"verdict": VERDICTS[decided], "label": VERDICTS[y]}).astype(dtype)
    fitted = ps.CML().fit(y_pred=frame["verdict"], y=frame["label"])
    expected = ps.CML().fit(y_pred=decided, y=y).estimate(y_pred=target).priors
    found = fitted.estimate(y_pred=pd.Series(VERDICTS[target]).astype(dtype))
    assert_allclose(found.priors, expected)


@pytest.mark.parametrize("method", ["cm-l", "joint"])  # others have the same counts and bounds
def test_intervals_cover(method):
    rng, held = np.random.default_rng(5), np.zeros(3)
    truth, n_trials = np.array([0.1, 0.6, 0.3]), 100
    for _ in range(n_trials):
        decided, y = draw([0.3, 0.4, 0.3], 300, rng)
        target, _ = draw(truth, 1000, rng)
        fitted = ps.get_estimator(method).fit(y_pred=decided, y=y)
        low, high = fitted.estimate(y_pred=target, confidence_level=0.9).interval.T
        held += (low <= truth) & (truth <= high)
    assert (held >= 83).all()  # of 90 expected, and a standard error of 3
    assert (held <= 98).all()


@pytest.mark.parametrize("interval_method", ["bootstrap", "bayesian"])
def test_intervals_that_draw(judged, interval_method):
    decided, y, target = judged
    fitted = ps.CML().fit(y_pred=decided, y=y)
    plain = fitted.estimate(y_pred=target, confidence_level=0.95).interval
    drawn = fitted.estimate(
        y_pred=target, confidence_level=0.95, interval_method=interval_method, random_state=0
    )
    assert_allclose(drawn.interval, plain, atol=0.03)


def test_weights_are_what_repeated_rows_are(judged):
    decided, y, target = judged
    weight = np.random.default_rng(1).integers(1, 4, y.size)
    twice = ps.CML().fit(y_pred=np.repeat(decided, weight), y=np.repeat(y, weight))
    weighted = ps.CML().fit(y_pred=decided, y=y, sample_weight=weight)
    expected = twice.estimate(y_pred=target).priors
    assert_allclose(weighted.estimate(y_pred=target).priors, expected, atol=1e-6)
    # but weighted rows are worth less than their sum: their interval is wider
    of_rows = ps.CML().fit(np.eye(3)[decided], y, sample_weight=weight).confusion_
    assert_allclose(weighted.confusion_.sizes, of_rows.sizes)
    assert (weighted.confusion_.sizes < twice.confusion_.sizes).all()
    wide = np.ptp(weighted.estimate(y_pred=target, confidence_level=0.9).interval, axis=1)
    narrow = np.ptp(twice.estimate(y_pred=target, confidence_level=0.9).interval, axis=1)
    assert (wide > narrow).all()


def test_batches_are_one_fit(judged):
    decided, y, target = judged
    weight = np.linspace(0.5, 2, y.size)
    parts = ps.CML()
    for part in (slice(0, 150), slice(150, 400)):
        parts.partial_fit(
            y_pred=decided[part], y=y[part], sample_weight=weight[part], classes=[0, 1, 2]
        )
    whole = ps.CML().fit(y_pred=decided, y=y, sample_weight=weight)
    options = {"y_pred": target, "confidence_level": 0.95}
    assert_allclose(parts.estimate(**options).interval, whole.estimate(**options).interval)
    with pytest.raises(ValueError, match="cannot add hard counts"):
        parts.partial_fit(np.eye(3)[decided], y)


def test_counts_and_probabilities_of_the_target_do_as_well(judged):
    decided, y, target = judged
    fitted = ps.CML().fit(y_pred=decided, y=y)
    expected = fitted.estimate(y_pred=target, confidence_level=0.9)
    counts = ps.DecisionCounts.from_decisions(target, 3)
    rows = 0.1 + 0.7 * np.eye(3)[target]
    for found in (fitted.estimate_counts(counts, 0.9), fitted.estimate(rows, 0.9)):
        assert_allclose(found.priors, expected.priors)
        assert_allclose(found.interval, expected.interval)
    adapted = fitted.adapt(rows)
    assert_allclose(adapted.sum(axis=1), 1)


def test_a_fit_on_probabilities_takes_decisions_of_the_target(judged):
    decided, y, target = judged
    rows = ps.CML().fit(0.1 + 0.7 * np.eye(3)[decided], y)
    found = rows.estimate(y_pred=target).priors
    assert_allclose(found, rows.estimate(0.1 + 0.7 * np.eye(3)[target]).priors)


def test_a_verdict_that_is_never_true_is_a_decision_like_any_other(judged):
    decided, y, target = judged
    rng = np.random.default_rng(3)
    names = np.array([*VERDICTS, "unsure"])
    decided = np.where(rng.random(y.size) < np.array([0.3, 0.1, 0.1])[y], 3, decided)
    truth = np.array([0.1, 0.6, 0.3])
    target, y_target = draw(truth, 5000, rng)
    target = np.where(rng.random(5000) < np.array([0.3, 0.1, 0.1])[y_target], 3, target)
    for method in METHODS:
        fitted = ps.get_estimator(method).fit(y_pred=names[decided], y=VERDICTS[y])
        with pytest.warns(PriorShiftWarning, match="no label of validation is 'unsure'"):
            found = fitted.estimate(y_pred=names[target], confidence_level=0.95)
        assert found.unseen_classes == ("unsure",)
        assert found.priors[3] == 0
        assert not any("'unsure'" in caution for caution in found.cautions)  # said once
        assert_allclose(found.priors[:3], truth, atol=0.06)
        low, high = found.interval[:3].T
        assert ((low <= truth) & (truth <= high)).all()


@pytest.mark.filterwarnings("ignore::priorshift.exceptions.PriorShiftWarning")
def test_intervals_with_more_decisions_than_classes_cover():
    rng, held = np.random.default_rng(8), np.zeros(2)
    C = np.array([[0.7, 0.1], [0.1, 0.6], [0.2, 0.3]])
    truth, options = np.array([0.8, 0.2]), {"confidence_level": 0.9}
    for _ in range(150):
        decided, y = draw([0.5, 0.5], 200, rng, C)
        fitted = ps.CML().fit(y_pred=decided, y=y, classes=[0, 1, 2])
        low, high = fitted.estimate(y_pred=draw(truth, 1000, rng, C)[0], **options).interval.T
        held += (low <= [*truth, 0])[:2] & ([*truth, 0] <= high)[:2]
    assert (held >= 0.84 * 150).all()
    assert (held <= 0.97 * 150).all()


def test_methods_that_need_probabilities_name_those_that_do_not():
    said = (
        r"EM needs predicted probabilities \(y_proba\); decisions \(y_pred\) suffice for cm, cm-l"
    )
    with pytest.raises(ValueError, match=said):
        ps.EM().fit(y_pred=[0, 1], y=[0, 1])
    fitted = ps.SCML().fit([[0.8, 0.2], [0.3, 0.7]], [0, 1])
    with pytest.raises(ValueError, match="SCML needs predicted probabilities"):
        fitted.estimate(y_pred=[0, 1])
    with pytest.raises(ValueError, match="Auto needs predicted probabilities"):
        ps.Auto().fit(y_pred=[0, 1], y=[0, 1])


@pytest.mark.parametrize("labels", [["cat", "dog"], [0, 1], [False, True], [3, 7]])
def test_labels_given_as_probabilities_are_told_where_to_go(labels):
    with pytest.raises(ValueError, match=r"these look like labels\. Pass decisions as y_pred="):
        ps.CML().fit(labels, labels)
    with pytest.raises(ValueError, match="y_pred="):
        ps.CML().fit(pd.Series(labels), labels)
    fitted = ps.CML().fit(y_pred=labels, y=labels)
    with pytest.raises(ValueError, match="y_pred="):
        fitted.estimate(np.array(labels))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"y_pred": ["a", "b"]}, r"needs validation labels: fit\(y_pred=..., y=...\)"),
        ({"y_pred": ["a", "b"], "y": ["a"]}, "y has 1 labels but y_pred has 2 decisions"),
        ({"y_pred": ["a", "b"], "y": [0, 1]}, "different types"),
        ({"y_pred": ["a", "a"], "y": ["a", "a"]}, "one class only"),
        ({"y_pred": ["a", None], "y": ["a", "b"]}, "no label at position 1"),
        ({"y_pred": [["a"], ["b"]], "y": ["a", "b"]}, "must be 1-D"),
        ({"y_pred": ["a", "c"], "y": ["a", "b"], "classes": ["a", "b"]}, "y_pred has a label out"),
        ({"y_pred": [0, 1], "y": [0, 1], "y_proba": np.eye(2)}, "pass one of them"),
        ({"y_pred": [], "y": []}, "y_pred is empty"),
    ],
)
def test_bad_decisions_are_refused(given, said):
    with pytest.raises(ValueError, match=said):
        ps.CML().fit(**given)


def test_a_bad_target_is_refused():
    fitted = ps.CML().fit(y_pred=["a", "b"], y=["a", "b"])
    with pytest.raises(ValueError, match="the target is missing"):
        fitted.estimate()
    with pytest.raises(ValueError, match="y_pred has a label outside classes: 'c'"):
        fitted.estimate(y_pred=["a", "c"])
    with pytest.raises(ValueError, match="pass one of them"):
        fitted.estimate(np.eye(2), y_pred=["a", "b"])


def test_very_many_classes_need_no_matrix_of_classes_by_classes():
    K = 5000
    y, rng = np.repeat(np.arange(K), 2), np.random.default_rng(0)
    wrong = (rng.random(y.size) < 0.1) & (np.arange(y.size) % 2 == 1)  # each class once right
    decided = np.where(wrong, rng.integers(K, size=y.size), y)
    target = rng.integers(K // 2, size=100_000)
    found = ps.CML().fit(y_pred=decided, y=y).estimate(y_pred=target)
    assert found.priors[: K // 2].sum() > 0.9
    with pytest.raises(ValueError, match="leave out confidence_level"):
        ps.CML().fit(y_pred=decided, y=y).estimate(y_pred=target, confidence_level=0.9)
    with pytest.raises(ValueError, match="too many"):
        ps.JointLikelihood().fit(y_pred=decided, y=y)


def test_a_million_decisions_are_counted_not_spread_out():
    import tracemalloc

    target = np.random.default_rng(0).integers(100, size=1_000_000)
    y = np.repeat(np.arange(100), 5)
    fitted = ps.CML().fit(y_pred=y, y=y)
    tracemalloc.start()
    fitted.estimate(y_pred=target)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60_000_000  # one-hot rows would need 400 MB
