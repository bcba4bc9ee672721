"""The verdict: sentences that are true of the data, and none that is not."""

from dataclasses import replace

import numpy as np
import pytest

import priorshift as ps
from priorshift.evaluation import Comparison, MethodResult
from priorshift.report._facts import Facts, check_inputs, gather
from priorshift.report._words import conditioning, gains_and_losses, left_out, verdict
from priorshift.text import shown_names

NOTHING = {
    "y_proba_val": None,
    "y_val": None,
    "y_proba_target": None,
    "y_target": None,
    "comparison": None,
    "warned": (),
}


def estimate_of(priors, source, *, method="scm-l", status="certified", gap=1e-7, **more):
    more = {"n_target": 10_000, **more}
    names = np.array([f"c{k}" for k in range(len(priors))])
    origin = more.pop("source_priors_from", "given")
    return ps.PriorEstimate(
        method, names, np.array(priors), np.array(source), origin, status, gap, **more
    )


def facts_of(estimate, **given) -> Facts:
    return gather(check_inputs(estimate, **{**NOTHING, **given}))


def verdict_of(estimate, **given):
    return verdict(facts_of(estimate, **given), shown_names(estimate.classes))


def cautions_of(estimate, **given):
    return " ".join(verdict_of(estimate, **given).cautions)


@pytest.mark.parametrize(
    ("moved", "words"),
    [(0.01, "hardly moved"), (0.05, "moved a little"), (0.2, "moved markedly"), (0.4, "moved far")],
)
def test_the_headline_says_how_far(moved, words):
    headline = verdict_of(estimate_of([0.5 + moved, 0.5 - moved], [0.5, 0.5])).headline
    assert words in headline
    assert f"{100 * moved:.2f}".rstrip("0").rstrip(".") in headline


def test_no_movement():
    words = verdict_of(estimate_of([0.5, 0.5], [0.5, 0.5], method="na", status="direct", gap=None))
    assert words.headline == "Target and source priors are the same: nothing would be adapted."
    assert not any("most" in sentence for sentence in words.findings)


def test_the_largest_movers_are_named_in_order():
    findings = verdict_of(
        estimate_of([0.40, 0.30, 0.15, 0.10, 0.05], [0.1, 0.1, 0.1, 0.3, 0.4])
    ).findings
    assert findings[0] == (
        "Grew most: “c0” from 10.0% to 40.0%, “c1” from 10.0% to 30.0% and “c2” from 10.0% to "
        "15.0%."
    )
    assert findings[1] == "Shrank most: “c4” from 40.0% to 5.00% and “c3” from 30.0% to 10.0%."


@pytest.mark.parametrize(
    ("status", "gap", "method", "words"),
    [
        ("certified", 2.5e-7, "scm-l", "objective of scm-l by more than 2.5e-7 nats"),
        ("certified", 2.5e-7, "rlls", "objective of rlls by more than 2.5e-7."),
        ("certified", 0.0, "em", "up to rounding, no other priors"),
        ("direct", None, "cm", "cm has a closed form"),
        ("stationary", None, "map", "another start may end elsewhere"),
        ("not_converged", 0.5, "em", "at most 0.50 nats below the optimum: the answer is not"),
        ("not_converged", None, "em", "stopped short of its tolerance: the answer is not"),
        ("direct", None, "known", "The target priors were given"),
    ],
)
def test_what_the_solver_promises(status, gap, method, words):
    estimate = estimate_of([0.6, 0.4], [0.5, 0.5], status=status, gap=gap, method=method)
    findings = " ".join(verdict_of(estimate).findings)
    assert words in findings
    assert ("certifies" in findings) == (status == "certified")


def test_agreement_names_the_odd_one_out(pets):
    estimates = {name: pets.estimate(name) for name in ("scm-l", "em", "cm")}
    results = [
        MethodResult(name, estimate, None, 0.1, agreement=agreement)
        for (name, estimate), agreement in zip(estimates.items(), (0.99, 0.7, 0.98), strict=True)
    ]
    comparison = Comparison(tuple(results), pets.classes)
    words = " ".join(verdict_of(estimates["scm-l"], comparison=comparison).findings)
    assert "The 3 methods compared agree roughly" in words
    assert "shares 89.0%" in words
    assert "em stands farthest from them, with 70.0%" in words
    alone = Comparison((replace(results[0], agreement=None),), pets.classes)
    assert "agree" not in " ".join(verdict_of(estimates["scm-l"], comparison=alone).findings)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1.2, "well conditioned"),
        (12.0, "fairly conditioned"),
        (300.0, "poorly conditioned"),
        (1e5, "nearly singular"),
        (np.inf, "cannot tell some classes apart"),
    ],
)
def test_condition_numbers_in_words(value, words):
    assert words in conditioning(value)
    estimate = estimate_of([0.6, 0.4], [0.5, 0.5], method="cm", condition_number=value)
    assert words in " ".join(verdict_of(estimate).findings)


def test_the_condition_number_is_that_of_the_methods_own_matrix(pets):
    found = {}
    for method in ("scm-l", "cm-l", "em"):
        given = {"y_proba_val": pets.y_proba_val, "y_val": pets.y_val}
        findings = " ".join(verdict_of(pets.estimate(method), **given).findings)
        found[method] = findings.partition("condition number ")[2].partition(")")[0]
    hard = np.array(
        [
            [(pets.y_proba_val[pets.y_val == c].argmax(axis=1) == i).mean() for c in pets.classes]
            for i in range(4)
        ]
    )
    soft = np.array([pets.y_proba_val[pets.y_val == c].mean(axis=0) for c in pets.classes]).T
    assert float(found["cm-l"]) == pytest.approx(np.linalg.cond(hard), rel=0.01)
    assert float(found["scm-l"]) == pytest.approx(np.linalg.cond(soft), rel=0.01)
    assert found["em"] == ""  # it uses none


def test_labels_that_show_harm(pets):
    wrong = estimate_of([0.97, 0.01, 0.01, 0.01], [0.25] * 4)
    wrong = replace(wrong, classes=pets.classes)
    given = {"y_proba_target": pets.y_proba_target, "y_target": pets.y_target}
    words = verdict_of(wrong, **given)
    assert "adapting lowers accuracy" in " ".join(words.findings)
    assert words.cautions[0].startswith("On the labels at hand adapting does harm")
    good = verdict_of(pets.estimate(), **given)
    assert "adapting raises accuracy" in " ".join(good.findings)
    assert "harm" not in " ".join(good.cautions)


def test_cautions_come_when_called_for():
    calm = cautions_of(estimate_of([0.6, 0.4], [0.5, 0.5]))
    for words, estimate in {
        "Validation has no sample of “c1”": estimate_of(
            [0.6, 0.4], [0.5, 0.5], unseen_classes=("c1",)
        ),
        "2 entries of the solution were negative": estimate_of(
            [0.0, 0.0, 1.0], [0.3, 0.3, 0.4], raw=np.array([-0.1, -0.2, 1.3])
        ),
        "The estimated prior of “c1” is 0": estimate_of([1.0, 0.0], [0.5, 0.5]),
        "The target has 30 rows for 2 classes": estimate_of([0.6, 0.4], [0.5, 0.5], n_target=30),
        "pass source_priors": estimate_of(
            [0.6, 0.4], [0.5, 0.5], source_priors_from="the mean, taken to be drawn so"
        ),
        "cannot tell whether they are right": estimate_of([0.6, 0.4], [0.5, 0.5], method="known"),
    }.items():
        assert words in cautions_of(estimate)
        assert words not in calm
    assert "point estimates" in calm
    assert "supposes prior shift" in calm


def test_many_classes_are_not_all_named():
    priors = np.array([1.0] + [0.0] * 9)
    words = cautions_of(estimate_of(priors, [0.1] * 10))
    assert "9 classes (“c1”, “c2”, “c3”, …) is 0" in words


def test_few_validation_samples_and_poor_calibration(pets):
    rows = np.concatenate(
        [np.flatnonzero(pets.y_val != "pig"), np.flatnonzero(pets.y_val == "pig")[:4]]
    )
    few = {"y_proba_val": pets.y_proba_val[rows], "y_val": pets.y_val[rows]}
    assert "fewer than 10 samples of “pig”" in cautions_of(pets.estimate(), **few)
    whole = {"y_proba_val": pets.y_proba_val, "y_val": pets.y_val}
    assert "fewer than" not in cautions_of(pets.estimate(), **whole)
    assert "calibrate" not in cautions_of(pets.estimate(), **whole)
    sharp = pets.y_proba_val**6
    sharp /= sharp.sum(axis=1, keepdims=True)
    bad = {"y_proba_val": sharp, "y_val": pets.y_val}
    assert "em trusts the probabilities: calibrate" in cautions_of(pets.estimate("em"), **bad)
    assert "adaptation multiplies the probabilities: calibrate" in cautions_of(
        pets.estimate(), **bad
    )


def test_intervals_take_the_place_of_a_caution(pets):
    estimate = pets.estimate()
    object.__setattr__(estimate, "interval", np.array([[0.1, 0.3]] * 4))
    assert "point estimates" not in cautions_of(estimate)


def test_gains_and_losses(pets):
    estimate = pets.estimate()
    facts = facts_of(estimate, y_proba_target=pets.y_proba_target)
    before = pets.y_proba_target.argmax(axis=1)
    after = estimate.adapt(pets.y_proba_target).argmax(axis=1)
    difference = np.bincount(after, minlength=4) - np.bincount(before, minlength=4)
    words = gains_and_losses(facts, shown_names(pets.classes))
    assert f"“{pets.classes[difference.argmax()]}” gains most" in words
    assert f"“{pets.classes[difference.argmin()]}” loses most" in words
    assert gains_and_losses(facts_of(estimate), shown_names(pets.classes)) == ""


def test_what_is_left_out_says_what_to_pass(pets):
    alone = left_out(facts_of(pets.estimate()))
    assert [arguments for _, arguments in alone] == [
        "y_proba_target",
        "y_proba_val and y_val, or --validation",
        "y_proba_val, y_val and y_proba_target, or --validation",
        "comparison=priorshift.evaluation.compare(…)",
        "y_target, or a --target with labels",
    ]
    full = {**pets.data, "comparison": pets.compare(("scm-l", "em"))}
    assert left_out(facts_of(pets.estimate(), **full)) == []


def test_nothing_is_called_significant(pets_page):
    text = pets_page.texts["main"].lower()
    assert "significant" not in text
    assert text.count("p-value") == pets_page.texts["shift"].lower().count("p-value") > 0


@pytest.mark.usefixtures("blank_figures")
def test_a_joint_matrix_has_its_own_condition_number(pets, read):
    estimate = pets.estimate("bbse")
    joint = np.array(
        [
            [
                ((pets.y_proba_val.argmax(axis=1) == i) & (pets.y_val == c)).mean()
                for c in pets.classes
            ]
            for i in range(4)
        ]
    )
    assert estimate.condition_number == pytest.approx(np.linalg.cond(joint))
    page = read(pets.render("bbse"))
    shown = page.texts["confusion"].partition("bbse inverted has a condition number of ")[2]
    assert float(shown.partition(".\n")[0]) == pytest.approx(np.linalg.cond(joint), rel=0.01)
