"""priorshift test: the library's answer, exit codes, refusals."""

import json
from functools import partial

import numpy as np
import pytest

from priorshift.evidence import detect_shift


@pytest.fixture
def invoke(run):
    """Run the command; stdout and stderr are kept apart."""
    return partial(run, "test")


@pytest.fixture
def same(data, write, simulate, rng):
    """Options of a target without a shift."""
    world = simulate(3)
    y_proba, _ = world.draw(world.source_priors, 200, rng)
    validation = write("same_validation.csv", data.y_proba_val, data.y_val)
    return "--validation", validation, "--target", write("same.csv", y_proba)


def test_json_is_what_the_library_says(invoke, both, data):
    result = invoke(*both, "--json")
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["command"] == "test"
    assert answer["schema_version"] == 2
    found = detect_shift(
        data.y_proba_val,
        data.y_val,
        data.y_proba,
        classes=data.classes,
        assumption=True,
        random_state=0,
    )
    np.testing.assert_allclose(answer["statistic"], found.statistic, rtol=1e-6)
    assert answer["p_value"] == found.p_value
    assert answer["rejected"] is True
    assert answer["sentence"] == found.sentence
    assert answer["verdict"] in ("adapt", "leave", "unclear")
    assert answer["assumption"]["p_value"] == found.assumption.p_value
    assert set(answer["priors"]) == {"ant", "bee", "cow"}


def test_options_reach_the_test(invoke, both):
    options = ("--alpha", "0.2", "--resamples", "49")
    answer = json.loads(invoke(*both, *options, "--seed", 5, "--json").stdout)
    assert answer["alpha"] == 0.2
    assert answer["n_resamples"] == 49
    label_priors = ("--source-label-priors", "ant=0.2,bee=0.3,cow=0.5")
    answer = json.loads(invoke(*both, *label_priors, "--json").stdout)
    assert answer["source_label_priors"] == {"ant": 0.2, "bee": 0.3, "cow": 0.5}
    assert answer["method"] == "bootstrap"


def test_exit_codes(invoke, both, same):
    assert invoke(*both).exit_code == 0
    assert invoke(*both, "--fail-on-shift").exit_code == 3
    result = invoke(*same, "--fail-on-shift")
    assert result.exit_code == 0, result.stdout


def test_a_person_reads_the_verdict_and_the_numbers(invoke, both, same):
    shown = invoke(*both, "--fail-on-shift").stdout
    assert "changed (p = 0.001)" in shown
    for word in ("effect size", "power for a shift of 0.1", "p-value of priors alone"):
        assert word in shown
    assert "no evidence that the class balance changed" in invoke(*same).stdout


def test_writes_a_file(invoke, both, tmp_path):
    result = invoke(*both, "--output", tmp_path / "test.json")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert json.loads((tmp_path / "test.json").read_text(encoding="utf-8"))["rejected"] is True


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (("--alpha", "0"), 2, "--alpha"),
        (("--output", "test.csv"), 2, "must end with .json"),
        (("--resamples", "5"), 2, "--resamples must be"),
        (("--seed", "-1"), 2, "--seed"),
    ],
)
def test_bad_usage_is_refused(invoke, both, change, code, message):
    result = invoke(*both, *change)
    assert result.exit_code == code
    assert message in result.stderr
    assert result.stdout == ""


def test_needs_validation(invoke, both):
    result = invoke(*both[2:])
    assert result.exit_code == 2
    assert "needs --validation" in result.stderr
