"""priorshift groups prints and writes what the library computes."""

import csv
import io
import json
from functools import partial

import numpy as np
import pytest

import priorshift as ps
from priorshift.cli import _data, _read
from priorshift.files import _base, open_predictions
from priorshift.groups import estimate_groups

pytestmark = pytest.mark.usefixtures("no_verdict")
assert_close = partial(np.testing.assert_allclose, rtol=0)
"""Numbers in CSV have twelve digits."""

SITES = np.array(["north", "south", "west"])[
    np.r_[np.zeros(90), np.ones(95), np.full(15, 2)].astype(int)
]
FORMATS = ["csv", "parquet", "arrow", "feather", "npz"]


def expected(data, method="scm-l", labels=SITES, **more):
    est = ps.get_estimator(method).fit(data.y_proba_val, data.y_val, classes=data.classes)
    return estimate_groups(est, data.y_proba, labels, **more)


def read_csv(path):
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


@pytest.fixture
def named(data, files, write):
    target = write("sites.csv", data.y_proba, site=SITES)
    return "--validation", files[0], "--target", target, "--group-column", "site"


@pytest.mark.parametrize(
    ("suffix", "method"), [*zip(FORMATS, ["scm-l", "em", "cm-m", "em", "scm-l"], strict=True)]
)
def test_json_is_what_the_library_computes(data, files, write, ask, suffix, method):
    target = write(f"t.{suffix}", data.y_proba, site=SITES)
    answer = ask(
        *("groups", "--validation", files[0], "--target", target),
        *("--group-column", "site", "--method", method),
    )
    found = expected(data, method)
    assert [entry["group"] for entry in answer["groups"]] == ["north", "south", "west"]
    assert [entry["n"] for entry in answer["groups"]] == [90, 95, 15]
    priors = [list(entry["priors"].values()) for entry in answer["groups"]]
    np.testing.assert_allclose(priors, found.priors)
    np.testing.assert_allclose([e["weight"] for e in answer["groups"]], found.weight)
    assert {entry["status"] for entry in answer["groups"]} == {"certified"}
    assert answer["command"] == "groups"
    assert answer["classes"] == ["ant", "bee", "cow"]
    assert answer["pooling"] == (None if np.isinf(found.pooling) else pytest.approx(found.pooling))
    assert answer["whole"]["priors"] == pytest.approx(found.whole.to_dict()["priors"])
    np.testing.assert_allclose(list(answer["pooled"].values()), found.pooled.priors)


def test_intervals_are_asked_for(data, named, ask):
    answer = ask("groups", *named, "--confidence-level", "0.9")
    found = expected(data, confidence_level=0.9)
    bounds = [list(entry["interval"].values()) for entry in answer["groups"]]
    np.testing.assert_allclose(bounds, found.interval)
    assert answer["confidence_level"] == 0.9


@pytest.mark.parametrize(("option", "pooling"), [("none", None), ("25", 25.0), ("inf", np.inf)])
def test_pooling_is_an_option(data, named, ask, option, pooling):
    answer = ask("groups", *named, "--pooling", option)
    priors = [list(entry["priors"].values()) for entry in answer["groups"]]
    np.testing.assert_allclose(priors, expected(data, pooling=pooling).priors)


def test_a_table_for_people(named, ok):
    result = ok("groups", *named)
    assert "Priors by scm-l, by site" in result.stdout
    for word in ("north", "south", "west", "(pooled)", "(source)", "weight", "ant"):
        assert word in result.stdout


def test_many_groups_are_cut_to_those_that_moved(data, files, write, ok):
    target = write("t.csv", data.y_proba, site=np.arange(200) // 5)
    result = ok(
        *("groups", "--validation", files[0], "--target", target, "--group-column", "site"),
        *("--pooling", "none"),
    )
    assert "the 25 of 40 groups that moved most" in result.stdout
    assert len(result.stdout.splitlines()) < 40


def test_csv_has_a_line_a_group(data, named, ok, tmp_path):
    output = tmp_path / "groups.csv"
    ok("groups", *named, "--output", output)
    rows = read_csv(output)
    found = expected(data)
    assert [row["group"] for row in rows] == ["north", "south", "west"]
    priors = [[float(row[f"prior:{name}"]) for name in data.classes] for row in rows]
    assert_close(priors, found.priors)
    ok("groups", *named, "--method", "scm", "--output", output)
    assert read_csv(output)[0]["gap"] == ""
    ok("groups", *named, "--output", tmp_path / "groups.json")
    document = json.loads((tmp_path / "groups.json").read_text(encoding="utf-8"))
    assert len(document["groups"]) == 3


@pytest.mark.parametrize("suffix", FORMATS)
def test_each_row_is_adapted_by_its_group(data, files, write, ask, monkeypatch, suffix):
    monkeypatch.setattr(_base, "BLOCK_ROWS", 64)
    target = write(f"t.{suffix}", data.y_proba, site=SITES)
    output = target.with_name(f"o.{suffix}")
    answer = ask(
        *("groups", "--validation", files[0], "--target", target, "--group-column", "site"),
        *("--adapt", output, "--pooling", "none"),
    )
    found = expected(data, pooling=None)
    adapted = found.adapt(data.y_proba, SITES)
    file = open_predictions(output)
    np.testing.assert_allclose(file.values(["ant", "bee", "cow"]), adapted, atol=1e-12)
    assert file.vector("site").tolist() == SITES.tolist()
    changed = (adapted.argmax(axis=1) != data.y_proba.argmax(axis=1)).sum()
    assert (answer["n_rows"], answer["n_changed"]) == (200, changed)
    assert answer["adapted"] == str(output)


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_large_files_are_read_in_blocks(data, files, write, ask, monkeypatch, suffix):
    monkeypatch.setattr(_read, "IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(_base, "BLOCK_ROWS", 64)
    target = write(f"t.{suffix}", data.y_proba, site=SITES)
    named = ("--validation", files[0], "--target", target, "--group-column", "site")
    for method in ("scm-l", "em"):
        answer = ask("groups", *named, "--method", method)
        priors = [list(entry["priors"].values()) for entry in answer["groups"]]
        np.testing.assert_allclose(priors, expected(data, method).priors)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_column_of_numbers_is_no_class(data, write, ask, suffix):
    weeks = np.arange(200) % 4
    validation = write(f"v.{suffix}", data.y_proba_val, data.y_val, week=np.arange(300) % 9)
    target = write(f"t.{suffix}", data.y_proba, week=weeks)
    answer = ask("groups", "--validation", validation, "--target", target, "--group-column", "week")
    assert answer["classes"] == ["ant", "bee", "cow"]
    assert [entry["group"] for entry in answer["groups"]] == ["0", "1", "2", "3"]
    priors = [list(entry["priors"].values()) for entry in answer["groups"]]
    np.testing.assert_allclose(priors, expected(data, labels=weeks).priors)


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (["2", "10", "9"], ["2", "9", "10"]),
        (["02", "10", "9"], ["02", "10", "9"]),
        (["-1", "x", "9"], ["-1", "9", "x"]),
    ],
)
def test_numbers_are_in_their_order_and_other_names_are_kept(data, files, write, ask, names, order):
    target = write("t.csv", data.y_proba, week=np.array(names)[np.arange(200) % 3])
    output = target.with_name("o.csv")
    answer = ask(
        *("groups", "--validation", files[0], "--target", target),
        *("--group-column", "week", "--class-columns", "ant,bee,cow", "--adapt", output),
    )
    assert [entry["group"] for entry in answer["groups"]] == order
    assert open_predictions(output).vector("week")[:3].tolist() == names


def test_em_needs_no_validation(data, write, ask):
    target = write("t.csv", data.y_proba, site=SITES)
    answer = ask(
        *("groups", "--target", target, "--group-column", "site", "--method", "em"),
        *("--source-priors", "ant=0.5,bee=0.3,cow=0.2", "--class-columns", "ant,bee,cow"),
    )
    em = ps.EM().fit(source_priors=[0.5, 0.3, 0.2])
    found = estimate_groups(em, data.y_proba, SITES)
    priors = [list(entry["priors"].values()) for entry in answer["groups"]]
    np.testing.assert_allclose(priors, found.priors)


def test_clear_errors(data, files, write, named, refuse, tmp_path):
    start = ("groups", "--validation", files[0], "--target")
    message = refuse(1, *start, files[1], "--group-column", "site")
    assert "has no column 'site'" in message
    npy = write("t.npy", data.y_proba)
    assert "use npz, csv or parquet" in refuse(1, *start, npy, "--group-column", "site")
    holes = write("h.csv", data.y_proba, site=["", *SITES[1:]])
    message = refuse(1, *start, holes, "--group-column", "site")
    assert "'site' in" in message
    assert "is empty in 1 rows, first in line 2; name" in message
    missing = write("h.parquet", data.y_proba, site=[None, *SITES[1:].tolist()])
    assert "no label at position 0" in refuse(1, *start, missing, "--group-column", "site")
    assert "'ppi' is not one of 'na', 'auto'" in refuse(2, "groups", *named, "--method", "ppi")
    assert "estimate each group by itself" in refuse(1, "groups", *named, "--method", "rlls")
    assert "neither auto, none" in refuse(2, "groups", *named, "--pooling", "much")
    assert "must end with .csv" in refuse(2, "groups", *named, "--adapt", tmp_path / "o.npz")
    assert "scm-l needs --validation" in refuse(2, "groups", *named[2:])


def test_a_class_is_no_group(both, refuse):
    line = refuse(1, "groups", *both, "--group-column", "ant")
    assert "are not those of" not in line
    assert "Taken as classes: 'bee', 'cow'." in line


# Verdicts


@pytest.fixture
def two_sites(write, verdict):
    """One site as validation is, and one with another class balance."""
    rng = np.random.default_rng(0)

    def draw(n, shares):
        y = rng.choice(3, n, p=shares)
        x = 2.0 * np.eye(3)[y] + rng.normal(size=(n, 3))
        y_proba = np.exp(2.0 * x) * usual
        return y_proba / y_proba.sum(axis=1, keepdims=True), y

    classes, usual = np.array(["ant", "bee", "cow"]), np.array([0.8, 0.15, 0.05])
    y_proba_val, y_val = draw(2000, usual)
    same, shifted = draw(1500, usual)[0], draw(1500, usual[::-1])[0]
    site = np.repeat(["home", "away"], 1500)
    return (
        write("v.csv", y_proba_val, classes[y_val]),
        write("t.csv", np.vstack([same, shifted]), site=site),
        {"home": write("home.csv", same), "away": write("away.csv", shifted)},
    )


def test_every_group_has_the_verdict_of_its_rows(two_sites, ask, ok):
    validation, target, alone = two_sites
    named = ("groups", "--validation", validation, "--group-column", "site", "--pooling", "none")
    answer = ask(*named, "--target", target)
    found = {entry["group"]: entry["verdict"] for entry in answer["groups"]}
    assert found == {"home": "leave", "away": "adapt"}
    known = ("--validation", validation)
    assert answer["verdict"] == ask("assess", *known, "--target", target)["verdict"]
    for site, path in alone.items():
        assert ask("assess", *known, "--target", path)["verdict"] == found[site]
    result = ok(*named, "--target", target)
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["home", "1500", "leave"] in [row[:3] for row in rows]
    assert ["away", "1500", "adapt"] in [row[:3] for row in rows]
    assert "All groups together: " in result.stdout
    assert "verdict: whether to adapt the group" in result.stderr


def test_one_group_has_the_verdict_of_the_whole(two_sites, write, ask):
    validation, _, alone = two_sites
    file = open_predictions(alone["away"], label_column="label")
    y_proba = file.values(["ant", "bee", "cow"])
    target = write("one.csv", y_proba, site=np.repeat("away", len(y_proba)))
    answer = ask("groups", "--validation", validation, "--target", target, "--group-column", "site")
    assert answer["verdict"] == answer["groups"][0]["verdict"] == "adapt"


def test_without_validation_there_is_no_verdict(two_sites, ask):
    _, target, _ = two_sites
    answer = ask(
        *("groups", "--target", target, "--group-column", "site", "--method", "em"),
        *("--source-priors", "ant=0.8,bee=0.15,cow=0.05"),
    )
    assert answer["verdict"] is None
    assert {entry["verdict"] for entry in answer["groups"]} == {None}


def test_too_many_groups_say_which_have_a_verdict(two_sites, run, monkeypatch):
    validation, target, _ = two_sites
    monkeypatch.setattr(_data, "Verdicts", partial(_data.Verdicts, budget=(2000 + 1500) * 13))
    named = ("--validation", validation, "--target", target, "--group-column", "site")
    result = run("groups", *named, "--pooling", "none", "--json")
    found = {entry["group"]: entry["verdict"] for entry in json.loads(result.stdout)["groups"]}
    assert sorted(verdict is None for verdict in found.values()) == [False, True]
    assert "1 of 2 groups have a verdict, those that moved most" in result.stderr


def test_a_table_read_in_blocks_has_the_same_verdicts(two_sites, ask, monkeypatch):
    validation, target, _ = two_sites
    named = ("groups", "--validation", validation, "--target", target, "--group-column", "site")
    whole = ask(*named)
    monkeypatch.setattr(_read, "IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(_base, "BLOCK_ROWS", 64)
    blocks = ask(*named)
    assert [e["verdict"] for e in blocks["groups"]] == [e["verdict"] for e in whole["groups"]]


def test_any_method_estimates_each_group_by_itself(named, ask):
    """A stranger's method needs no batch solver: --pooling none is enough."""
    found = ask("groups", *named, "--method", "rlls", "--pooling", "none")
    assert found["method"] == "rlls"
    assert all(group["weight"] == 1 for group in found["groups"])
