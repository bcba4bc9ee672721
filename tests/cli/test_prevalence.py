"""priorshift prevalence: test results and error rates on the command line."""

import json
from importlib.resources import files as resources

import jsonschema
import pytest

import priorshift as ps

GIVEN = ["prevalence", "--positives", "120", "--n", "1000"]
GIVEN += ["--sensitivity", "0.9", "--specificity", "0.95"]
SIZES = ["--sensitivity-n", "100", "--specificity-n", "200"]
SCHEMA = json.loads(
    resources("priorshift").joinpath("schemas/output-2.schema.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("sizes", [[], SIZES])
def test_numbers_are_those_of_the_library(ok, sizes):
    found = json.loads(ok(*GIVEN, *sizes, "--json").stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    named = {"n_positive": 100, "n_negative": 200} if sizes else {}
    known = ps.Confusion.from_rates(sensitivity=0.9, specificity=0.95, **named)
    shift = ps.CML().fit(confusion=known).estimate_counts([880, 120], 0.95)
    assert found["prevalence"] == pytest.approx(shift.priors[1])
    assert found["prevalence_interval"] == pytest.approx(shift.interval[1].tolist())
    assert found["apparent_prevalence"] == 0.12
    assert found["priors"]["positive"] == found["prevalence"]
    assert bool(found["cautions"]) == (not sizes)


def test_a_person_reads_one_line(ok):
    done = ok(*GIVEN, *SIZES)
    assert done.stdout.startswith("Prevalence 8.24%, 95 % interval ")
    assert "12.0% of the results are positive" in done.stdout
    assert not done.stderr
    assert "taken to be exact" in " ".join(ok(*GIVEN).stderr.split())


def test_errors_say_what_to_do(run):
    done = run("prevalence", "--positives", 2, "--n", 1, "--sensitivity", 1, "--specificity", 1)
    assert done.exit_code == 2
    assert "n counts all results" in done.stderr
    done = run("prevalence", "--positives", 1, "--n", 2, "--sensitivity", 0.5, "--specificity", 0.5)
    assert done.exit_code == 1
    assert "must sum to more than 1" in " ".join(done.stderr.split())
