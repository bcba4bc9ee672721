"""The numbers on the page are the numbers of the data, computed here in another way."""

import json
from collections import Counter

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, confusion_matrix, log_loss

import priorshift as ps
from priorshift.plotting import ReliabilityDisplay
from priorshift.report import render_report


@pytest.fixture(scope="module")
def estimate(pets):
    return pets.estimate()


@pytest.fixture(scope="module")
def adapted(pets, estimate):
    return ps.adapt_proba(pets.y_proba_target, estimate.source_priors, estimate.priors)


def share(text):
    return float(text.removesuffix("%")) / 100


def test_the_embedded_estimate_is_the_estimate(pets_page, estimate):
    assert pets_page.data["schema_version"] == 3
    assert pets_page.data["estimate"] == json.loads(json.dumps(estimate.to_dict()))


def test_priors_are_in_the_table(pets_page, estimate):
    report = pets_page.data["shares_to_report"]["priors"]
    assert pets_page.values("priors-table", "If classes look as before") == pytest.approx(
        dict(zip(estimate.classes, estimate.priors, strict=True))
    )
    assert pets_page.values("priors-table", "If predictions mean as before") == pytest.approx(
        pets_page.data["calibrated_mean"]["priors"]
    )
    for k, name in enumerate(estimate.classes):
        source, target = estimate.source_priors[k], report[name]
        assert share(pets_page.column("priors-table", "Before")[name]) == pytest.approx(
            source, abs=6e-4
        )
        assert share(pets_page.column("priors-table", "Now")[name]) == pytest.approx(
            target, abs=6e-4
        )
        assert pets_page.values("priors-table", "Ratio")[name] == pytest.approx(
            target / source, rel=1e-5
        )
        assert pets_page.values("priors-table", "Change, points")[name] == pytest.approx(
            target - source, abs=1e-6
        )


def test_total_variation_is_the_mass_that_moves(pets_page, estimate):
    report = pets_page.data["shares_to_report"]["priors"]
    gained = sum(
        max(report[name] - s, 0)
        for name, s in zip(estimate.classes, estimate.source_priors, strict=True)
    )
    assert pets_page.data["total_variation"] == pytest.approx(gained)
    assert (
        f"{100 * gained:.1f}% of the cases would have to change class" in pets_page.texts["method"]
    )


def test_decisions_are_counted(pets, pets_page, adapted):
    before = pets.classes[pets.y_proba_target.argmax(axis=1)].tolist()
    after = pets.classes[adapted.argmax(axis=1)].tolist()
    changed = [(b, a) for b, a in zip(before, after, strict=True) if b != a]
    assert len(changed) > 20, "the case must change decisions to be worth a test"
    verb = "changes" if pets_page.data["verdict"] == "adapt" else "would change"
    assert f"Adapting {verb} {len(changed)} of 500 decisions" in pets_page.texts["changed"]
    shown = pets_page.values("decisions-table", "Before")
    assert shown == {name: before.count(name) for name in shown}
    shown = pets_page.values("decisions-table", "After")
    assert shown == {name: after.count(name) for name in shown}
    unchanged = set(pets.classes.tolist()) - set(shown)
    assert all(before.count(name) == after.count(name) for name in unchanged)
    rows = pets_page.tables["flows-table"][1:]
    assert {(a[0], b[0]): int(n[1]) for a, b, n, _ in rows} == Counter(changed)
    largest = max(Counter(changed).values())
    assert int(rows[0][2][1]) == largest
    assert share(rows[0][3][0]) == pytest.approx(largest / len(changed), abs=6e-4)


def test_confusion_and_its_condition_number(pets, pets_page):
    decided = pets.classes[pets.y_proba_val.argmax(axis=1)]
    counts = confusion_matrix(pets.y_val, decided, labels=pets.classes).T
    conditional = counts / counts.sum(axis=0)
    data = pets_page.data["confusion"]
    assert data["condition_number_hard"] == pytest.approx(np.linalg.cond(conditional))
    soft = np.column_stack([pets.y_proba_val[pets.y_val == c].mean(axis=0) for c in pets.classes])
    assert data["condition_number_soft"] == pytest.approx(np.linalg.cond(soft))
    rebuilt = np.zeros_like(counts)
    rebuilt[data["counts"]["decision"], data["counts"]["class"]] = data["counts"]["rows"]
    assert (rebuilt == counts).all()
    np.fill_diagonal(conditional, 0)
    decision, truth = np.unravel_index(conditional.argmax(), conditional.shape)
    first = [text for text, _ in pets_page.tables["pairs-table"][1]]
    assert first[:2] == [pets.classes[truth], pets.classes[decision]]
    assert share(first[2]) == pytest.approx(conditional.max(), abs=6e-4)
    assert [int(text) for text in first[3:]] == [counts[decision, truth], counts[:, truth].sum()]


def test_calibration_is_that_of_the_display(pets, pets_page):
    from matplotlib.figure import Figure

    display = ReliabilityDisplay.from_predictions(
        pets.y_proba_val, pets.y_val, classes=pets.classes, ax=Figure().subplots()
    )
    data = pets_page.data["calibration"]
    assert data["error"] == pytest.approx(display.error)
    assert data["confidence"] == pytest.approx(display.confidence)
    assert data["accuracy"] == pytest.approx(display.accuracy)
    assert sum(data["rows"]) == sum(data["histogram"]) == pets.y_val.size


def test_scores_on_target_labels(pets, pets_page, estimate, adapted):
    decided = [pets.classes[p.argmax(axis=1)] for p in (pets.y_proba_target, adapted)]
    truth = np.array([np.mean(pets.y_target == c) for c in pets.classes])
    before, after = (pets_page.values("truth-table", name) for name in ("Before", "After"))
    for shown, labels, proba, priors in (
        (before, decided[0], pets.y_proba_target, estimate.source_priors),
        (after, decided[1], adapted, estimate.priors),
    ):
        assert shown["Accuracy"] == pytest.approx(accuracy_score(pets.y_target, labels))
        assert shown["Balanced accuracy"] == pytest.approx(
            balanced_accuracy_score(pets.y_target, labels), rel=1e-5
        )
        assert shown["Log loss, nats"] == pytest.approx(
            log_loss(pets.y_target, proba, labels=pets.classes), rel=1e-5
        )
        assert shown["L1 error of the priors"] == pytest.approx(
            np.abs(priors - truth).sum(), rel=1e-5
        )
    assert pets_page.values("priors-table", "Labels say") == pytest.approx(
        dict(zip(pets.classes, truth, strict=True)), rel=1e-5
    )


def test_methods_are_side_by_side(pets, pets_page):
    comparison = pets.compare(y_target=pets.y_target)
    assert list(pets_page.column("methods-table", "Method")) == [
        result.method for result in comparison.results
    ]
    assert pets_page.column("methods-table", "Farthest class")["na"] == "–"
    said = {m: pets.estimate(m).priors for m in ("cm", "scm-l", "em", "rlls")}
    median = np.median(list(said.values()), axis=0)
    factor = np.maximum(said["em"] / median, median / said["em"]).max()
    shown = pets_page.tables["methods-table"]
    (row,) = [row for row in shown if row[0][0] == "em"]
    assert float(row[2][1]) == pytest.approx(factor, rel=1e-5)
    assert (
        pets_page.column("methods-table", "Accuracy")["scm-l"]
        == pets_page.column("truth-table", "After")["Accuracy"]
    )


def test_how_to_reproduce(pets_page):
    text = pets_page.texts["reproduce"]
    assert "priorshift report --validation 'my file.csv'" in text
    assert "2026-01-02 03:04:05" in text
    assert f"priorshift {ps.__version__}" in text
    assert f"numpy {np.__version__}" in text
    assert pets_page.data["random_state"] == "7"
    assert "look here" in pets_page.texts["warnings"]


@pytest.mark.usefixtures("blank_figures")
def test_raw_solution_is_shown_where_it_was_clipped(read):
    priors, raw = np.array([1.0, 0.0]), np.array([1.25, -0.25])
    estimate = ps.PriorEstimate(
        "scm", np.array(["a", "b"]), priors, np.array([0.5, 0.5]), "given", "direct", raw=raw
    )
    page = read(render_report(estimate))
    assert page.values("priors-table", "Unclipped prior") == {"a": 1.25, "b": -0.25}
    assert "1 entry of the solution was negative" in page.texts["method"]
    assert "the lowest −0.250, “b”" in page.texts["method"]
    assert "The estimated share of “b” is 0" in page.texts["next"]


@pytest.mark.usefixtures("blank_figures")
def test_what_was_not_clipped_is_not_shown_twice(pets, read):
    estimate = pets.estimate("scm")
    assert (estimate.raw > 0).all()
    page = read(render_report(estimate))
    assert [text for text, _ in page.tables["priors-table"][0]][-1] == "Ratio"
