"""JSON follows its schema, CSV can be read, and both say what the library says."""

import copy
import csv
import json
import re
from functools import partial

import jsonschema
import numpy as np
import pytest

import priorshift as ps
from priorshift.cli._console import show_table
from priorshift.compare import compare
from tests.methods import ROADS

pytestmark = pytest.mark.usefixtures("no_verdict")

assert_close = partial(np.testing.assert_allclose, rtol=0)
"""Numbers in CSV have twelve digits."""


def test_the_schema_is_one(schema):
    assert schema.schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    schema.check_schema(schema.schema)


@pytest.fixture
def document(ask, both, tmp_path, blank_figures):
    """Return the JSON output of a command."""

    def make(command, *more):
        arguments = {
            "estimate": both,
            "adapt": (*both, "--output", tmp_path / "o.csv"),
            "compare": both,
            "report": (*both, "--output", tmp_path / "o.html"),
            "demo": (),
        }[command]
        return ask(command, *arguments, *more)

    return make


@pytest.mark.parametrize("command", ["estimate", "adapt", "compare", "report", "demo"])
def test_every_document_follows_the_schema(document, command):
    answer = document(command)
    assert answer["schema_version"] == 2
    assert answer["priorshift_version"] == ps.__version__
    assert answer["command"] == command


@pytest.mark.parametrize("method", ROADS)
def test_every_method_follows_the_schema(document, method):
    assert document("estimate", "--method", method)["method"] == method


def test_known_priors_follow_the_schema(document):
    known = ("--known-priors", "ant=1,bee=1,cow=0")
    for command in ("adapt", "report"):
        answer = document(command, *known)
        assert answer["method"] == "known"
        assert answer["priors"] == {"ant": 0.5, "bee": 0.5, "cow": 0.0}


def test_what_methods_refuse_and_warn_of_follows_the_schema(data, write, ask):
    seen = data.y_val != "cow"
    validation = write("v.csv", data.y_proba_val[seen], data.y_val[seen])
    target = write("t.csv", data.y_proba, data.y)
    answer = ask("compare", "--validation", validation, "--target", target)
    assert any(method["warnings"] for method in answer["methods"])
    assert answer["truth"] == pytest.approx(
        dict(zip(data.classes, ps.priors_from_labels(data.y), strict=True))
    )


MUTATIONS = {
    "another version": lambda d: d.update(schema_version=3),
    "another command": lambda d: d.update(command="bake"),
    "no priors": lambda d: d.pop("priors"),
    "priors as a list": lambda d: d.update(priors=list(d["priors"].values())),
    "a prior above 1": lambda d: d["priors"].update(ant=1.5),
    "an unknown status": lambda d: d.update(status="fine"),
    "a gap in words": lambda d: d.update(gap="small"),
    "one class": lambda d: d.update(classes=["ant"]),
}


def test_other_documents_do_not_follow_the_schema(document, schema):
    answer = document("estimate")
    for mutate in MUTATIONS.values():
        other = copy.deepcopy(answer)
        mutate(other)
        with pytest.raises(jsonschema.ValidationError):
            schema.validate(other)


def test_documents_of_commands_have_their_own_fields(document, schema):
    answer = document("adapt")
    del answer["n_changed"]
    with pytest.raises(jsonschema.ValidationError):
        schema.validate(answer)
    answer = document("compare")
    answer["methods"][0]["extra"] = 1
    with pytest.raises(jsonschema.ValidationError):
        schema.validate(answer)


def test_estimates_agree_with_the_library(data, document):
    answer = document("estimate", "--method", "cm")
    est = ps.CM().fit(data.y_proba_val, data.y_val, classes=data.classes)
    shift = est.estimate(data.y_proba).to_dict()
    assert {name: answer[name] for name in shift} == shift


def test_comparisons_agree_with_the_library(data, files, write, ask, ok, tmp_path):
    target = write("t.csv", data.y_proba, data.y)
    named = ("--validation", files[0], "--target", target)
    answer = ask("compare", *named)
    expected = compare(
        data.y_proba_val, data.y_val, data.y_proba, data.y, classes=data.classes
    ).to_dict()
    for one, other in zip(answer["methods"], expected["methods"], strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
    assert answer["truth"] == expected["truth"]
    ok("compare", *named, "--output", tmp_path / "c.csv")
    with (tmp_path / "c.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row, method in zip(rows, expected["methods"], strict=True):
        assert row["method"] == method["method"]
        assert float(row["accuracy"]) == method["scores"]["accuracy"]
        assert float(row["prior:bee"]) == pytest.approx(method["priors"]["bee"], rel=1e-11)


def test_methods_may_be_chosen(both, ask):
    answer = ask("compare", *both, "--method", "em", "--method", "cm", "--method", "em")
    assert [method["method"] for method in answer["methods"]] == ["em", "cm"]
    assert all(method["scores"] is None for method in answer["methods"])


@pytest.mark.usefixtures("verdict")
def test_a_comparison_is_shown_to_a_person(data, files, write, ok):
    named = ("--validation", files[0], "--target", write("t.csv", data.y_proba, data.y))
    result = ok("compare", *named)
    *lines, conclusion, verdict = result.stdout.splitlines()
    assert {*ps.available_estimators()} <= {line.split(" ")[0] for line in lines}
    assert "balanced" in lines[1]
    assert conclusion.startswith("Auto, EM and SCM-L ")
    assert verdict.startswith(("Adapt", "Leave", "Unclear"))
    assert "balanced: the same, averaged over classes." in result.stderr


def test_tables_are_aligned_and_rows_stay_whole(capsys):
    show_table("Found", ("method", "gap"), [("em", "1.25e-07"), ("cm-l " * 30, "0")])
    title, header, rule, *rows = capsys.readouterr().out.splitlines()
    assert (title, header.split(), {*rule}) == ("Found", ["method", "gap"], {"\u2500"})
    assert len(header) == len(rule) == len(rows[0]) == len(rows[1]) > 150


def test_a_table_without_headings_has_no_line_for_them(capsys):
    show_table("Found", ("", ""), [("p-value", "0.01")])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["Found"],
        ["p-value", "0.01"],
    ]


def test_a_method_that_refuses_is_a_row(data, files, write, ok, ask, monkeypatch):
    def refuse(self, y_proba):
        raise ValueError("not these data")

    monkeypatch.setattr(ps.CM, "estimate", refuse)
    named = ("--validation", files[0], "--target", write("t.csv", data.y_proba, data.y))
    assert "not these data" in ok("compare", *named, "--method", "cm", "--method", "em").stdout
    assert "not these data" in ok("compare", *named, "--method", "cm").stdout
    cm, em = ask("compare", *named, "--method", "cm", "--method", "em")["methods"]
    assert (cm["error"], cm["priors"], cm["scores"]) == ("not these data", None, None)
    assert em["disagreement"] is None


def test_what_all_methods_warn_of_is_said_once(write, ok, rng):
    ill = rng.random(2000) < 0.05
    risk = 1 / (1 + np.exp(0.5 - 2 * rng.normal(loc=1.5 * ill)))  # as after class weights
    rows = np.column_stack([1 - risk, risk])
    validation = write("v.csv", rows, np.where(ill, "ill", "well"), classes=("well", "ill"))
    target = write("t.csv", rows[:500], classes=("well", "ill"))
    told = ok(
        "compare", validation, target, *(f"--method={name}" for name in ("em", "scm-l", "cm-l"))
    ).stderr
    assert told.count("predictions on validation contradict its labels") == 1
    assert "Warning by em, scm-l, cm-l: " in told


@pytest.mark.parametrize("labels", ["missing", "strange"])
def test_labels_that_cannot_score_are_left_out(data, files, write, ok, labels):
    y = ["" if labels == "missing" else "yak", *data.y[1:]]
    target = write("t.csv", data.y_proba, y)
    result = ok("compare", "--validation", files[0], "--target", target, "--json")
    assert json.loads(result.stdout)["truth"] is None
    assert result.stderr.startswith(f"The target's labels are not used: 'label' in {target} has")


@pytest.mark.parametrize(("command", "suffix"), [("estimate", ".json"), ("compare", ".csv")])
def test_output_goes_to_a_file(both, ok, schema, tmp_path, command, suffix):
    path = tmp_path / f"o{suffix}"
    result = ok(command, *both, "--output", path)
    assert (result.stdout, result.stderr) == ("", f"Wrote {path}.\n")
    text = path.read_text(encoding="utf-8")
    if suffix == ".json":
        schema.validate(json.loads(text))
    else:
        assert text.count("\n") == 1 + len(ps.available_estimators())


def test_priors_as_csv(data, both, ok, tmp_path):
    ok("estimate", *both, "--output", tmp_path / "p.csv")
    est = ps.SCML().fit(data.y_proba_val, data.y_val, classes=data.classes)
    frame = est.estimate(data.y_proba).to_frame()
    with (tmp_path / "p.csv").open(encoding="utf-8", newline="") as stream:
        header, *rows = csv.reader(stream)
    assert header == list(frame.columns)
    assert_close(np.array([row[1:] for row in rows], dtype=float), frame.iloc[:, 1:].to_numpy())


def test_safe_csv_quotes_formulas_in_every_table(data, write, ok, tmp_path):
    names = ["=1+1", "@x", "cat"]
    renamed = dict(zip(data.classes, names, strict=True))
    labels = [renamed[label] for label in data.y_val]
    validation = write("validation.csv", data.y_proba_val, labels, classes=names)
    target = write("target.csv", data.y_proba, classes=names)
    output = tmp_path / "out.csv"
    for command in ("estimate", "assess", "compare", "adapt"):
        ok(command, validation, target, "--output", output)
        assert "'=1+1" not in output.read_text()
        ok(command, validation, target, "--output", output, "--safe-csv")
        text = output.read_text()
        assert "=1+1" in text
        assert not re.search(r"(^|,)[=@]", text, re.M)
