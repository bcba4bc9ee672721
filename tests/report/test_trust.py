"""What the report says of shift, trust and Auto's decision: true, and the same everywhere."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import priorshift as ps
from priorshift.cli import main
from priorshift.report import _facts, render_report
from priorshift.report._words import description
from priorshift.text import number, percent, points

pytestmark = pytest.mark.usefixtures("blank_figures")


@pytest.fixture(scope="module")
def same(draw):
    """Make a target drawn as validation was."""
    case = draw(["cat", "dog", "hen", "pig"], n_val=1200, n_target=5)
    data = [case.y_proba_val[:600], case.y_val[:600], case.y_proba_val[600:], case.y_val[600:]]
    return replace(case, **dict(zip(case.data, data, strict=True)))


@pytest.fixture(scope="module")
def verdict(read):
    """Return the text of the verdict, cautions included."""
    return lambda estimate, **data: read(render_report(estimate, **data)).texts["verdict"]


def auto(case):
    estimator = ps.Auto(random_state=0).fit(case.y_proba_val, case.y_val, classes=case.classes)
    return estimator.estimate(case.y_proba_target)


def by_hand(case, estimate):
    """Return expected accuracy before and after, class by class."""
    scores = []
    for proba in (case.y_proba_val, estimate.adapt(case.y_proba_val)):
        right = case.classes[proba.argmax(axis=1)] == case.y_val
        by_class = np.array([right[case.y_val == name].mean() for name in case.classes])
        scores.append(float(estimate.priors @ by_class))
    return scores


def test_every_method_is_described():
    assert all(map(description, ps.available_estimators()))


def test_the_shift_test_is_on_the_page(pets, pets_page):
    found = ps.detect_shift(
        pets.y_proba_val,
        pets.y_val,
        pets.y_proba_target,
        classes=pets.classes,
        assumption=True,
        random_state=0,
    )
    text = pets_page.texts["shift"]
    low, high = found.effect_interval
    assert found.verdict in text
    assert found.assumption.verdict in text
    for shown in (
        f"{found.p_value:.3f}",
        number(found.effect_size),
        f"{number(low, 2)} to {number(high, 2)}",
        percent(found.power),
        number(found.detectable_effect),
        "999 random exchanges",
    ):
        assert shown in text
    assert pets_page.data["shift_test"] == found.to_dict()
    assert pets_page.data["skipped"] == []


def test_diagnostics_are_on_the_page(pets, pets_page):
    estimate = pets.estimate()
    before, flattered = by_hand(pets, estimate)
    validation = pets.y_proba_val, pets.y_val
    found = ps.diagnose(*validation, pets.y_proba_target, estimate, classes=pets.classes)
    after = found.accuracy_after.value
    assert after == pytest.approx(flattered, abs=0.1)  # less its optimism
    soft = np.array([pets.y_proba_val[pets.y_val == c].mean(axis=0) for c in pets.classes]).T
    singular = np.linalg.svd(soft, compute_uv=False)
    counts = np.array([(pets.y_val == c).sum() for c in pets.classes])
    size = 1 / (estimate.priors**2 / counts).sum()
    text, data = pets_page.texts["trust"], pets_page.data["diagnostics"]
    for value, name, show in (
        (singular[-1], "smallest_singular_value", number),
        (singular[0] / singular[-1], "condition_number", number),
        (size, "effective_sample_size", number),
    ):
        assert data[name] == pytest.approx(value)
        assert show(value) in text
    for value, name in ((before, "accuracy_before"), (after, "accuracy_after")):
        bounds = data[name]
        assert bounds["value"] == pytest.approx(value)
        assert f"{percent(value)} ({percent(bounds['low'])} to {percent(bounds['high'])})" in text
    low, high = data["accuracy_gain"]["low"], data["accuracy_gain"]["high"]
    assert low < 0 < high
    size = f"{points(after - before)} points, {points(low)} to {points(high)}"
    assert f"Whether adapting helps cannot be told from these data ({size})" in text
    assert "tells every two classes apart" in text


def test_intervals_take_the_noise_of_the_priors_in(pets, read):
    estimator = ps.SCML().fit(pets.y_proba_val, pets.y_val, classes=pets.classes)
    estimate = estimator.estimate(pets.y_proba_target, confidence_level=0.9, random_state=0)
    page = read(render_report(estimate, **pets.data))
    assert list(page.values("priors-table", "Lower").values()) == pytest.approx(
        estimate.interval[:, 0], rel=1e-5
    )
    assert "bounds of each prior at 90% confidence." in page.texts["priors"]
    assert "point estimates" not in page.texts["verdict"]
    trusting = replace(estimate, method="em")
    assert "suppose that the predicted" in read(render_report(trusting)).texts["priors"]


def test_auto_that_adapts_says_so(pets, read):
    estimate = auto(pets)
    assert estimate.decision["adapt"]
    page = read(render_report(estimate, **pets.data))
    text = page.texts["verdict"]
    assert estimate.decision["sentence"] in text
    # how far the balance moved is for everyone, what was done about it for those who read on
    assert text.index("By this estimate") < text.index(estimate.decision["sentence"])
    changed = estimate.adapt(pets.y_proba_target).argmax(axis=1) != pets.y_proba_target.argmax(
        axis=1
    )
    assert f"changes {changed.sum()} of 500 decisions" in page.texts["decisions"]
    assert "left alone" not in page.texts["main"]
    assert page.data["estimate"]["decision"]["sentence"] == estimate.decision["sentence"]
    assert ("calibrated probabilities" in page.texts["priors"]) == (estimate.calibrator is not None)


def test_predictions_left_alone_stay_so_all_over_the_page(same, read):
    estimate = auto(same)
    assert estimate.strength == 0
    page = read(render_report(estimate, **same.data))
    assert estimate.decision["sentence"] in page.texts["verdict"]
    assert "Predictions are left alone: the 600 decisions" in page.texts["verdict"]
    assert "600 decisions and all probabilities stay as they are" in page.texts["decisions"]
    assert page.data["decisions"]["n_changed"] == 0
    assert "it does not touch them" in page.texts["priors"]
    assert "the same predictions" in page.texts["labels"]
    assert (
        page.column("truth-table", "Before")["Accuracy"]
        == (page.column("truth-table", "After")["Accuracy"])
    )
    assert "Predictions are left alone, and " in page.texts["trust"]
    assert "No evidence of a shift" in page.texts["shift"]
    assert "dapting" not in page.texts["verdict"] + page.texts["decisions"] + page.texts["labels"]


def test_strength_without_a_decision(pets, verdict):
    half, none = (replace(pets.estimate(), strength=value) for value in (0.5, 0.0))
    assert "Predictions are left alone: this estimate sees no evidence" in verdict(none)
    assert "left alone" not in verdict(half)
    assert "to the power of 0.500, before" in render_report(half)


def test_no_evidence_yet_decisions_change(same, verdict):
    moved = replace(same.estimate(), priors=np.array([0.7, 0.1, 0.1, 0.1]))
    words = verdict(moved, **same.data)
    assert "no evidence of a shift, yet adapting changes decisions" in words
    own = verdict(auto(same), **same.data)
    assert "yet adapting" not in own


def test_expected_help_and_harm(pets, read):
    """Adapt probabilities near 1/K, as boosting gives them: the ratio outweighs them all."""
    flat = {**pets.data, "y_proba_val": 0.05 * pets.y_proba_val + 0.95 / 4}
    known = ps.PriorEstimate(
        "known", pets.classes, np.array([0.4, 0.2, 0.2, 0.2]), np.full(4, 0.25), "given", "direct"
    )
    page = read(render_report(known, **flat))
    before, after = by_hand(replace(pets, **flat), known)
    assert after == pytest.approx(0.4)
    assert f"expected to harm ({points(0.4 - before)} points" in page.texts["trust"]
    lower = f"lower accuracy on the target, by {number(100 * (before - 0.4))} percentage points"
    assert lower in page.texts["verdict"]
    far = replace(known, priors=np.array([0.85, 0.05, 0.05, 0.05]))
    page = read(render_report(far, **pets.data))
    assert "expected to help (" in page.texts["trust"]
    assert "expected to lower" not in page.texts["verdict"]


def test_more_than_prior_shift_is_a_caution(pets, verdict):
    unsure = {**pets.data, "y_proba_target": pets.y_proba_target * 0.6 + 0.1}
    assert "not explained by a change of priors alone" in verdict(pets.estimate(), **unsure)
    assert "not explained" not in verdict(pets.estimate(), **pets.data)


def test_the_null_hypothesis_can_be_given(pets, read):
    null = dict(zip(pets.classes.tolist(), [0.1, 0.2, 0.3, 0.4], strict=True))
    page = read(pets.render(source_label_priors=null))
    assert page.data["shift_test"]["source_label_priors"] == pytest.approx(null)
    assert "compared with that of the label frequencies given" in page.texts["shift"]
    with pytest.raises(ValueError, match="source_label_priors"):
        pets.render(source_label_priors=[0.5, 0.5])


def test_validation_of_another_balance_is_noted(pets, read):
    given = replace(
        pets.estimate(), source_priors=np.array([0.7, 0.1, 0.1, 0.1]), source_priors_from="given"
    )
    page = read(render_report(given, **pets.data))
    assert "Validation's mean prediction is" in page.texts["shift"]


def test_classes_that_cannot_be_told_apart_are_named(read):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    proba = np.array([[0.4, 0.4, 0.2], [0.4, 0.4, 0.2], [0.1, 0.1, 0.8]])[y]
    noise = rng.uniform(0, 0.05, 300)
    proba = proba + np.column_stack([noise, -noise, np.zeros(300)])
    names = np.array(["<a>", "b", "c"])
    estimate = ps.EM().fit(proba, names[y], classes=names).estimate(proba)
    page = read(render_report(estimate, y_proba_val=proba, y_val=names[y], y_proba_target=proba))
    assert "1 pair of 3 classes cannot be told apart" in page.texts["trust"]
    assert "“<a>” and “b”." in page.texts["trust"]
    assert page.data["diagnostics"]["confusable"] == [["<a>", "b"]]
    assert page.data["diagnostics"]["n_confusable"] == 1


def test_too_little_data_is_said(pets, read):
    page = read(pets.render(y_proba_target=pets.y_proba_target[:1], y_target=pets.y_target[:1]))
    assert page.texts["shift"].count("which show no spread") == 2
    assert "trust" not in page.texts
    assert page.data["shift_test"] is page.data["diagnostics"] is None


@pytest.mark.parametrize(
    ("limit", "value", "words"),
    [
        ("MOST_CLASSES", 3, "The tests are left out"),
        ("MOST_ENTRIES", 9999, "The tests are left out"),
        ("MOST_CLASSES_OF_ASSUMPTION", 3, "Whether only the priors changed is not tested"),
        ("MANY_ENTRIES", 9999, "199 random exchanges"),
    ],
)
def test_what_takes_too_long_is_left_out_and_said(pets, read, monkeypatch, limit, value, words):
    monkeypatch.setattr(_facts, limit, value)
    page = read(pets.render())
    assert words in page.texts["shift"]
    assert (page.data["shift_test"] is None) == ("tests" in words)
    assert page.data["diagnostics"] is not None
    assert page.texts["trust"]


def test_adapted_validation_that_warns_is_in_the_warnings(read):
    proba = np.array([[1.0, 0.0], [0.9, 0.1], [0.2, 0.8], [0.4, 0.6]])
    known = ps.PriorEstimate(
        "known", np.array(["a", "b"]), np.array([0.0, 1.0]), np.full(2, 0.5), "given", "direct"
    )
    page = read(
        render_report(
            known, y_proba_val=proba, y_val=["a", "a", "b", "b"], y_proba_target=proba[1:]
        )
    )
    assert "On validation: 1 of 4 rows have no class left" in page.texts["warnings"]


def test_the_command_asks_for_intervals(pets, read, tmp_path):
    for name, proba, y in (
        ("validation", pets.y_proba_val, pets.y_val),
        ("target", pets.y_proba_target, None),
    ):
        frame = pd.DataFrame(proba, columns=pets.classes)
        frame = frame if y is None else frame.assign(label=y)
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    files = [f"--{name}={tmp_path / f'{name}.csv'}" for name in ("validation", "target")]
    output = tmp_path / "report.html"
    asked = ["--method=scm-l", "--confidence-level=0.9", f"--output={output}"]
    result = CliRunner().invoke(main, ["report", *files, *asked], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    page = read(output.read_text(encoding="utf-8"))
    estimator = ps.SCML().fit(pets.y_proba_val, pets.y_val, classes=pets.classes)
    estimate = estimator.estimate(pets.y_proba_target, confidence_level=0.9, random_state=0)
    assert list(page.values("priors-table", "Upper").values()) == pytest.approx(
        estimate.interval[:, 1], rel=1e-4
    )
    assert "--confidence-level 0.9" in page.texts["reproduce"]
