"""Facts in words: every fact has a sentence, every verdict a headline that is short and plain."""

import string

import pytest

from priorshift.verdict import Gain, Ruling
from priorshift.words import (
    ADVICE,
    SENTENCES,
    Headline,
    change,
    fact,
    headline,
    say,
    say_backtest,
)

FACTS = (
    fact("no_information", n=3000, z=0.3, least=4.0),
    fact("shifted", p_value=0.001, moved=0.66),
    fact("not_shifted", p_value=0.4, alternative=0.1, power=0.9),
    fact("explained", share=0.46, low=0.3, high=0.62),
    fact("nothing_changed", n_val=1200, n_target=900),
    fact("assumed", share=0.46),
    fact("repeated", n_val=3, n_target=2000),
    fact("by_decisions", n_target=5000),
    fact(
        "if_prior_shift", goal="accuracy", value=0.05, low=0.01, high=0.09, level=0.95, changed=0.1
    ),
    fact("if_covariate_shift", goal="cost", value=0.5, low=-0.1, high=1.1, level=0.9, changed=0.2),
    fact("few_rows", n=3, least=30),
    fact("few_target_rows", n=1, least=10),
    fact("little_changed", n_val=1200, n_target=900),
    fact("assumed_wrongly", unlike=0.5, share=0.2),
    fact("rare", label="fraud", other="fine", share=0.021),
    fact("seen_before", accuracy=0.99, expected=0.97, confidence=0.8),
    fact("errs_alike", p_value=0.4),
    fact("drifted", p_value=0.005),
    fact("history", text="On your 9 past groups adapting would have lost 3.1 points."),
    fact("moved_further", moved=0.4),
    fact("shifted", p_value=0.001, moved=None),
    fact("shift_by_means", p_value=0.001, moved=0.75, low=0.69, high=0.86),
    fact("balance_explains", p_value=0.73, least=0.05),
    fact("balance_explains", p_value=0.73, least=None),
    fact("looks_different", p_value=0.002),
    fact("few_to_check", n_val=12, n_target=9),
    fact("calibrated_first", changed=0.34),
    fact("half_way"),
    fact("mismatch", text="predictions contradict 3 labels."),
    fact(
        "measured",
        goal="accuracy",
        n=40,
        before=0.5,
        after=0.6,
        before_interval=(0.4, 0.6),
        after_interval=(0.5, 0.7),
    ),
    fact(
        "measured",
        goal="log_loss",
        n=40,
        before=1.25,
        after=0.61,
        before_interval=(1.1, 1.4),
        after_interval=(0.5, 0.72),
    ),
    fact("measured_decisions", n=40, right=0.5),
    fact("as_on_validation", p_value=0.3),
    fact("not_as_on_validation", p_value=0.003, promised=0.8),
    fact(
        "readings",
        label="a{b}",
        prior=0.1,
        mean=0.2,
        before=0.5,
        report=0.15,
        low=0.1,
        high=0.3,
        level=0.9,
    ),
    fact("unknown_class", n=2),
    fact("more_validation", label="x" * 90, n=2, n_val=1000),
    fact("more_target", n=30),
    fact("label_rows", n=40, more=True),
    fact("no_interval", error="method 1 has none."),
    fact("no_diagnostics", error="validation has 0 rows."),
    fact("no_test", error="there are 2 rows."),
    fact("too_many_classes", n=1000),
    fact("threshold", label="a{b}", cut=0.5, raw=0.9),
    fact("threshold", label="yes", cut=0.5, raw=None),
    fact("sampled", n=1000, n_target=2_000_000),
    fact("target_swapped", names=["b", "a"], unlike=0.6, left=0.01),
    fact("rounded", coarse="the target", decimals=3, fine="validation"),
    fact("repeats_count", side="validation", n=1200),
    fact("drawn_otherwise", apart=0.31),
    fact("class_not_tested", classes=["cat 9"], share=0.02),
    fact("priors_exact"),
    fact("singular"),
    fact("ill_conditioned", number=1234.5),
    fact("few_effective", n=12.5, n_val=300),
    fact("confusable", pairs=[("1", "7"), ("cat", "fox")]),
    fact("left_out", classes=["9"]),
    fact("columns_swapped", text="accuracy is 3%, but 90% if the columns were a, b."),
)


@pytest.mark.parametrize("told", FACTS, ids=lambda told: told.name)
def test_a_fact_becomes_a_sentence_with_its_numbers(told):
    said = say(told)
    assert said[0] in string.ascii_uppercase + string.digits
    assert said.endswith((".", "?"))
    assert any(letter.isdigit() for letter in said) == bool(told.numbers)
    assert len(said) < 300
    for token in ("{", "}", "None", "nan"):
        assert token not in said.replace("a{b}", "")


def test_every_fact_is_tried_and_every_advice_is_a_fact():
    assert {told.name for told in FACTS} == set(SENTENCES)
    assert set(ADVICE) <= set(SENTENCES)


def test_few_rows_are_no_evidence_of_no_shift():
    enough, few = (
        say(fact("not_shifted", p_value=0.4, alternative=0.1, power=p)) for p in (0.9, 0.5)
    )
    assert "(p = 0.40), and a change of 10% of the cases would have been noticed with 90%" in enough
    assert few.endswith(
        "but a change of 10% of the cases would have been noticed with 50% probability only."
    )


@pytest.mark.parametrize(
    ("why", "verdict", "part"),
    [
        ("helps", "adapt", "accuracy should rise from about 62% to 79% (+11 to +22 points)."),
        ("no_shift", "leave", "no evidence that the class balance"),
        ("no_gain", "leave", "would gain 22 points of accuracy at most"),
        ("columns_swapped", "unclear", "in a different order from the classes. Fix that"),
        ("target_swapped", "unclear", "in a different order from validation's. Check that"),
        ("no_information", "unclear", "the predictions say nothing about the labels. Check"),
        ("unknown_class", "unclear", "validation has no row of class “a” and 1 other"),
        ("more_changed", "unclear", "more than the class balance changed."),
        ("unsure", "unclear", "Accuracy would change by +11 to +22 points."),
    ],
)
def test_headlines(why, verdict, part):
    ruling = Ruling(verdict, "adapt" if verdict == "adapt" else "none", why, Gain(0.17, 0.03))
    known = {"scores": (0.62, 0.79), "unknown": ["a", "b"]}
    found = headline(ruling, "accuracy", (0.17, 0.11, 0.22), **known)
    lead = {"leave": "Leave the predictions as they are"}.get(verdict, verdict.capitalize())
    assert found.lead == lead
    assert part in found.rest
    assert str(found) == f"{lead}: {found.rest}"
    assert len(str(found)) < 200
    assert isinstance(found, Headline)


@pytest.mark.parametrize("goal", ["log_loss", "cost"])
def test_what_should_fall_is_said_to_fall(goal):
    ruling = Ruling("adapt", "adapt", "helps", Gain(0.4, 0.1))
    found = headline(ruling, goal, (0.4, 0.2, 0.6), scores=(1.3, 0.9), shifted=True)
    assert "should fall from about 1.30 to 0.90 (−0.60 to −0.20)." in found.rest
    assert "by at most" not in found.rest
    assert change(goal, -0.1, 0.6) == "−0.60 to +0.10"
    assert "by about 0.4 " in headline(ruling, goal, (0.4, 0.2, 0.6)).rest


def test_what_every_label_tells_has_no_bounds():
    ruling = Ruling("adapt", "adapt", "labels_adapt", Gain(0.17, 0.0))
    found = headline(ruling, "accuracy", (0.17, 0.17, 0.17))
    assert found.rest == "by the labels of the target, adapting makes accuracy rise by 17 points."
    assert change("accuracy", 0.17, 0.17) == "+17 points"


def test_points_are_signed():
    assert change("accuracy", -0.031, 0.12) == "−3.1 to +12 points"


def test_one_past_group_is_not_counted():
    off = {"prior_shift": 0.14, "calibrated_mean": 0.02, "unchanged": 0.05}
    said = say_backtest(1, 1, 4, "accuracy", {"calibrate": 0.004, "adapt": -0.031}, off)
    assert said.startswith("On your past group adapting would have lost")
