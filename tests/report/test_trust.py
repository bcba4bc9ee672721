"""The verdict and what it rests on: the assessment's, and the same everywhere on the page."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss

import priorshift as ps
from priorshift import assessment
from priorshift.adapt import IN_POINTS
from priorshift.cli import main
from priorshift.estimators import traits_of
from priorshift.report import render_report
from priorshift.text import number, numbers, percent, percents, short_percent
from priorshift.words import fact

pytestmark = pytest.mark.usefixtures("blank_figures")


@pytest.fixture(scope="module")
def same(draw):
    """Make a target drawn as validation was."""
    case = draw(["cat", "dog", "hen", "pig"], n_val=1200, n_target=5)
    data = [case.y_proba_val[:600], case.y_val[:600], case.y_proba_val[600:], case.y_val[600:]]
    return replace(case, **dict(zip(case.data, data, strict=True)))


def weighed(case, estimate, **more):
    rows = case.y_proba_val, case.y_val, case.y_proba_target
    return ps.assess(*rows, method=estimate, **more)


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
    assert all(traits_of(name).summary for name in ps.available_estimators())


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
    assert pets_page.data["measured"] == found.measured.to_dict()
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
    for shown in (
        f"{found.p_value:.3f}",
        percent(found.power),
        percent(found.detectable_effect),
        "999 random exchanges",
    ):
        assert shown in text
    p_value = pets_page.data["assumption_test"]["p_value"]
    assert f"{p_value:.3f}" in pets_page.texts["assumption"]
    assert f"{pets_page.data['explained']:.0%}" in pets_page.texts["assumption"]


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
    assert pets_page.data["score_before"]["value"] == pytest.approx(before)
    gain = pets_page.data["gain"]["value"]
    assert pets_page.data["score_after"]["value"] == pytest.approx(before + gain)
    assert f"{100 * before:.0f}" in pets_page.texts["main"]


def test_intervals_are_in_the_table_and_in_the_picture(pets, read):
    estimator = ps.SCML().fit(pets.y_proba_val, pets.y_val, classes=pets.classes)
    estimate = estimator.estimate(pets.y_proba_target, confidence_level=0.9, random_state=0)
    page = read(render_report(estimate, **pets.data | {"y_target": None}))
    bounds = page.data["shares_to_report"]["interval"]
    assert page.values("priors-table", "Lower") == pytest.approx(
        {name: low for name, (low, _) in bounds.items()}, rel=1e-5
    )
    readings = page.column("priors-table", "If classes look as before")
    for k, name in enumerate(pets.classes):
        assert f"to {short_percent(estimate.interval[k, 1])})" in readings[name]
    assert "bounds of each share at 90% confidence." in page.texts["changed"]
    assert "90% interval" in page.texts["shares"]
    assert "as exact" not in page.texts["sample"]
    trusting = replace(estimate, method="em")
    assert "assume that the predicted" in read(render_report(trusting)).texts["changed"]
    assert "point estimates" in read(render_report(pets.estimate())).texts["changed"]


def test_leave_says_so_all_over_the_page(same, read):
    estimator = ps.Auto(random_state=0).fit(same.y_proba_val, same.y_val, classes=same.classes)
    data = {**same.data, "y_target": None}
    page = read(render_report(estimator.estimate(same.y_proba_target), **data))
    assert page.data["verdict"] == "leave"
    assert "Leave the predictions as they are" in page.texts["verdict"]
    assert "No class clearly grew or shrank" in page.texts["shares"]
    assert "Keep the predictions" in page.texts["next"]
    assert "priorshift assess" in page.texts["next"]
    for verb in ("Adapting changes ", ".adapt(", "Accuracy after adapting"):
        assert verb not in page.texts["main"].replace("Adapting changes no", "")


def test_unclear_says_what_would_make_it_clear(pets, read):
    found = replace(
        weighed(pets, pets.estimate()),
        verdict="unclear",
        action="none",
        facts=(fact("label_rows", n=40, more=False),),
    )
    page = read(render_report(found.estimate, assessment=found, y_proba_target=pets.y_proba_target))
    assert page.data["verdict"] == "unclear"
    assert page.texts["next-heading"].endswith("Label 40 rows to settle it")
    assert "found.rows_to_label(y_proba_target, n=40)" in page.texts["next"]
    assert "--rows-to-label todo.csv" in page.texts["next"]
    assert "would change" in page.texts["changed"]


def test_strength_is_told(pets):
    half = replace(pets.estimate(), strength=0.5)
    assert "to the power of 0.500, and" in render_report(half)


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


@pytest.fixture(scope="module")
def files(pets, tmp_path_factory):
    """Write the pets to files; return the options that name them."""
    folder = tmp_path_factory.mktemp("pets")
    for name, proba, y in (
        ("validation", pets.y_proba_val, pets.y_val),
        ("target", pets.y_proba_target, None),
    ):
        frame = pd.DataFrame(proba, columns=pets.classes)
        frame = frame if y is None else frame.assign(label=y)
        frame.to_csv(folder / f"{name}.csv", index=False)
    (folder / "costs.json").write_text('{"cat": {"dog": 5}}')
    return folder, [f"--{name}={folder / f'{name}.csv'}" for name in ("validation", "target")]


def run(*arguments):
    result = CliRunner().invoke(main, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_asks_for_intervals(pets, read, files):
    folder, data = files
    output = folder / "report.html"
    run("report", *data, "--method=scm-l", "--confidence-level=0.9", f"--output={output}")
    page = read(output.read_text(encoding="utf-8"))
    estimator = ps.SCML().fit(pets.y_proba_val, pets.y_val, classes=pets.classes)
    estimate = estimator.estimate(pets.y_proba_target, confidence_level=0.9, random_state=0)
    readings = page.column("priors-table", "If classes look as before")
    for k, name in enumerate(pets.classes):
        assert f"to {short_percent(estimate.interval[k, 1])})" in readings[name]
    assert "--confidence-level 0.9" in page.texts["reproduce"]
    assert f"--target {folder / 'target.csv'}" in page.texts["next"]
    assert page.data["title"] == "Class balance in target.csv"


@pytest.mark.parametrize("costs", [False, True])
def test_the_page_and_the_command_agree_on_every_number(read, files, costs):
    folder, data = files
    data = [*data, f"--costs={folder / 'costs.json'}"] if costs else data
    said = json.loads(run("assess", *data, "--json"))
    run("report", *data, f"--output={folder / 'r.html'}")
    page = read((folder / "r.html").read_text(encoding="utf-8"))
    for name in (
        "verdict",
        "sentence",
        "reasons",
        "goal",
        "gain",
        "score_before",
        "score_after",
        "shift_test",
    ):
        assert page.data[name] == said[name], name
    assert page.data["estimate"] == said["estimate"]
    n_pairs = len(said["diagnostics"]["confusable"])
    assert page.data["diagnostics"] == {**said["diagnostics"], "n_confusable": n_pairs}
    # and what a reader sees of them
    assert said["goal"] == ("cost" if costs else "accuracy")
    values = [said[name]["value"] for name in ("score_before", "score_after")]
    main_text, show = spaced(page.texts["main"]), numbers if costs else percents
    assert all(value in main_text for value in show(*values))
    for column, part, name in (
        ("Now", "shares_to_report", "priors"),
        ("Before", "estimate", "source_priors"),
        ("If classes look as before", "estimate", "priors"),
        ("If predictions mean as before", "calibrated_mean", "priors"),
    ):
        assert page.values("priors-table", column) == pytest.approx(said[part][name], rel=1e-5)
    bounds = said["shares_to_report"]["interval"]
    assert page.values("priors-table", "Lower") == pytest.approx(
        {name: low for name, (low, _) in bounds.items()}, rel=1e-5
    )
    assert f"(p = {said['shift_test']['p_value']:.3f})" in main_text


def test_labels_to_ask_for_are_planned(pets, read, files):
    folder, data = files
    words = [word.partition("=")[2] for word in data]  # as people type them: no --validation
    run("report", *words, f"--output={folder / 'r.html'}")
    page = read((folder / "r.html").read_text(encoding="utf-8"))
    sensible, half = page.data["labels_needed"]
    assert sensible["width"] == 0.04
    bounds = np.array(list(page.data["shares_to_report"]["interval"].values()))
    widest = (bounds[:, 1] - bounds[:, 0]).max()
    assert half["width"] == pytest.approx(widest / 2, rel=0.05)
    assert sensible["with_predictions"] < sensible["labels"]
    shown = page.column("plan-table", "Labels")
    assert shown["±2 points"] == f"{sensible['labels']:,}"
    assert list(shown.values())[1] == f"{half['labels']:,}"
    labels = pd.Categorical(pets.y_val, pets.classes).codes.astype(int)
    again = ps.labels_needed(
        width=0.04,
        priors=list(page.data["shares_to_report"]["priors"].values()),
        confusion=ps.Confusion.from_arrays(pets.y_proba_val, labels, decision="hard"),
    )
    assert int(again) == sensible["labels"]
    assert again.with_predictions == sensible["with_predictions"]


def test_nothing_is_planned_where_all_is_known(pets, read):
    counted, asked = read(pets.render()), read(pets.render(y_target=None))
    assert "plan" not in counted.texts  # every row has a label
    assert "plan" in asked.texts
    sentence = "Lower and upper are bounds of each share"
    assert (sentence in counted.texts["changed"], sentence in asked.texts["changed"]) == (0, 1)


@pytest.mark.parametrize(
    ("K", "largest", "width"),
    [(2, 0.6, 0.04), (10, 0.2, 0.04), (100, 0.05, 0.02), (1000, 0.006, 0.002)],
)
def test_the_width_to_plan_for_suits_the_shares(K, largest, width, read):
    shares = np.array([largest, *[(1 - largest) / (K - 1)] * (K - 1)])
    estimate = ps.PriorEstimate(
        "em", np.arange(K), shares, np.full(K, 1 / K), "given", "direct", n_target=5000
    )
    page = read(render_report(estimate))
    (plan,) = page.data["labels_needed"]
    assert plan["width"] == width
    assert plan["labels"] == ps.labels_needed(width=width, priors=shares)
    assert f"±{50 * width:g} points" in page.texts["plan"]


GOALS = {
    "accuracy": ({}, "Accuracy", "accuracy"),
    "balanced_accuracy": (
        {"goal": "balanced_accuracy"},
        "Balanced accuracy",
        "balanced accuracy",
    ),
    "log_loss": ({"goal": "log_loss"}, "Log loss", "log loss"),
    "cost": ({"costs": {("cat", "dog"): 5}}, "Cost per case", "the expected cost per case"),
}


@pytest.fixture(scope="module", params=GOALS)
def judged(request, pets):
    """Assess the pets by one of the goals, with labels of the target."""
    given = GOALS[request.param][0]
    rows = (pets.y_proba_val, pets.y_val, pets.y_proba_target)
    return ps.assess(*rows, classes=pets.classes, method="scm-l", y_target=pets.y_target, **given)


def per_class(case, y_proba, found):
    """Return each class's mean score on validation, as scikit-learn and the costs define it."""
    at = np.searchsorted(case.classes, case.y_val)
    if found.goal == "log_loss":
        scores = -np.log(y_proba[np.arange(at.size), at])
    elif found.goal == "cost":
        scores = found.costs[at, (y_proba @ found.costs).argmin(axis=1)]
    else:
        scores = y_proba.argmax(axis=1) == at
    return np.array([scores[at == k].mean() for k in range(case.classes.size)])


def test_the_score_to_expect_is_that_of_the_goal(pets, judged):
    means = per_class(pets, pets.y_proba_val, judged)
    balanced = judged.goal == "balanced_accuracy"
    shares = np.full(4, 0.25) if balanced else judged.estimate.priors
    assert judged.score_before.value == pytest.approx(shares @ means)
    gain = judged.gain.value if judged.judged_by.name in IN_POINTS else -judged.gain.value
    assert judged.score_after.value == pytest.approx(judged.score_before.value + gain)
    for score in (judged.score_before, judged.score_after):
        assert score.low < score.value < score.high


def test_labels_measure_the_goal(pets, judged):
    y = np.searchsorted(pets.classes, pets.y_target)
    measured = judged.measured
    adapted = replace(judged.estimate, strength=1.0).adapt(pets.y_proba_target)
    for found, proba in ((measured.before, pets.y_proba_target), (measured.after, adapted)):
        decided = proba.argmax(axis=1)
        expected = {
            "accuracy": lambda d=decided: accuracy_score(y, d),
            "balanced_accuracy": lambda d=decided: balanced_accuracy_score(y, d),
            "log_loss": lambda p=proba: log_loss(y, p),
            "cost": lambda p=proba: judged.costs[y, (p @ judged.costs).argmin(axis=1)].mean(),
        }[judged.goal]()
        # balanced accuracy weighs classes by estimated shares, where labels are drawn by strata
        rough = judged.goal == "balanced_accuracy"
        assert found.value == pytest.approx(expected, rel=0.02 if rough else 1e-6)
    better = measured.after.value - measured.before.value
    sign = 1 if judged.judged_by.name in IN_POINTS else -1
    assert measured.gain.value == pytest.approx(sign * better)


def test_the_page_speaks_of_what_was_judged(pets, judged, read, tmp_path):
    _, tile, word = GOALS[judged.goal]
    path = judged.report(tmp_path / "r.html", **pets.data)
    page = read(path.read_text(encoding="utf-8"))
    main = page.texts["main"].partition("Class shares, before and now")[0]
    values = [judged.score_before.value, judged.score_after.value]
    shown = percents(*values) if judged.judged_by.name in IN_POINTS else numbers(*values)
    for when, value in zip(
        ("now", "after (?:adapting|calibrating)|if adapted"), shown, strict=True
    ):
        assert re.search(rf"{tile} ({when}){re.escape(value)}", main), main
    assert f"adapting takes {word} from" in page.texts["labels"]
    assert page.data["goal"] == judged.goal
    assert page.data["score_before"] == judged.score_before.to_dict()
    assert page.data["score_after"] == judged.score_after.to_dict()
    named = {"cost": "costs=costs"}.get(judged.goal, f'goal="{judged.goal}"')
    assert (named in page.texts["next"]) == (judged.goal != "accuracy")
    option = {"cost": "--costs costs.csv"}.get(judged.goal, f"--goal {judged.goal}")
    assert (option in page.texts["next"]) == (judged.goal != "accuracy")
    if judged.goal != "accuracy":
        said = [page.texts["verdict"], main, page.texts["reasons"], judged.sentence, repr(judged)]
        accuracy = re.compile(r"(?<!balanced )accuracy", re.IGNORECASE)
        assert not any(accuracy.search(text) for text in said)
        assert not accuracy.search(judged._repr_html_())
    assert ("lower is better" in main) == (judged.judged_by.name not in IN_POINTS)


def test_decisions_are_those_that_costs_ask_for(pets, read, tmp_path):
    costs = np.ones((4, 4)) - np.eye(4)
    costs[0] = [0, 30, 30, 30]
    rows = (pets.y_proba_val, pets.y_val, pets.y_proba_target)
    found = ps.assess(*rows, classes=pets.classes, method="scm-l", costs=costs)
    page = read(found.report(tmp_path / "r.html", **pets.data).read_text(encoding="utf-8"))
    decided = [
        ps.decide(proba, costs)
        for proba in (
            pets.y_proba_target,
            replace(found.estimate, strength=1.0).adapt(pets.y_proba_target),
        )
    ]
    counts = [np.bincount(d, minlength=4).tolist() for d in decided]
    assert counts[0] != np.bincount(pets.y_proba_target.argmax(axis=1), minlength=4).tolist()
    assert [page.data["decisions"][name] for name in ("before", "after")] == counts
    y = np.searchsorted(pets.classes, pets.y_target)
    sides = [page.data["target_labels"][name]["cost"] for name in ("before", "after")]
    assert sides == pytest.approx([costs[y, d].mean() for d in decided])


def test_log_loss_needs_probabilities(pets):
    decided = pets.classes[pets.y_proba_val.argmax(axis=1)]
    with pytest.raises(ValueError, match="needs probabilities"):
        ps.assess(y_pred_val=decided, y_val=pets.y_val, y_pred_target=decided, goal="log_loss")


@pytest.fixture(scope="module")
def decided(pets):
    """Assess decisions without probabilities, some of the target's with labels."""
    val, target = (
        pets.classes[proba.argmax(axis=1)] for proba in (pets.y_proba_val, pets.y_proba_target)
    )
    given = {"y_pred_val": val, "y_val": pets.y_val, "y_pred_target": target}
    return ps.assess(**given, classes=pets.classes), given


def test_the_first_screen_of_decisions_is_about_shares(decided, read, tmp_path):
    found, given = decided
    for data in (given, {}):  # rows, or the assessment alone
        page = read(found.report(tmp_path / "r.html", **data).read_text(encoding="utf-8"))
        assert found.sentence in spaced(page.texts["verdict"])
        first = spaced(page.texts["main"].partition("What changed")[0])
        assert "Accuracy" not in first
        assert f"Decisions that are right{found.score_before.value:.0%}" in first
        counted = np.array([np.mean(given["y_pred_target"] == c) for c in found.estimate.classes])
        off = np.abs(counted - found.estimate.priors).sum() / 2
        assert f"Counting decisions is off by{short_percent(off)}" in first
        assert "Did only the balance change?cannot tell" in first
        assert "decisions as counted" in first
        assert list(page.values("priors-table", "Decided").values()) == pytest.approx(
            counted, rel=1e-5
        )
        assert "Report the corrected shares" in page.texts["next"]
        assert "shares_to_report" in page.texts["next"]
        assert "priorshift estimate" in page.texts["next"]
        assert "too few rows" not in page.texts["assumption"]
        assert "2 checks are good, 1 not possible" in page.texts["trust"]


def test_labels_tell_whether_decisions_still_err_as_they_did(decided, pets, read, tmp_path):
    _, given = decided
    for truth, words in (
        (pets.y_target, "decisions err as on validation"),
        (
            np.random.default_rng(0).permutation(pets.y_target),
            "decisions err differently than on validation",
        ),
    ):
        some = np.where(np.arange(500) < 200, truth.astype(object), None)
        found = ps.assess(**given, classes=pets.classes, y_target=some)
        page = read(found.report(tmp_path / "r.html", **given).read_text(encoding="utf-8"))
        assert words in page.texts["main"]
        shares = found.shares_to_report.priors
        assert f"{short_percent(shares[np.argmax(np.abs(shares - found.decided_shares))])}" in (
            found.sentence
        )
        # the page shows the shares that the sentence says to report
        assert list(page.values("priors-table", "Now").values()) == pytest.approx(shares, rel=1e-5)
        assert "By labels (PPI)" in [text for text, _ in page.tables["priors-table"][0]]
        assert "You have 200 labels already." in page.texts["plan"]
