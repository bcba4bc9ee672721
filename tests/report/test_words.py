"""The words of a report: claims that are true of the data, and none that is not."""

from dataclasses import replace

import numpy as np
import pytest

import priorshift as ps
from priorshift.compare import Comparison, MethodResult
from priorshift.report._content import title_of
from priorshift.report._facts import Facts, check_inputs, gather
from priorshift.report._figures import picture
from priorshift.report._words import (
    changed_claim,
    checks,
    classes_to_look_at,
    conditioning,
    decisions_sentence,
    left_out,
    movers_claim,
    trust_claim,
    worth_knowing,
)
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


def said(words, estimate, **given):
    found = words(facts_of(estimate, **given), shown_names(estimate.classes))
    return found if isinstance(found, str) else " ".join(found)


@pytest.mark.parametrize(
    ("priors", "source", "words"),
    [
        ([0.5, 0.3, 0.2], [0.01, 0.39, 0.6], "“c0” grew 50-fold, “c2” shrank to a third"),
        ([0.4, 0.6], [0.2, 0.8], "“c0” roughly doubled"),
        ([0.6, 0.4], [0.5, 0.5], "“c0” grew from 50% to 60%"),
        ([0.3, 0.7, 0.0], [0.0, 0.6, 0.4], "“c0” appeared, with 30%, “c2” disappeared"),
        ([0.04, 0.96, 0.0], [0.4, 0.6, 0.0], "“c1” grew from 60% to 96%, “c0” shrank 10-fold"),
        ([0.5, 0.5], [0.5, 0.5], "The class shares are what they were"),
    ],
)
def test_the_heading_of_the_picture_names_what_moved_most(priors, source, words):
    assert said(movers_claim, estimate_of(priors, source)) == words


def test_without_target_rows_the_heading_says_how_many_cases_changed():
    facts = facts_of(estimate_of([0.7, 0.3], [0.5, 0.5]))
    assert changed_claim(facts) == ("20% of the cases are in other classes than training suggests")


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
    found = said(worth_knowing, estimate)
    assert words in found
    assert ("certifies" in found) == (status == "certified")


def test_agreement_names_the_odd_one_out(pets):
    estimates = {name: pets.estimate(name) for name in ("scm-l", "em", "cm")}
    results = [
        MethodResult(name, estimate, None, 0.1, agreement=agreement)
        for (name, estimate), agreement in zip(estimates.items(), (0.99, 0.7, 0.98), strict=True)
    ]
    facts = facts_of(estimates["scm-l"], comparison=Comparison(tuple(results), pets.classes))
    (check,) = checks(facts, shown_names(pets.classes))
    assert (check.id, check.light) == ("methods", "care")
    assert "3 methods agree roughly" in check.sentence
    assert "put 89.0% of the cases in the same classes" in check.sentence
    assert "em is farthest from them, with 70.0%" in check.sentence
    assert trust_claim([check]) == "1 of 1 check needs a look"
    alone = Comparison((replace(results[0], agreement=None),), pets.classes)
    assert checks(facts_of(estimates["scm-l"], comparison=alone), ()) == []


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


def test_details_come_when_called_for():
    calm = said(worth_knowing, estimate_of([0.6, 0.4], [0.5, 0.5]))
    for words, estimate in {
        "2 entries of the solution were negative": estimate_of(
            [0.0, 0.0, 1.0], [0.3, 0.3, 0.4], raw=np.array([-0.1, -0.2, 1.3])
        ),
        "The target has 30 rows for 2 classes": estimate_of([0.6, 0.4], [0.5, 0.5], n_target=30),
        "pass source_priors": estimate_of(
            [0.6, 0.4], [0.5, 0.5], source_priors_from="the mean, taken to be drawn so"
        ),
    }.items():
        assert words in said(worth_knowing, estimate)
        assert words not in calm


def test_classes_of_which_little_is_known_are_named(pets):
    assert said(classes_to_look_at, estimate_of([0.6, 0.4], [0.5, 0.5])) == ""
    unseen = estimate_of([0.6, 0.4], [0.5, 0.5], unseen_classes=("c1",))
    assert "Validation has no sample of “c1”" in said(classes_to_look_at, unseen)
    gone = estimate_of(np.array([1.0] + [0.0] * 9), [0.1] * 10)
    assert "9 classes (“c1”, “c2”, “c3”, …) is 0" in said(classes_to_look_at, gone)
    rows = np.concatenate(
        [np.flatnonzero(pets.y_val != "pig"), np.flatnonzero(pets.y_val == "pig")[:4]]
    )
    few = {"y_proba_val": pets.y_proba_val[rows], "y_val": pets.y_val[rows]}
    assert "fewer than 10 samples of “pig”" in said(classes_to_look_at, pets.estimate(), **few)


def test_poor_calibration_is_a_care(pets):
    given = {"y_proba_val": pets.y_proba_val, "y_val": pets.y_val}
    (good,) = checks(facts_of(pets.estimate(), **given), ())
    assert (good.id, good.light) == ("calibration", "good")
    sharp = pets.y_proba_val**6
    sharp /= sharp.sum(axis=1, keepdims=True)
    (bad,) = checks(facts_of(pets.estimate(), y_proba_val=sharp, y_val=pets.y_val), ())
    assert bad.light in ("care", "poor")
    assert "Calibrating validation and target" in bad.sentence


def test_decisions_say_from_what_to_what(pets):
    estimate = pets.estimate()
    before = pets.y_proba_target.argmax(axis=1)
    after = estimate.adapt(pets.y_proba_target).argmax(axis=1)
    difference = np.bincount(after, minlength=4) - np.bincount(before, minlength=4)
    words = said(decisions_sentence, estimate, y_proba_target=pets.y_proba_target)
    assert f"Adapting changes {(before != after).sum()} of 500 decisions" in words
    assert f"“{pets.classes[difference.argmax()]}” gains most" in words
    assert f"“{pets.classes[difference.argmin()]}” loses most" in words
    assert said(decisions_sentence, estimate) == ""


def test_what_is_left_out_says_what_to_pass(pets):
    alone = left_out(facts_of(pets.estimate()))
    assert [arguments for _, arguments in alone] == [
        "y_proba_val, y_val and y_proba_target, or --validation",
        "y_proba_target, or --target",
        "y_proba_val and y_val, or --validation",
        "comparison=priorshift.compare.compare(…)",
        "y_target, or a --target with labels",
    ]
    full = {**pets.data, "comparison": pets.compare(("scm-l", "em"))}
    assert left_out(facts_of(pets.estimate(), **full)) == []


def test_nothing_is_called_significant(pets_page):
    assert "significant" not in pets_page.texts["main"].lower()


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


def test_one_wide_interval_does_not_hide_the_other_shares():
    bounds = np.array([[0.04, 0.06], [0.0, 1.0], *[[0.04, 0.06]] * 18])
    wide = replace(estimate_of([0.05] * 20, [0.05] * 20), interval=bounds)
    found = picture(facts_of(wide), shown_names(wide.classes))
    assert found.largest == "10%"
    narrow = replace(wide, interval=bounds.clip(max=0.06))
    assert picture(facts_of(narrow), shown_names(narrow.classes)).largest == "6%"


@pytest.mark.parametrize(
    ("K", "title"),
    [
        (2, "Class balance of c0 and c1"),
        (3, "Class balance of c0, c1 and c2"),
        (10, "Class balance of c0, c1 and 8 other classes"),
        (1000, "Class balance of 1,000 classes"),
    ],
)
def test_a_report_is_named_by_its_classes(K, title):
    assert title_of(facts_of(estimate_of([1 / K] * K, [1 / K] * K))) == title
