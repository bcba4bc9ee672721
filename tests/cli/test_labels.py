"""Labels of some target rows: --target-label-column, the method ppi, and plan."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import priorshift as ps

pytestmark = pytest.mark.usefixtures("no_verdict")


@pytest.fixture
def some(data):
    """Labels of every fourth row of the target."""
    return np.where(np.arange(data.y.size) % 4 == 0, data.y.astype(object), None)


@pytest.fixture
def target(request, data, some, tmp_path):
    """A target with a column of labels, most of them missing."""
    suffix = getattr(request, "param", "csv")
    columns = {name: data.y_proba[:, k] for k, name in enumerate(data.classes)}
    columns["checked"] = some
    path = tmp_path / f"labelled.{suffix}"
    table = pa.table(columns)
    if suffix == "parquet":
        pq.write_table(table, path)
    else:
        table.to_pandas().to_csv(path, index=False)
    return path


LABELS = ("--target-label-column", "checked")


@pytest.mark.parametrize("target", ["csv", "parquet"], indirect=True)
def test_ppi_needs_no_validation(data, some, target, ask, ok):
    answer = ask("estimate", "--target", target, *LABELS, "--method", "ppi")
    expected = ps.PPI().fit(classes=data.classes).estimate(data.y_proba, y_target=some)
    assert answer["priors"] == pytest.approx(dict(zip(data.classes, expected.priors, strict=True)))
    assert answer["source_priors"] is None
    assert answer["ratio"] is None
    shown = ok(
        "estimate", "--target", target, *LABELS, "--method", "ppi", "--confidence-level", 0.9
    )
    assert "90% interval" in shown.stdout
    assert "source priors: unknown" in shown.stderr


def test_ppi_beside_validation(files, target, ask, tmp_path):
    named = ("--validation", files[0], "--target", target, *LABELS)
    answer = ask("estimate", *named, "--method", "ppi", "--confidence-level", 0.95)
    assert answer["interval_method"] == "prediction-powered"
    assert answer["ratio"] is not None
    adapted = ask("adapt", *named, "--method", "ppi", "--output", tmp_path / f"o{target.suffix}")
    assert adapted["priors"] == answer["priors"]


def test_em_with_labels_uses_them(data, some, files, target, ask, tmp_path):
    named = ("--validation", files[0], "--target", target, "--method", "em-labels")
    level = ("--confidence-level", 0.9)
    fitted = ps.SemiSupervisedEM().fit(data.y_proba_val, data.y_val, classes=data.classes)
    expected = fitted.estimate(data.y_proba, 0.9, 0, y_target=some)
    answer = ask("estimate", *named, *LABELS, *level)
    assert list(answer["priors"].values()) == pytest.approx(expected.priors.tolist())
    assert np.array(list(answer["interval"].values())) == pytest.approx(expected.interval)
    assert answer["interval_method"] == "bootstrap"
    plain = ask("estimate", *named)
    assert plain["priors"] != answer["priors"]
    adapted = ask("adapt", *named, *LABELS, "--output", tmp_path / f"o{target.suffix}")
    assert adapted["priors"] == answer["priors"]
    assessed = ask("assess", *named, *LABELS)
    estimated = assessed["estimate"]["priors"].values()
    assert list(estimated) == pytest.approx(expected.priors.tolist())
    assert assessed["priors"] == assessed["shares_to_report"]["priors"] != assessed["estimate"]
    chosen = ("--method", "na", "--method", "em-labels")
    compared = ask("compare", *named[:4], *LABELS, *chosen)["methods"][1]
    assert list(compared["priors"].values()) == pytest.approx(expected.priors.tolist())
    assert compared["scores"]["l1_error"] is None


def test_labels_that_nobody_named_are_not_used_by_em(data, files, write, ask):
    """A complete column of labels is there to judge methods by, unless it is named."""
    target = write("t.csv", data.y_proba, data.y)
    named = ("--validation", files[0], "--target", target, "--method", "em-labels")
    fitted = ps.SemiSupervisedEM().fit(data.y_proba_val, data.y_val, classes=data.classes)
    expected = fitted.estimate(data.y_proba).priors
    assert list(ask("estimate", *named)["priors"].values()) == pytest.approx(expected.tolist())
    shares = np.unique(data.y, return_counts=True)[1] / data.y.size
    found = ask("estimate", *named, "--target-label-column", "label")["priors"]
    assert list(found.values()) == pytest.approx(shares.tolist())


def test_assess_uses_the_labels(files, target, ask):
    answer = ask("assess", "--validation", files[0], "--target", target, *LABELS)
    assert answer["ppi"]["method"] == "ppi"
    assert answer["measured"]["n_labelled"] > 2
    assert answer["shares_to_report"]["method"] == "ppi"


def test_minus_one_is_no_label(data, write, ask):
    y = np.where(np.arange(data.y.size) % 4 == 0, np.unique(data.y, return_inverse=True)[1], -1)
    target = write("t.npz", data.y_proba, y, classes=(0, 1, 2))
    found = ask("estimate", "--target", target, "--target-label-column", "y", "--method", "ppi")
    expected = ps.PPI().fit(classes=range(3)).estimate(data.y_proba, y_target=y)
    assert list(found["priors"].values()) == pytest.approx(expected.priors.tolist())


# Decisions and labels, as from a judge


@pytest.mark.parametrize("names", [("bad", "good"), (0, 1)])
def test_a_judge_and_some_labels_suffice(names, tmp_path, rng, ask, refuse, run):
    names = np.array(names)
    y = (rng.random(600) < 0.3).astype(int)
    verdict = np.where(rng.random(600) < 0.85, y, 1 - y)
    some = np.where(np.arange(600) < 100, names[y].astype(object), None)
    table = pa.table({"verdict": names[verdict], "human": some})
    table.to_pandas().to_csv(tmp_path / "judged.csv", index=False)
    named = ("--target", tmp_path / "judged.csv", "--predicted-column", "verdict")
    labels = ("--target-label-column", "human", "--confidence-level", 0.95)
    answer = ask("estimate", *named, *labels, "--method", "ppi")
    expected = (
        ps.PPI()
        .fit(classes=names)
        .estimate(y_pred=names[verdict], y_target=some, confidence_level=0.95)
    )
    assert list(answer["priors"]) == [str(name) for name in names]
    assert list(answer["priors"].values()) == pytest.approx(expected.priors.tolist())
    assert np.array(list(answer["interval"].values())) == pytest.approx(expected.interval)
    assert "--target-label-column" in refuse(2, "estimate", *named, "--method", "ppi")
    # beside validation, the labels of the target are still those that count
    pa.table({"verdict": names[verdict], "label": names[y]}).to_pandas().to_csv(
        tmp_path / "v.csv", index=False
    )
    both = ("--validation", tmp_path / "v.csv", *named, *labels[:2])
    assert ask("estimate", *both, "--method", "ppi")["priors"] == pytest.approx(answer["priors"])
    methods = [one["method"] for one in ask("compare", *both)["methods"]]
    assert methods == ["cm", "cm-l", "cm-m", "bbse", "rlls", "joint", "ppi"]


def test_errors_say_what_to_do(data, target, write, refuse):
    named = ("--target", target, "--method", "ppi")
    line = refuse(1, "estimate", *named, "--target-label-column", "nothing")
    assert "nothing" in line
    assert "--target-label-column" in line
    assert "--target-label-column" in refuse(2, "estimate", *named)
    strange = write("strange.csv", data.y_proba, ["yak", *data.y[1:]])
    line = refuse(
        1, "estimate", "--target", strange, "--target-label-column", "label", "--method", "ppi"
    )
    assert "yak" in line


# plan


def test_plan_is_labels_needed(data, files, ask, ok):
    answer = ask("plan", "--width", 0.04)
    assert (answer["labels"], answer["with_predictions"]) == (2401, None)
    answer = ask("plan", "--width", 0.04, "--validation", files[0])
    index = np.searchsorted(data.classes, data.y_val)
    confusion = ps.Confusion.from_arrays(data.y_proba_val, index, decision="hard")
    expected = ps.labels_needed(width=0.04, confusion=confusion)
    assert (answer["labels"], answer["with_predictions"]) == (
        expected,
        expected.with_predictions,
    )
    shown = ok("plan", "--width", 0.04, "--confidence-level", 0.9)
    needed = ps.labels_needed(width=0.04, confidence_level=0.9)
    assert f"{needed:,} target rows" in shown.stdout
    assert "ppi" in ok("plan", "--width", 0.1, "--validation", files[0]).stdout


def test_plan_says_what_is_wrong(files, refuse):
    assert "--width" in refuse(2, "plan")
    assert "no labels" in refuse(1, "plan", "--width", 0.1, "--validation", files[1])


# Labels in a file of their own: --labels, joined by --key


@pytest.fixture(params=["csv", "parquet", "npz"])
def apart(request, data, rng, tmp_path, write):
    """Validation without labels, and its labels in another order, by file name."""
    names = np.array([f"img{i:03}" for i in range(data.y_val.size)])
    order = rng.permutation(names.size)
    validation = write(f"v.{request.param}", data.y_proba_val, filename=names)
    labels = tmp_path / f"labels.{request.param}"
    if request.param == "npz":
        np.savez(labels, filename=names[order], y=data.y_val[order])
    else:
        table = pa.table({"filename": names[order], "label": data.y_val[order]})
        if request.param == "parquet":
            pq.write_table(table, labels)
        else:
            table.to_pandas().to_csv(labels, index=False)
    return validation, labels


def test_labels_are_joined_by_the_column_that_both_files_have(apart, both, ask, ok):
    named = ("--validation", apart[0], "--labels", apart[1], *both[2:])
    expected = ask("estimate", *both)["priors"]
    result = ok("estimate", *named, "--json")
    assert json.loads(result.stdout)["priors"] == expected
    assert "row by row" not in result.stderr
    assert ask("estimate", *named, "--key", "filename")["priors"] == expected
    assert ask("plan", "--width", 0.1, *named[:4]) == ask("plan", "--width", 0.1, *both[:2])


def test_the_only_column_beside_the_key_holds_the_labels(data, both, write, ask, tmp_path):
    names = [f"img{i:03}" for i in range(data.y_val.size)]
    validation = write("v.csv", data.y_proba_val, filename=names)
    labels = tmp_path / "labels.csv"
    lines = [f"{name},{y}" for name, y in zip(names, data.y_val, strict=True)][::-1]
    labels.write_text("\n".join(["filename,species", *lines]))
    named = ("--validation", validation, "--labels", labels, *both[2:])
    assert ask("estimate", *named)["priors"] == ask("estimate", *both)["priors"]


def test_without_a_shared_column_labels_are_joined_by_position(data, both, write, ok, refuse):
    validation = write("v.csv", data.y_proba_val)
    for name in ("y.csv", "y.npz"):
        labels = write(name, data.y_proba_val[:, :0], data.y_val, classes=())
        result = ok("estimate", "--validation", validation, "--labels", labels, *both[2:], "--json")
        assert (
            json.loads(result.stdout)["priors"]
            == json.loads(ok("estimate", *both, "--json").stdout)["priors"]
        )
        assert "row by row" in result.stderr
    labels = write("y.csv", data.y_proba_val[1:, :0], data.y_val[1:], classes=())
    line = refuse(1, "estimate", "--validation", validation, "--labels", labels, *both[2:])
    assert "299 labels" in line
    assert "300 rows" in line


def test_keys_that_differ_or_repeat_are_refused(data, both, write, refuse):
    names = [f"img{i:03}" for i in range(data.y_val.size)]
    validation = write("v.csv", data.y_proba_val, filename=names)
    nothing = data.y_proba_val[:, :0]
    named = ("estimate", "--validation", validation, *both[2:], "--labels")
    other = write("y.csv", nothing, data.y_val, classes=(), filename=[f"x{n}" for n in names])
    line = refuse(1, *named, other)
    assert "'img000', 'img001', 'img002' and 297 more only in 'filename' in" in line
    labels = np.where(np.arange(data.y_val.size) == 0, "another", data.y_val)
    twice = write("y.csv", nothing, labels, classes=(), filename=[names[1], *names[1:]])
    assert "repeats 'img001'; keep one row of each" in refuse(1, *named, twice)
    assert "has no column 'id'" in refuse(1, *named, twice, "--key", "id")
    two = write("y.csv", nothing, data.y_val, classes=(), filename=names, ant=names)
    assert "the key with --key" in refuse(1, *named, two)
    assert "--labels" in refuse(2, "estimate", *both, "--key", "filename")


def test_without_validation_labels_of_the_target_are_enough(target, ask, refuse):
    answer = ask("estimate", "--target", target, *LABELS, "--method", "ppi")
    assert answer["method"] == "ppi"
    line = refuse(2, "estimate", "--target", target, *LABELS)
    assert "ppi only --target-label-column" in line
