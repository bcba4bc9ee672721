"""What errors cost, on the command line: --costs."""

import json

import numpy as np
import pytest

import priorshift as ps

TABLE = "true,ant,bee,cow\ncow,5,5,0\nant,0,1,1\nbee,1,0,1\n"
MATRIX = np.array([[0, 1, 1], [1, 0, 1], [5, 5, 0.0]])


@pytest.fixture(params=["csv", "json"])
def costs(request, tmp_path):
    path = tmp_path / f"costs.{request.param}"
    pairs = {"cow": {"ant": 5, "bee": 5}}
    path.write_text(TABLE if request.param == "csv" else json.dumps(pairs), encoding="utf-8")
    return path


def test_the_verdict_rests_on_costs(data, both, costs, ask, ok):
    answer = ask("assess", *both, "--costs", costs, "--method", "auto")
    found = ps.assess(
        data.y_proba_val, data.y_val, data.y_proba, classes=data.classes, costs=MATRIX
    )
    assert answer["goal"] == "cost"
    assert answer["verdict"] == found.verdict
    assert answer["gain"]["value"] == pytest.approx(found.gain.value)
    assert "cost" in ok("assess", *both, "--costs", costs, "--method", "auto").stdout


def test_auto_decides_by_costs(both, costs, ask):
    answer = ask("estimate", *both, "--costs", costs, "--method", "auto")
    assert answer["decision"]["goal"] == "cost"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("c.json", "[1, 2]", "does not hold costs"),
        ("c.json", '{"ant": {"yak": 1}}', "yak"),
        ("c.csv", "true,ant\nant,0,1\n", "does not hold costs"),
        ("c.csv", "true,ant\nant,much\n", "must be a finite number"),
    ],
)
def test_a_file_that_is_no_table_of_costs(both, tmp_path, refuse, name, text, said):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert said in refuse(1, "assess", *both, "--costs", path)
