"""The verdict and what it rests on: the assessment's, and the same everywhere on the page."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import priorshift as ps
from priorshift import assessment
from priorshift.assessment import labels_needed, weigh
from priorshift.cli import main
from priorshift.report import render_report
from priorshift.report._words import description
from priorshift.text import number, percent

pytestmark = pytest.mark.usefixtures("blank_figures")


@pytest.fixture(scope="module")
def same(draw):
    """Make a target drawn as validation was."""
    case = draw(["cat", "dog", "hen", "pig"], n_val=1200, n_target=5)
    data = [case.y_proba_val[:600], case.y_val[:600], case.y_proba_val[600:], case.y_val[600:]]
    return replace(case, **dict(zip(case.data, data, strict=True)))


def weighed(case, estimate, **more):
    return weigh(estimate, case.y_proba_val, case.y_val, case.y_proba_target, **more)


def spaced(text):
    """Write spaces that do not break as others."""
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", "")


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


def test_the_verdict_is_that_of_the_assessment(pets, read):
    estimate = pets.estimate()
    page = read(pets.render(y_target=None))
    found = weighed(pets, estimate)
    assert page.data["verdict"] == found.verdict
    assert page.data["reasons"] == list(found.reasons)
    assert found.sentence in spaced(page.texts["verdict"])
    for reason in found.reasons:
        assert reason in page.texts["reasons"]


def test_labels_of_the_target_are_weighed_too(pets, pets_page):
    found = weighed(pets, pets.estimate(), y_target=pets.y_target)
    assert pets_page.data["verdict"] == found.verdict
    assert pets_page.data["accuracy"]["measured"] == found.measured.to_dict()
    for part in (found.measured.before, found.measured.after):
        assert f"labels say {percent(part.value)}" in spaced(pets_page.texts["main"])
    assert percent(found.measured.after.value) in pets_page.texts["labels"]


def test_an_assessment_needs_no_rows(pets, read, tmp_path):
    found = weighed(pets, pets.estimate())
    page = read(found.report(tmp_path / "r.html", title="Pets").read_text(encoding="utf-8"))
    assert page.data["verdict"] == found.verdict
    assert "Calibration and the confusion matrix need y_proba_val" in page.texts["trust"]
    assert "confusion" not in page.texts
    other = ps.PriorEstimate(
        "em", np.array(["a", "b"]), np.full(2, 0.5), np.full(2, 0.5), "given", "direct"
    )
    with pytest.raises(ValueError, match="assessment and estimate have different classes"):
        render_report(other, assessment=found)


def test_the_tests_are_on_the_page(pets, pets_page):
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
    for shown in (
        f"{found.p_value:.3f}",
        percent(found.effect_size),
        f"{percent(low)} to {percent(high)}",
        percent(found.power),
        percent(found.detectable_effect),
        "999 random exchanges",
    ):
        assert shown in text
    assert f"{found.assumption.p_value:.2f}" in pets_page.texts["assumption"]
    assert pets_page.data["shift_test"] == found.to_dict()


def test_diagnostics_are_on_the_page(pets, pets_page):
    estimate = pets.estimate()
    before, after = by_hand(pets, estimate)
    soft = np.array([pets.y_proba_val[pets.y_val == c].mean(axis=0) for c in pets.classes]).T
    singular = np.linalg.svd(soft, compute_uv=False)
    counts = np.array([(pets.y_val == c).sum() for c in pets.classes])
    size = 1 / (estimate.priors**2 / counts).sum()
    text, data = pets_page.texts["sample"], pets_page.data["diagnostics"]
    for value, name in (
        (singular[-1], "smallest_singular_value"),
        (singular[0] / singular[-1], "condition_number"),
        (size, "effective_sample_size"),
    ):
        assert data[name] == pytest.approx(value)
        assert number(value) in text
    assert data["accuracy_before"]["value"] == pytest.approx(before)
    # less what priors that were estimated from the same rows flatter themselves by
    assert data["accuracy_after"]["value"] == pytest.approx(after, abs=0.02)
    assert "tells every two classes apart" in text
    shown = pets_page.data["accuracy"]
    assert shown["before"]["value"] == pytest.approx(before)
    gain = pets_page.data["gain"]["value"]
    assert shown["after"]["value"] == pytest.approx(before + gain)
    assert f"{100 * shown['before']['value']:.0f}" in pets_page.texts["main"]


def test_intervals_are_in_the_table_and_in_the_picture(pets, read):
    estimator = ps.SCML().fit(pets.y_proba_val, pets.y_val, classes=pets.classes)
    estimate = estimator.estimate(pets.y_proba_target, confidence_level=0.9, random_state=0)
    page = read(render_report(estimate, **pets.data))
    assert list(page.values("priors-table", "Lower").values()) == pytest.approx(
        estimate.interval[:, 0], rel=1e-5
    )
    assert "bounds of each share at 90% confidence." in page.texts["changed"]
    assert "90% interval" in page.texts["shares"]
    assert "as exact" not in page.texts["sample"]
    trusting = replace(estimate, method="em")
    assert "suppose that the predicted" in read(render_report(trusting)).texts["changed"]
    assert "point estimates" in read(render_report(pets.estimate())).texts["changed"]


def test_leave_says_so_all_over_the_page(same, read):
    estimator = ps.Auto(random_state=0).fit(same.y_proba_val, same.y_val, classes=same.classes)
    page = read(render_report(estimator.estimate(same.y_proba_target), **same.data))
    assert page.data["verdict"] == "leave"
    assert "Leave the predictions as they are" in page.texts["verdict"]
    assert "No class clearly grew or shrank" in page.texts["shares"]
    assert "Keep the predictions" in page.texts["next"]
    assert "priorshift assess" in page.texts["next"]
    for verb in ("Adapting changes ", ".adapt(", "Accuracy after adapting"):
        assert verb not in page.texts["main"].replace("Adapting changes no", "")


def test_unclear_says_what_would_make_it_clear(pets, read):
    found = replace(weighed(pets, pets.estimate()), verdict="unclear", advice="More rows.")
    page = read(render_report(found.estimate, assessment=found, y_proba_target=pets.y_proba_target))
    assert page.data["verdict"] == "unclear"
    changed = page.data["decisions"]["n_changed"] / 500
    needed = labels_needed(found.gain.value, changed)
    words = f"Label about {needed:,} target rows" if needed <= 500 else "Get more data"
    assert words in page.texts["next"]
    assert "More rows." in page.texts["next"]
    assert "would change" in page.texts["changed"]


def test_labels_needed_tell_a_gain_four_times_out_of_five():
    """Simulate decisions that change by 1, 0 or -1, and count how often the gain is seen."""
    rng = np.random.default_rng(0)
    gain, changed = 0.04, 0.16
    n = labels_needed(gain, changed)
    chances = [(changed + gain) / 2, (changed - gain) / 2, 1 - changed]
    up, down, _ = rng.multinomial(n, chances, size=20_000).T
    mean = (up - down) / n
    error = np.sqrt(((up + down) / n - mean**2) / n)
    assert np.mean(mean > assessment.CAUTION * error) == pytest.approx(0.8, abs=0.02)


def test_strength_is_told(pets):
    half = replace(pets.estimate(), strength=0.5)
    assert "to the power of 0.500, and" in render_report(half)


def test_the_null_hypothesis_can_be_given(pets, read):
    null = dict(zip(pets.classes.tolist(), [0.1, 0.2, 0.3, 0.4], strict=True))
    page = read(pets.render(source_label_priors=null))
    assert page.data["shift_test"]["source_label_priors"] == pytest.approx(null)
    with pytest.raises(ValueError, match="source_label_priors"):
        pets.render(source_label_priors=[0.5, 0.5])


def test_classes_that_cannot_be_told_apart_are_named(read):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    proba = np.array([[0.4, 0.4, 0.2], [0.4, 0.4, 0.2], [0.1, 0.1, 0.8]])[y]
    noise = rng.uniform(0, 0.05, 300)
    proba = proba + np.column_stack([noise, -noise, np.zeros(300)])
    names = np.array(["<a>", "b", "c"])
    estimate = ps.EM().fit(proba, names[y], classes=names).estimate(proba)
    page = read(render_report(estimate, y_proba_val=proba, y_val=names[y], y_proba_target=proba))
    assert "1 pair of 3 classes cannot be told apart" in page.texts["next"]
    assert "“<a>” and “b”." in page.texts["next"]
    assert page.data["diagnostics"]["confusable"] == [["<a>", "b"]]
    assert page.data["diagnostics"]["n_confusable"] == 1


def test_too_little_data_is_said(pets, read):
    page = read(pets.render(y_proba_target=pets.y_proba_target[:1], y_target=pets.y_target[:1]))
    assert "There is no test" in page.texts["shift"]
    assert page.data["shift_test"] is page.data["diagnostics"] is None


@pytest.mark.parametrize(
    ("limit", "value", "check", "words"),
    [
        ("MOST_CLASSES", 3, "shift", "The tests are left out"),
        ("MOST_CLASSES_OF_ASSUMPTION", 3, "assumption", "is not tested here"),
        ("MANY_NUMBERS", 9999, "shift", "199 random exchanges"),
    ],
)
def test_what_takes_too_long_is_left_out_and_said(
    pets, read, monkeypatch, limit, value, check, words
):
    monkeypatch.setattr(assessment, limit, value)
    page = read(pets.render())
    assert words in page.texts[check]
    assert page.data["diagnostics"] is not None


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
    assert f"--target {tmp_path / 'target.csv'}" in page.texts["next"]
