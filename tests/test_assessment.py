"""assess: one verdict from all evidence, right on simulated truth, for every kind of input."""

import json
import pickle
import warnings

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import kstest

import priorshift as ps
from lab.verdicts import outcome, right, table
from priorshift import assessment, words
from priorshift.border import ArrayTable
from priorshift.border import rows as border_rows
from priorshift.text import percent

K = 3
MEANS = np.array([[0.0, 0.0], [2.0, 0.5], [0.5, 2.5]])
SOURCE = np.array([0.7, 0.2, 0.1])
TARGET = np.array([0.1, 0.3, 0.6])
NAMES = np.array(["ant", "bee", "cat"])


def draw(rng, n, shares, *, slope=1.0, moved=0.0):
    y = rng.choice(K, n, p=shares)
    x = MEANS[y] + rng.normal(size=(n, 2)) + moved
    z = slope * (x @ MEANS.T - 0.5 * (MEANS**2).sum(axis=1)) + np.log(SOURCE)
    y_proba = np.exp(z - z.max(axis=1, keepdims=True))
    return y_proba / y_proba.sum(axis=1, keepdims=True), y


@pytest.fixture(scope="module")
def shifted():
    rng = np.random.default_rng(0)
    (y_proba_val, y_val), (y_proba, y) = draw(rng, 2000, SOURCE), draw(rng, 3000, TARGET)
    return y_proba_val, y_val, y_proba, y


@pytest.fixture(scope="module")
def found(shifted):
    y_proba_val, y_val, y_proba, _ = shifted
    return ps.assess(y_proba_val, NAMES[y_val], y_proba, classes=NAMES)


# The verdict


def test_a_large_shift_is_worth_adapting_to(found, shifted):
    _, _, y_proba, y = shifted
    before = (y_proba.argmax(axis=1) == y).mean()
    after = (found.adapt(y_proba).argmax(axis=1) == y).mean()
    assert found.verdict == "adapt"
    assert after > before + 0.05
    assert found.gain.low < after - before < found.gain.high
    assert found.estimate.interval is not None
    assert found.sentence.startswith("Adapt: the class balance has changed, and accuracy should")


def test_amplification_is_how_much_further_than_the_calibrated_mean_prior_shift_moves(found):
    before = found.estimate.source_priors
    moved = [np.abs(one.priors - before).sum() for one in (found.estimate, found.calibrated_mean)]
    assert found.kind.amplification == pytest.approx(moved[0] / moved[1])


def test_without_a_shift_predictions_are_left_as_they_are():
    rng = np.random.default_rng(1)
    (y_proba_val, y_val), (y_proba, _) = draw(rng, 2000, SOURCE), draw(rng, 2000, SOURCE)
    found = ps.assess(y_proba_val, y_val, y_proba)
    assert found.verdict == "leave"
    assert found.estimate.strength == 0
    np.testing.assert_array_equal(found.adapt(y_proba).argmax(axis=1), y_proba.argmax(axis=1))
    assert "no evidence that the class balance changed" in found.sentence


def test_more_than_the_priors_changed():
    rng = np.random.default_rng(2)
    (y_proba_val, y_val), (y_proba, _) = draw(rng, 3000, SOURCE), draw(rng, 3000, TARGET, moved=1.5)
    found = ps.assess(y_proba_val, y_val, y_proba)
    assert found.verdict == "unclear"
    assert found.assumption_test.rejected
    assert "more than the class balance changed" in found.sentence
    np.testing.assert_array_equal(found.adapt(y_proba).argmax(axis=1), y_proba.argmax(axis=1))


def test_few_rows_are_said_to_be_few():
    rng = np.random.default_rng(8)
    (y_proba_val, y_val), (y_proba, _) = draw(rng, 25, SOURCE), draw(rng, 400, [0.4, 0.4, 0.2])
    found = ps.assess(y_proba_val, y_val, y_proba, classes=range(K))
    assert found.verdict == "unclear"
    assert found.estimate.strength == 0
    assert any("Validation is small" in one for one in found.reasons)


@pytest.mark.parametrize("assume", [True, False])
def test_a_single_row_tells_nothing_of_the_target(shifted, assume):
    y_proba_val, y_val, y_proba, _ = shifted
    known = {"classes": range(K), "assume_prior_shift": assume}
    found = ps.assess(y_proba_val, y_val, y_proba[:1], **known)
    assert found.verdict == "unclear"
    assert "the target has too few rows" in found.sentence
    assert ps.assess(y_proba_val, y_val, y_proba[:10], **known).sentence != found.sentence


def test_a_class_that_nothing_is_known_of_is_unclear(shifted):
    y_proba_val, y_val, y_proba, _ = shifted
    kept = y_val != 2
    found = ps.assess(y_proba_val[kept], NAMES[y_val[kept]], y_proba, classes=NAMES)
    assert found.verdict == "unclear"
    assert "no row of class “cat”, so adapting" in found.sentence
    assert any("source_priors" in reason for reason in found.reasons)


@pytest.mark.slow
def test_verdicts_are_right_on_simulated_truth():
    outcomes = [outcome(7_000_000 + seed) for seed in range(28)]
    adapted = [one for one in outcomes if one.verdict == "adapt"]
    left = [one for one in outcomes if one.verdict == "leave"]
    assert len(adapted) >= 4
    assert len(left) >= 3
    assert np.mean([right(one) for one in adapted]) >= 0.8
    assert np.mean([right(one) for one in left]) >= 0.8
    assert np.mean([one.gain for one in adapted]) > np.mean([one.gain for one in left]) + 1
    assert "| all | adapt |" in table(outcomes)


# Words


def test_the_sentence_is_short_and_plain(found):
    assert len(found.sentence) < 200
    for jargon in ("nats", "pseudo", "posterior", "likelihood", "p ="):
        assert jargon not in found.sentence


def test_the_sentence_is_short_whatever_classes_are_called(shifted):
    y_proba_val, y_val, y_proba, _ = shifted
    names, kept = np.array([letter * 300 for letter in "abc"]), y_val == 0
    found = ps.assess(y_proba_val[kept], names[y_val[kept]], y_proba, classes=names)
    assert "and 1 other" in found.sentence
    assert len(found.sentence) < 200


def unclear(kind):
    rng = np.random.default_rng(8)
    few, many = draw(rng, 25, SOURCE), draw(rng, 3000, SOURCE)
    return {
        "few validation rows": (*few, draw(rng, 400, [0.4, 0.4, 0.2])[0]),
        "more changed": (*many, draw(rng, 3000, TARGET, moved=1.5)[0]),
        "few target rows": (*many, draw(rng, 40, TARGET)[0]),
    }[kind]


@pytest.mark.parametrize("kind", ["few validation rows", "more changed", "few target rows"])
@pytest.mark.parametrize("method", ["auto", "scm-l"])
def test_every_reason_of_an_unclear_verdict_has_a_number(kind, method):
    found = ps.assess(*unclear(kind), classes=range(K), method=method)
    assert len(found.sentence) < 200
    for reason in found.reasons:
        assert any(letter.isdigit() for letter in reason), reason


def test_every_reason_is_a_sentence_with_a_number(found):
    assert len(found.reasons) >= 3
    for reason in found.reasons:
        assert reason.endswith((".", "!"))
        assert any(letter.isdigit() for letter in reason)


def test_repr_leads_with_the_verdict(found):
    assert repr(found).startswith(found.sentence)
    assert found._repr_html_().startswith("<div><p><strong>Adapt: ")


def test_html_is_escaped(shifted):
    y_proba_val, y_val, y_proba, _ = shifted
    names = np.array(["<b>", "x", "y"])
    html = ps.assess(y_proba_val, names[y_val], y_proba, classes=names)._repr_html_()
    assert "<b>" not in html.replace("<b></b>", "")


# What it keeps


def test_it_is_plain_data_for_json(found):
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["verdict"] == "adapt"
    assert set(document["estimate"]["priors"]) == set(NAMES)
    assert document["gain"]["low"] < document["gain"]["value"] < document["gain"]["high"]


def test_it_keeps_summaries_and_no_rows(found):
    again = pickle.loads(pickle.dumps(found))
    assert again.sentence == found.sentence
    assert len(pickle.dumps(found)) < 50_000  # 5,000 rows of 3 float64 take 120,000


def test_it_is_the_same_every_time(shifted, found):
    y_proba_val, y_val, y_proba, _ = shifted
    again = ps.assess(y_proba_val, NAMES[y_val], y_proba, classes=NAMES)
    assert again.to_dict() == found.to_dict()


def test_warnings_are_kept_not_raised(shifted):
    y_proba_val, y_val, y_proba, _ = shifted
    kept = y_val != 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = ps.assess(y_proba_val[kept], y_val[kept], y_proba, classes=range(K), method="scm-l")
    assert any("no sample of class 2" in warning for warning in found.warnings)


# What it takes


def test_frames_are_matched_by_name(shifted, found):
    pd = pytest.importorskip("pandas")
    y_proba_val, y_val, y_proba, _ = shifted
    validation = pd.DataFrame(y_proba_val, columns=NAMES)
    target = pd.DataFrame(y_proba, columns=NAMES)[["cat", "ant", "bee"]]
    again = ps.assess(validation, pd.Series(NAMES[y_val]), target)
    assert again.verdict == found.verdict
    np.testing.assert_allclose(again.estimate.priors, found.estimate.priors, atol=1e-9)


@pytest.mark.parametrize("method", ["em", "scm-l", "em-bcts", "bbse"])
def test_fixed_methods_agree_on_a_clear_case(shifted, method):
    y_proba_val, y_val, y_proba, _ = shifted
    found = ps.assess(y_proba_val, y_val, y_proba, method=method)
    assert found.verdict == "adapt"
    assert found.estimate.method == method


def test_an_estimator_may_be_given(shifted):
    y_proba_val, y_val, y_proba, _ = shifted
    found = ps.assess(y_proba_val, y_val, y_proba, method=ps.MAP(alpha=2.0))
    assert found.estimate.method == "map"


def test_a_target_read_in_blocks_is_assessed_by_a_sample(shifted, monkeypatch):
    y_proba_val, y_val, y_proba, y = shifted
    monkeypatch.setattr(border_rows, "SAMPLE_NUMBERS", 1500 * (K + border_rows.PER_ROW))
    found = ps.assess(y_proba_val, y_val, ArrayTable(y_proba), y_target=y)
    assert found.rows_looked_at < 1500 < found.n_target == 3000
    assert found.measured.n_labelled == found.rows_looked_at
    assert any("of the target's 3,000 rows" in reason for reason in found.reasons)
    assert found.verdict == "adapt"


def test_a_large_array_is_assessed_by_a_sample(shifted, monkeypatch):
    y_proba_val, y_val, y_proba, y = shifted
    monkeypatch.setattr(border_rows, "SAMPLE_NUMBERS", 1500 * (K + border_rows.PER_ROW))
    found = ps.assess(y_proba_val, y_val, y_proba, y_target=y)
    again = ps.assess(y_proba_val, y_val, ArrayTable(y_proba), y_target=y)
    assert found.to_dict() == again.to_dict()
    assert found.rows_looked_at < 1500


def test_sides_are_thinned_for_the_tests_not_left_out(shifted, monkeypatch):
    y_proba_val, y_val, y_proba, _ = shifted
    monkeypatch.setattr(assessment, "MOST_NUMBERS", 1000 * (K + 10))
    found = ps.assess(y_proba_val, y_val, y_proba, method="scm-l")
    assert (found.shift_test.n_val, found.shift_test.n_target) == (1000, 1000)
    assert found.shift_test.rejected
    assert (found.n_val, found.rows_looked_at) == (2000, 3000)
    assert found.verdict == "adapt"


def test_what_cannot_be_read_is_refused(shifted):
    y_proba_val, y_val, y_proba, _ = shifted
    with pytest.raises(ValueError, match="there is no estimator 'magic'"):
        ps.assess(y_proba_val, y_val, y_proba, method="magic")
    with pytest.raises(ValueError, match="y_proba_target"):
        ps.assess(y_proba_val, y_val, np.full((3, K), np.nan))
    with pytest.raises(ValueError, match="one entry per row"):
        ps.assess(y_proba_val, y_val, y_proba, y_target=[0, 1])


# Labels of the target


def test_labels_measure_the_gain(shifted):
    y_proba_val, y_val, y_proba, y = shifted
    found = ps.assess(y_proba_val, y_val, y_proba, y_target=y)
    before = (y_proba.argmax(axis=1) == y).mean()
    assert found.measured.n_labelled == y.size
    assert found.measured.before.value == pytest.approx(before)
    assert any("labelled rows of the target" in reason for reason in found.reasons)


@pytest.mark.parametrize("unknown", [None, np.nan, -1])
def test_some_labels_are_enough(shifted, unknown):
    y_proba_val, y_val, y_proba, y = shifted
    some = np.full(y.size, unknown, dtype=object)
    some[::10] = y[::10]
    assert ps.assess(y_proba_val, y_val, y_proba, y_target=some).measured.n_labelled == 300


def test_labels_overrule_an_expectation_that_is_wrong():
    """Where features moved, adapting is expected to help and does not; labels tell."""
    rng = np.random.default_rng(5)
    (y_proba_val, y_val), (y_proba, _) = draw(rng, 2000, SOURCE), draw(rng, 2000, TARGET)
    contrary = y_proba.argmax(axis=1)  # as if decisions were right as they are
    found = ps.assess(y_proba_val, y_val, y_proba, y_target=contrary)
    assert found.verdict == "leave"
    assert found.estimate.strength == 0


# Many groups or windows


def test_verdicts_on_parts_are_those_of_assess(shifted):
    y_proba_val, y_val, y_proba, _ = shifted
    rng = np.random.default_rng(3)
    same, _ = draw(rng, 1500, np.bincount(y_val, minlength=K) / y_val.size)
    verdicts = assessment.Verdicts(y_proba_val, y_val)
    fitted = ps.SCML().fit(y_proba_val, y_val)
    for rows, expected in ((y_proba, "adapt"), (same, "leave")):
        assert ps.assess(y_proba_val, y_val, rows, method="scm-l").verdict == expected
        assert verdicts.on(fitted.estimate(rows, 0.95), rows) == expected


def test_verdicts_use_labels(shifted):
    y_proba_val, y_val, y_proba, _ = shifted
    decisions = y_proba.argmax(axis=1)  # as if they were right
    estimate = ps.SCML().fit(y_proba_val, y_val).estimate(y_proba)
    verdicts = assessment.Verdicts(y_proba_val, y_val)
    assert verdicts.on(estimate, y_proba) == "adapt"
    assert verdicts.on(estimate, y_proba, decisions) == "leave"


def test_verdicts_end_with_their_budget(shifted):
    y_proba_val, y_val, y_proba, _ = shifted
    estimate = ps.SCML().fit(y_proba_val, y_val).estimate(y_proba)
    one = (y_val.size + y_proba.shape[0]) * (K + 10)
    verdicts = assessment.Verdicts(y_proba_val, y_val, budget=2 * one + 1)
    assert [verdicts.on(estimate, y_proba) for _ in range(3)] == ["adapt", "adapt", None]
    assert verdicts.budget == 0


def test_one_row_is_no_reason_to_adapt(shifted):
    y_proba_val, y_val, y_proba, _ = shifted
    estimate = ps.SCML().fit(y_proba_val, y_val).estimate(y_proba)
    assert assessment.Verdicts(y_proba_val, y_val).on(estimate, y_proba[:1]) == "unclear"


@pytest.mark.parametrize("level", [-1, 0, 1, float("nan"), "x"])
def test_a_confidence_level_is_checked_first(shifted, level):
    y_proba_val, y_val, y_proba, _ = shifted
    with pytest.raises(ValueError, match="confidence_level must be"):
        ps.assess(y_proba_val, NAMES[y_val], y_proba, confidence_level=level)


# Labels of some target rows


def with_labels(rng, n_labelled=400, **drift):
    y_proba_val, y_val = draw(rng, 1500, SOURCE)
    y_proba, y = draw(rng, 4000, TARGET, **drift)
    y_target = np.where(np.arange(y.size) < n_labelled, y, -1)
    return ps.assess(y_proba_val, y_val, y_proba, y_target=y_target), y_proba, y_target


def test_labels_bear_out_an_estimate_that_holds(rng):
    found, y_proba, y_target = with_labels(rng)
    low, high = found.ppi.interval.T
    assert ((low <= found.estimate.priors) & (found.estimate.priors <= high)).all()
    ppi = ps.PPI().fit(classes=[0, 1, 2])
    expected = ppi.estimate(y_proba, 0.95, y_target=y_target)
    np.testing.assert_allclose(found.ppi.interval, expected.interval)
    assert found.measured.p_value > 0.05
    assert found.measured.expected_before == pytest.approx(found.measured.before.value, abs=0.06)
    said = " ".join(found.reasons)
    assert "as good as on validation" in said
    low, high = found.shares_to_report.interval.T
    assert ((low <= found.estimate.priors) & (found.estimate.priors <= high)).all()


def test_labels_refute_an_estimate_that_does_not_hold(rng):
    found, *_ = with_labels(rng, moved=np.array([1.0, -0.5]))
    said = " ".join(found.reasons)
    assert found.measured.p_value < 0.01
    assert "not as on validation" in said
    low, high = found.shares_to_report.interval.T
    assert ((found.estimate.priors < low) | (found.estimate.priors > high)).any()
    assert found.shares_to_report.method == "ppi"
    assert (
        np.abs(found.ppi.priors - TARGET).sum() < 0.5 * np.abs(found.estimate.priors - TARGET).sum()
    )
    assert found.to_dict()["ppi"]["method"] == "ppi"


def test_the_test_of_decisions_errs_as_often_as_it_says(rng):
    """Uniform where the assumption holds, whatever the class balance."""
    p_values = []
    for _ in range(300):
        sizes, rates = (400, 150), [0.9, 0.7]
        y_val, y = rng.choice(2, sizes[0]), rng.choice(2, sizes[1], p=[0.8, 0.2])
        right_val = rng.random(sizes[0]) < np.asarray(rates)[y_val]
        right = (rng.random(sizes[1]) < np.asarray(rates)[y]).astype(float)
        p_values.append(assessment.compare_recall(y_val, right_val, y, right, 2)[1])
    assert kstest(p_values, "uniform").pvalue > 0.001
    assert np.mean(np.array(p_values) < 0.05) < 0.1


def test_ppi_can_be_the_method_of_an_assessment(shifted):
    y_proba_val, y_val, y_proba, y = shifted
    y_target = np.where(np.arange(y.size) < 300, y, -1)
    found = ps.assess(y_proba_val, y_val, y_proba, y_target=y_target, method="ppi")
    assert found.verdict == "adapt"
    assert found.estimate.interval_method == "prediction-powered"
    with pytest.raises(ValueError, match="needs labels of some rows"):
        ps.assess(y_proba_val, y_val, y_proba, method="ppi")


def test_a_judge_that_drifted_is_said_first(rng):
    """Three verdicts and two classes: the fit can fail, and then no share can be trusted."""
    errors = np.array([[0.75, 0.10, 0.15], [0.05, 0.85, 0.10]])
    drifted = np.array([[0.55, 0.10, 0.35], [0.02, 0.90, 0.08]])
    names = np.array(["fail", "pass", "unsure"])

    def draw(n, share, errors):
        truth = (rng.random(n) < share).astype(int)
        return names[(rng.random(n)[:, None] > errors[truth].cumsum(axis=1)).sum(axis=1)], truth

    y_pred_val, truth = draw(400, 0.6, errors)
    given = {"y_pred_val": y_pred_val, "y_val": names[truth]}
    same = ps.assess(**given, y_pred_target=draw(3000, 0.4, errors)[0])
    assert same.verdict == "leave"
    assert "nothing suggests that they make other mistakes" in same.reasons[1]
    assert not any("diagnostics" in reason for reason in same.reasons)
    y_pred_target, truth = draw(3000, 0.4, drifted)
    found = ps.assess(**given, y_pred_target=y_pred_target)
    assert (found.verdict, found.action) == ("unclear", "none")
    assert found.sentence.startswith(
        "Unclear: the decisions make other mistakes than on validation"
    )
    assert found.reasons[0].startswith("The decisions fit no mixture")
    labels = np.where(np.arange(3000) < 300, names[truth], None)
    labelled = ps.assess(**given, y_pred_target=y_pred_target, y_target=labels)
    assert labelled.verdict == "leave"  # labels settle it
    assert labelled.shares_to_report.method == "ppi"


@pytest.mark.parametrize("method", ["auto", "scm-l"])
def test_one_sample_is_one_number_everywhere(shifted, monkeypatch, method):
    """Verdict, test and estimate speak of the same rows of a large target."""
    y_proba_val, y_val, y_proba, _ = shifted
    monkeypatch.setattr(border_rows, "SAMPLE_NUMBERS", 1500 * (K + border_rows.PER_ROW))
    monkeypatch.setattr(assessment, "MOST_NUMBERS", 1500 * (K + border_rows.PER_ROW))
    found = ps.assess(y_proba_val, y_val, y_proba, method=method)
    n = found.rows_looked_at
    assert n < 1500
    assert found.estimate.n_target == found.shift_test.n_target == n
    assert found.calibrated_mean.n_target == found.diagnostics.n_target == n
    assert f"All of this rests on {n:,} of the target's 3,000 rows" in " ".join(found.reasons)
    if method == "auto":  # it looks at the same rows by itself
        alone = ps.Auto().fit(y_proba_val, y_val).estimate(y_proba)
        np.testing.assert_allclose(alone.priors, found.estimate.priors)
        assert alone.n_target == n


def test_three_rows_are_too_few_to_tell():
    """Not that predictions and labels do not belong together."""
    y_proba_val = np.array([[0.6, 0.4], [0.7, 0.3], [0.4, 0.6]])
    target = np.array([[0.9, 0.1], [0.3, 0.7]] * 30)
    found = ps.assess(y_proba_val, np.array([0, 1, 0]), target)
    assert found.sentence == ("Unclear: validation has too few rows to tell. Label more of them.")
    assert found.reasons[0].startswith("Validation has 3 rows, which is too few to tell")


@pytest.mark.parametrize("assumed", [False, True])
def test_training_rows_as_validation_are_said_first(rng, assumed):
    """A model that knows its training rows by heart is sure of them, and less so of new ones."""
    from sklearn.ensemble import RandomForestClassifier

    y = rng.integers(0, 3, 1800)
    X = rng.standard_normal((1800, 4)) + 1.2 * np.eye(3, 4)[y]
    train, fresh, target = np.split(np.arange(1800), 3)
    model = RandomForestClassifier(40, random_state=0).fit(X[train], y[train])
    y_proba = model.predict_proba(X[target])
    known, new = (
        ps.assess(model.predict_proba(X[at]), y[at], y_proba, assume_prior_shift=assumed)
        for at in (train, fresh)
    )
    assert known.reasons[0].startswith("The validation rows look as if the model was trained on")
    assert (known.verdict, known.action) == ("unclear", "none")
    assert "trained on them" in known.sentence
    assert not new.say("seen_before")
    labels = ps.assess(model.predict_proba(X[train]), y[train], y_proba, y_target=y[target])
    assert "by the labels of the target" in labels.sentence
    assert labels.reasons[0] == known.reasons[0]  # said all the same


def test_a_first_group_of_a_few_rows_says_nothing_of_the_others(shifted):
    """What stands in the way of one verdict is not remembered for the next."""
    y_proba_val, y_val, y_proba, _ = shifted
    fitted, verdicts = ps.SCML().fit(y_proba_val, y_val), assessment.Verdicts(y_proba_val, y_val)
    few, many = y_proba[:5], y_proba
    assert verdicts.on(fitted.estimate(few), few) == "unclear"
    alone = assessment.Verdicts(y_proba_val, y_val).on(fitted.estimate(many), many)
    assert verdicts.on(fitted.estimate(many), many) == alone == "adapt"


@pytest.mark.parametrize("assumed", [False, True])
def test_the_order_of_a_targets_columns_is_found(assumed):
    rng = np.random.default_rng(0)

    def classify(priors, n=2000):
        y = rng.choice(3, n, p=priors)
        logits = rng.normal(size=(n, 3)) * [1.0, 0.5, 2.0] + 2 * np.eye(3)[y]
        return softmax(logits, axis=1), y

    y_proba_val, y_val = classify([0.6, 0.3, 0.1])
    y_proba, _ = classify([0.5, 0.2, 0.3])
    given = {"assume_prior_shift": assumed, "classes": ["a", "b", "c"]}
    y_val = np.array(["a", "b", "c"])[y_val]
    right = ps.assess(y_proba_val, y_val, y_proba, **given)
    assert not right.say("target_swapped")
    wrong = ps.assess(y_proba_val, y_val, y_proba[:, [2, 0, 1]], **given)
    if assumed:
        assert wrong.verdict == "unclear"
        assert "in a different order from validation's" in wrong.sentence
    assert "if they were c, a and b, " in wrong.say("target_swapped")


def test_a_share_outside_both_readings_names_the_share_before():
    known = {"label": "a", "prior": 0.6, "mean": 0.5, "before": 0.2, "low": 0.1, "high": 0.7}
    between = words.say(words.fact("readings", **known, report=0.55, level=0.95))
    below = words.say(words.fact("readings", **known, report=0.35, level=0.95))
    assert "before" not in between
    assert ", 20.0% before; report 35.0% (95% interval 10.0% to 70.0%)." in below


@pytest.mark.parametrize("wrong", ["swapped", "adapted"])
def test_no_word_is_taken_for_a_target_that_no_class_balance_explains(wrong):
    data = ps.datasets.load_fashion_lt()
    y_proba_val, y_val, y_proba = data.y_proba_val, data.y_val, data.y_proba_target[::3]
    assess = {"assume_prior_shift": True, "classes": data.classes}
    honest = ps.assess(y_proba_val, y_val, y_proba, **assess)
    assert honest.verdict == "adapt"
    spoilt = np.roll(y_proba, 1, axis=1) if wrong == "swapped" else honest.adapt(y_proba).copy()
    found = ps.assess(y_proba_val, y_val, spoilt, **assess)
    assert (found.verdict, found.action) == ("unclear", "none")
    assert found.sentence.startswith("Unclear: you say that each class looks as it did, but no")
    assert found.reasons[0].startswith("You say that each class looks as it did, but up to")
    assert not found.say("assumed")  # the word is not taken


def test_the_table_and_the_sentence_show_the_share_to_report():
    rng = np.random.default_rng(3)
    (y_proba_val, y_val), (y_proba, _) = draw(rng, 800, SOURCE), draw(rng, 900, TARGET, moved=-0.5)
    found = ps.assess(y_proba_val, NAMES[y_val], y_proba, classes=NAMES)
    report = found.shares_to_report
    assert found.verdict == "unclear"
    k = int(np.abs(found.estimate.priors - found.calibrated_mean.priors).argmax())
    share, low, high = map(percent, (report.priors[k], *report.interval[k].tolist()))
    assert f"; report {share} (95% interval {low} to {high})." in found.say("readings")
    (row,) = (line for line in repr(found).splitlines() if line.startswith(f"  {NAMES[k]} "))
    assert f"{low} to {high}" in row
    assert share in found._repr_html_().partition("Class shares to report")[2]
    np.testing.assert_array_equal(report.source_priors, found.estimate.source_priors)


def test_shares_of_a_target_that_is_all_labelled_are_counted(shifted):
    y_proba_val, y_val, y_proba, y = (part[:400] for part in shifted)
    found = ps.assess(y_proba_val, NAMES[y_val], y_proba, classes=NAMES, y_target=NAMES[y])
    report = found.shares_to_report
    np.testing.assert_allclose(report.priors, np.bincount(y, minlength=NAMES.size) / y.size)
    assert found.say("readings").endswith("(counted: every row has a label).")
    assert "(" not in found.say("measured")
    assert "interval" not in report.in_text()
    assert "interval" not in report.in_html()


def test_results_show_themselves_in_a_notebook_and_to_displays(shifted, found):
    from matplotlib.figure import Figure

    from priorshift.compare import compare
    from priorshift.plotting import ComparisonDisplay, PriorsDisplay

    y_proba_val, y_val, y_proba, _ = shifted
    display = PriorsDisplay.from_estimate(found, ax=Figure().subplots())
    np.testing.assert_array_equal(display.priors, found.shares_to_report.priors)
    compared = compare(y_proba_val, y_val, y_proba, methods=["em", "cm-l"])
    shown = ComparisonDisplay.from_estimates(compared, ax=Figure().subplots())
    assert list(shown.methods) == ["em", "cm-l"]
    monitor = ps.PriorMonitor(ps.SCML()).fit(y_proba_val, y_val)
    step = monitor.update(y_proba[:500], time="may")
    assert "may: 500 rows" in repr(step)


def test_an_expectation_shows_its_value_whatever_it_is_of(shifted):
    y_proba_val, y_val, y_proba, y = shifted
    costs = [[0, 1, 5], [5, 0, 1], [20, 1, 0]]
    found = ps.assess(y_proba_val, y_val, y_proba, costs=costs, y_target=y)
    for one in (found.gain, found.score_before, found.score_after, found.measured.gain):
        assert str(one) == f"{one.value:.4g} ({one.low:.4g} to {one.high:.4g})"
    right = ps.assess(y_proba_val, y_val, y_proba).score_before
    assert str(right).startswith(f"{right.value:.4g} (")


def test_accuracy_says_little_of_a_rare_class(rng):
    """Always answering no is shown beside it, by `assess` and by `compare`."""
    from priorshift.compare import compare

    y_val, y = (rng.random(n) < share for n, share in ((3000, 0.2), (3000, 0.02)))
    y_proba_val, y_proba = (0.2 + 0.1 * rng.random(one.size) + 0.2 * one for one in (y_val, y))
    found = ps.assess(y_proba_val, y_val.astype(int), y_proba)
    share = found.shares_to_report.priors[1]
    assert share < 0.05
    assert f"are “1”, so always answering “0” is right in {1 - share:.0%}" in found.say("rare")
    assert 'goal="log_loss"' in found.say("rare")
    assert not ps.assess(y_proba_val, y_val.astype(int), y_proba, goal="log_loss").say("rare")
    noise = np.full(y.size, 0.3)
    never = compare(y_proba_val, y_val.astype(int), noise, y.astype(int), methods=["na", "em"])
    assert "Never answering “1” is right as often or more often: 98" in never.conclusion


def test_a_gain_is_weighed_by_what_errors_cost_at_the_targets_shares(rng):
    """A third of the whole cost is not too little, however dear an error on a rare class is."""
    y_val, y = (rng.random(n) < share for n, share in ((20000, 0.04), (20000, 0.011)))
    score_val, score = (rng.normal(size=one.size) + 1.5 * one for one in (y_val, y))
    y_proba_val, y_proba = (
        1 / (1 + np.exp(1.125 + np.log(24) - 1.5 * one)) for one in (score_val, score)
    )
    costs = [[0, 1], [20, 0]]
    found = ps.assess(y_proba_val, y_val.astype(int), y_proba, costs=costs, random_state=0)
    told = {one.name: one.numbers for one in found.facts}
    assert told["if_prior_shift"]["high"] > 0.2 * found.score_before.value
    assert found.verdict == "unclear"


def test_the_estimate_says_what_is_done(found):
    assert found.estimate.decision["sentence"] == found.sentence
    assert found.estimate.decision["adapt"]
    rng = np.random.default_rng(2)
    (y_proba_val, y_val), (y_proba, _) = draw(rng, 3000, SOURCE), draw(rng, 3000, TARGET, moved=1.5)
    alone = ps.Auto().fit(y_proba_val, y_val).estimate(y_proba).decision
    assert alone["adapt"]
    unclear = ps.assess(y_proba_val, y_val, y_proba)
    assert unclear.estimate.decision["sentence"] == unclear.sentence
    assert not unclear.estimate.decision["adapt"]
    assert unclear.estimate.decision["strength"] == unclear.estimate.strength == 0


def test_gains_are_possible_and_shares_of_worthless_validation_not_trusted():
    rng = np.random.default_rng(0)
    (y_proba_val, y_val), (y_proba, _) = draw(rng, 300, SOURCE), draw(rng, 300, TARGET)
    found = ps.assess(y_proba_val, rng.permutation(y_val), y_proba)
    assert not found.trusted
    assert "Class shares not to be trusted" in repr(found)
    promised = [one.numbers for one in found.facts if one.name.startswith("if_")]
    assert len(promised) == 2
    assert all(-1 <= one["low"] <= one["high"] <= 1 for one in promised)
    few = ps.assess(y_proba_val[:12], y_val[:12], y_proba[:12])
    for one in few.facts:
        if one.name.startswith("if_"):
            assert -1 <= one.numbers["low"] <= one.numbers["high"] <= 1


def test_what_labels_measure_has_its_interval(rng):
    found, *_ = with_labels(rng, n_labelled=40)
    before, after = found.measured.before, found.measured.after
    said = (
        f"accuracy is {before.value:.1%} ({before.low:.1%} to {before.high:.1%}) before and "
        f"{after.value:.1%} ({after.low:.1%} to {after.high:.1%}) after adapting."
    )
    assert said in " ".join(found.reasons)


@pytest.mark.parametrize("lacking", ["y_proba_val", "y_val", "y_proba_target"])
def test_what_is_missing_is_named(lacking):
    rows = [[0.2, 0.8], [0.7, 0.3]]
    given = {"y_proba_val": rows, "y_val": [1, 0], "y_proba_target": rows}
    del given[lacking]
    with pytest.raises(ValueError, match=f"^{lacking} is missing: pass y_proba_val, y_val and"):
        ps.assess(**given)
