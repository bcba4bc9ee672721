"""Awkward input: what is missing, odd or wrong."""

import re
from dataclasses import replace

import numpy as np
import pytest

import priorshift as ps
from priorshift.compare import Comparison, MethodResult
from priorshift.report import render_report

blank_figures = pytest.mark.usefixtures("blank_figures")


def test_an_estimate_alone(pets, read):
    page = read(render_report(pets.estimate()))
    assert set(page.tables) == {"priors-table", "plan-table"}
    for absent in ("methods", "decisions", "labels", "confusion", "calibration", "shift"):
        assert absent not in page.texts
    assert "pass y_proba_val and y_val" in page.texts["left-out"]
    assert "No verdict: it takes labelled validation data to tell" in page.texts["verdict"]
    assert page.data["verdict"] is None
    assert page.data["decisions"] is page.data["confusion"] is page.data["comparison"] is None
    assert [attributes["href"] for attributes in page.find("a") if "#" in attributes["href"]] == [
        "#main",
        "#changed",
        "#trust",
        "#next",
        "#details",
    ]


def test_validation_without_labels(pets, read):
    page = read(render_report(pets.estimate(), y_proba_val=pets.y_proba_val))
    assert "600 rows, without labels" in page.texts["method"]
    assert "confusion" not in page.texts
    assert "pass y_proba_val and y_val" in page.texts["left-out"]


def rounded(html):
    """Round long numbers: sums over rows and over columns may end in other digits."""
    return re.sub(r"\d+\.\d{10,}(e-\d+)?", lambda found: f"{float(found[0]):.9g}", html)


@blank_figures
def test_the_probability_of_the_second_class_alone(read, draw):
    case = draw(["no", "yes"])
    both = case.render()
    alone = case.render(
        y_proba_val=case.y_proba_val[:, 1], y_proba_target=case.y_proba_target[:, 1]
    )
    first, second = read(both).data, read(alone).data
    assert first["decisions"] == second["decisions"]
    assert first["confusion"]["counts"] == second["confusion"]["counts"]


def test_one_class_is_all_that_is_predicted(read):
    proba = np.tile([0.7, 0.2, 0.1], (30, 1))
    y = np.array(["a", "b", "c"] * 10)
    estimate = ps.EM().fit(source_priors=[0.5, 0.3, 0.2], classes=["a", "b", "c"]).estimate(proba)
    page = read(
        render_report(estimate, y_proba_val=proba, y_val=y, y_proba_target=proba, y_target=y)
    )
    assert "changes none of the 30 decisions" in page.texts["changed"]
    assert page.data["confusion"]["condition_number_hard"] is None  # infinite
    assert "singular" in page.texts["confusion"]
    assert page.data["confusion"]["counts"]["decision"] == [0, 0, 0]
    assert len(page.data["calibration"]["rows"]) == 1


def test_a_class_that_validation_lacks(pets, read):
    rows = pets.y_val != "hen"
    proba, y = pets.y_proba_val[rows], pets.y_val[rows]
    estimator = ps.SCML().fit(proba, y, classes=pets.classes, source_priors=[0.25] * 4)
    with pytest.warns(ps.PriorShiftWarning):
        estimate = estimator.estimate(pets.y_proba_target)
    page = read(render_report(estimate, y_proba_val=proba, y_val=y))
    assert "Validation has no row of “hen”" in page.texts["next"]
    assert page.data["confusion"]["rows_of_class"][2] == 0
    assert np.isfinite(page.data["confusion"]["condition_number_soft"])
    assert "hen" not in page.column("pairs-table", "Decided as")  # no row of that class


def test_a_perfect_classifier(read):
    proba, y = np.eye(3)[[0, 1, 2, 0]], [0, 1, 2, 0]
    estimate = ps.SCML().fit(proba, y).estimate(proba)
    page = read(render_report(estimate, y_proba_val=proba, y_val=y))
    assert "No two classes are confused" in page.texts["confusion"]
    assert page.data["calibration"]["error"] == 0


@blank_figures
def test_known_priors(pets, read):
    estimate = ps.PriorEstimate(
        "known", pets.classes, np.array([0.4, 0.3, 0.2, 0.1]), np.full(4, 0.25), "given", "direct"
    )
    page = read(render_report(estimate, y_proba_target=pets.y_proba_target))
    assert "No verdict: the target's class shares were given" in page.texts["verdict"]
    assert page.data["verdict"] is None
    assert "500 target rows" in page.texts["main"] + page.html
    assert "ps.adapt_proba" in page.texts["next"]


@blank_figures
def test_what_adaptation_warns_of_is_in_the_report(read):
    estimate = ps.PriorEstimate(
        "known", np.array(["a", "b"]), np.array([1.0, 0.0]), np.full(2, 0.5), "given", "direct"
    )
    page = read(render_report(estimate, y_proba_target=[[0.0, 1.0], [0.5, 0.5]]))
    assert "1 of 2 rows have no class left" in page.texts["warnings"]


@blank_figures
def test_warnings_are_said_once(pets, read):
    page = read(render_report(pets.estimate(), warnings=["twice", "twice"]))
    assert page.texts["warnings"].count("twice") == 1


def test_a_method_that_refused_is_in_the_report(pets, read):
    results = (
        MethodResult("scm-l", replace(pets.estimate(), gap=np.inf), None, 0.1),
        MethodResult("em", None, "it <could> not", 0.1),
    )
    page = read(render_report(pets.estimate(), comparison=Comparison(results, pets.classes)))
    assert page.column("methods-table", "Status")["em"] == "refused"
    assert "em: it <could> not" in page.texts["refused"]
    assert page.column("methods-table", "Gap") == {"scm-l": "infinite", "em": "–"}
    assert page.data["comparison"][0]["gap"] is None  # JSON knows no infinity
    assert "methods-title" not in page.texts  # one estimate is nothing to compare


def test_intervals_are_in_the_table_when_there_are_any(pets, read):
    estimate = pets.estimate()
    bounds = np.column_stack([estimate.priors * 0.9, estimate.priors * 1.1])
    object.__setattr__(estimate, "interval", bounds)
    page = read(render_report(estimate))
    assert list(page.values("priors-table", "Lower").values()) == pytest.approx(
        bounds[:, 0], rel=1e-5
    )
    assert list(page.values("priors-table", "Upper").values()) == pytest.approx(
        bounds[:, 1], rel=1e-5
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y_proba_val": None}, "y_val needs the predictions it belongs to: pass y_proba_val"),
        ({"y_proba_target": None}, "y_target needs the predictions .*: pass y_proba_target"),
        ({"y_val": ["cat"]}, "y_val has 1 labels but there are 600 rows"),
        ({"y_target": ["cow"] * 500}, "y_target has a label outside classes: 'cow'"),
        ({"y_proba_target": [[0.5, 0.6, 0.0, 0.0]]}, "row 0 of y_proba_target sums to 1.1"),
    ],
)
def test_bad_input_is_refused(pets, given, message):
    with pytest.raises(ValueError, match=message):
        pets.render(**given)


def test_only_estimates_are_reported_on():
    with pytest.raises(ValueError, match="about a PriorEstimate; got list"):
        render_report([0.5, 0.5])


def test_a_comparison_of_other_classes_is_refused(pets, draw):
    other = draw(["a", "b", "c", "d"]).compare(("scm-l",))
    with pytest.raises(ValueError, match="different classes"):
        render_report(pets.estimate(), comparison=other)
