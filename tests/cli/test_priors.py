"""Priors typed on the command line or read from files."""

import json
from itertools import cycle

import numpy as np
import pytest

import priorshift as ps

pytestmark = pytest.mark.usefixtures("no_verdict")

OPTIONS = ("--source-priors", "--source-label-priors", "--known-priors")


@pytest.fixture
def given(ask, both, tmp_path):
    """Return the priors that an option was understood to give."""

    def understood(option, text, *more):
        if option == "--known-priors":
            output = ("--output", tmp_path / "o.csv")
            answer = ask("adapt", *both, option, text, *output, *more)
            return answer["priors"]
        answer = ask("estimate", *both, option, text, "--method", "em", *more)
        return answer["source_priors"]

    return understood


def close(**priors):
    return pytest.approx(priors, abs=1e-12)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--source-priors", "ant=0.5,bee=0.3,cow=0.2"),
        ("--known-priors", " cow = 0.2 , ant=.5,bee=3e-1"),
        ("--source-priors", "ant=50,bee=30,cow=20"),
        ("--known-priors", "bee=0.3,cow=0.2"),
        ("--source-priors", "ant=0.5, bee=0.3"),
    ],
)
def test_pairs(given, option, text):
    assert given(option, text) == close(ant=0.5, bee=0.3, cow=0.2)


def test_a_class_left_out_may_get_nothing(given):
    assert given("--known-priors", "ant=1,bee=0") == close(ant=1.0, bee=0.0, cow=0.0)


BAD_PAIRS = [
    ("ant=0.5,bee=x,cow=0.2", "'bee=x' is not NAME=VALUE with a number."),
    ("ant=0.5,bee,cow=0.2", "'bee' is not NAME=VALUE with a number."),
    ("ant=50%,bee=30%", "'ant=50%' is not NAME=VALUE with a number. Write 0.85 instead of 85%."),
    ("ant=0.5,dog=0.3,cow=0.2", "the list names the classes 'ant', 'dog', 'cow' but the"),
    ("ant=30,bee=70", "the list names the classes 'ant', 'bee' but the classes are"),
    ("ant=0.5", "the list names the classes 'ant' but"),
    ("ant=-0.1,bee=0.6,cow=0.5", "at least 0; got -0.1 for class 'ant'"),
    ("ant=-1,bee=6,cow=5", "at least 0; got -1.0 for class 'ant'"),
    ("ant=nan,bee=0.6,cow=0.5", "must be finite and at least 0; got nan"),
    ("ant=inf,bee=1,cow=1", "must be finite and at least 0; got inf"),
    ("ant=0.5,bee=0.6,cow=0.5", "must sum to 1"),
    ("ant=0.5,ant=0.3,cow=0.2", "'ant' is named twice."),
    ("nowhere.csv", "'nowhere.csv' is neither a file nor NAME=VALUE,..."),
    (",".join(f"class{k}=0.001" for k in range(1000)), "the list names the classes 'class0'"),
]


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [(option, *case) for option, case in zip(cycle(OPTIONS), BAD_PAIRS, strict=False)],
)
def test_bad_pairs_are_bad_usage(both, refuse, option, text, message):
    command = ("adapt", *both) if option == "--known-priors" else ("estimate", *both)
    line = refuse(2, *command, option, text)
    assert line.startswith(f"Invalid value for '{option}': ")
    assert message in line


# Files


@pytest.mark.parametrize(
    ("option", "priors"),
    [
        ("--source-priors", {"cow": 0.2, "ant": 0.5, "bee": 0.3}),
        ("--known-priors", {"ant": 5, "bee": 3, "cow": 2}),
    ],
)
def test_json_from_class_to_number(given, tmp_path, option, priors):
    (tmp_path / "p.JSON").write_text(json.dumps(priors))
    assert given(option, tmp_path / "p.JSON") == close(ant=0.5, bee=0.3, cow=0.2)


@pytest.mark.parametrize("suffix", [".json", ".csv"])
def test_an_estimate_can_be_handed_on(given, ok, ask, both, tmp_path, suffix):
    ok("estimate", *both, "--output", tmp_path / f"e{suffix}")
    answer = ask("estimate", *both)
    assert given("--known-priors", tmp_path / f"e{suffix}") == pytest.approx(answer["priors"])
    assert given("--source-priors", tmp_path / f"e{suffix}") == pytest.approx(
        answer["source_priors"]
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is not JSON"), ("[0.5, 0.5]", "must hold an object"), ('{"ant": "x"}', "must hold an")],
)
def test_bad_json(both, refuse, tmp_path, text, message):
    (tmp_path / "p.json").write_text(text)
    line = refuse(1, "estimate", *both, "--source-priors", tmp_path / "p.json")
    assert line.startswith(f"{tmp_path / 'p.json'} {message}")


@pytest.mark.parametrize("column", ["source_priors", "source_prior", "prior", "count"])
def test_a_table_of_priors(given, tmp_path, column):
    factor = 10 if column == "count" else 1
    rows = [f"{name},{factor * p:g}" for name, p in [("cow", 0.2), ("ant", 0.5), ("bee", 0.3)]]
    (tmp_path / "p.csv").write_text("\n".join([f"class,{column}", *rows]))
    assert given("--source-priors", tmp_path / "p.csv") == close(ant=0.5, bee=0.3, cow=0.2)


def test_a_vector_of_priors_is_in_class_order(given, tmp_path):
    np.save(tmp_path / "p.npy", [0.5, 0.3, 0.2])
    np.savez(tmp_path / "p.npz", source_priors=[0.5, 0.3, 0.2])
    (tmp_path / "p.csv").write_text("source_priors\n0.5\n0.3\n0.2\n")
    for name in ("p.npy", "p.npz", "p.csv"):
        assert given("--source-priors", tmp_path / name) == close(ant=0.5, bee=0.3, cow=0.2)


def test_classes_in_an_npz_are_heeded(given, both, refuse, tmp_path):
    np.savez(tmp_path / "p.npz", source_priors=[0.2, 0.5, 0.3], classes=["cow", "ant", "bee"])
    assert given("--source-priors", tmp_path / "p.npz") == close(ant=0.5, bee=0.3, cow=0.2)
    np.savez(tmp_path / "p.npz", source_priors=[0.2, 0.5, 0.3], classes=["x", "y", "z"])
    line = refuse(1, "estimate", *both, "--source-priors", tmp_path / "p.npz")
    assert "p.npz names the classes 'x', 'y', 'z' but the classes are 'ant', 'bee', 'cow'" in line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class,prior\nant,x\nbee,1\ncow,2\n", "column 'prior' of {} must hold numbers"),
        ("class,prior\nant,1\nant,1\ncow,2\n", "{} must name each class once, beside its number"),
        ("colour\nred\n", "{} has nothing that --source-priors can use: no priors"),
        ("", "{} is empty"),
    ],
)
def test_bad_tables_are_named(both, refuse, tmp_path, text, message):
    path = tmp_path / "p.csv"
    path.write_text(text)
    line = refuse(1, "estimate", *both, "--source-priors", path)
    assert line.startswith(message.format(path))


def test_source_priors_of_a_validation_npz_are_used(data, write, ask, tmp_path):
    order = [2, 0, 1]
    validation = write(
        "v.npz",
        data.y_proba_val[:, order],
        data.y_val,
        classes=data.classes[order],
        source_priors=[0.2, 0.5, 0.3],
    )
    named = ("--validation", validation, "--target", write("t.csv", data.y_proba))
    answer = ask("estimate", *named)
    assert answer["source_priors"] == close(ant=0.5, bee=0.3, cow=0.2)
    assert answer["source_priors_from"] == "given"
    typed = ask("estimate", *named, "--source-priors", "ant=0.2,bee=0.2,cow=0.6")
    assert typed["source_priors"] == close(ant=0.2, bee=0.2, cow=0.6)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz", "npy"])
def test_predictions_are_averaged(data, write, given, suffix):
    path = write(f"train.{suffix}", data.y_proba, data.y)
    mean = dict(zip(data.classes, ps.priors_from_predictions(data.y_proba), strict=True))
    assert given("--source-priors", path) == close(**mean)


def test_logits_are_averaged_as_probabilities(data, write, ask):
    mean = dict(zip(data.classes, ps.priors_from_predictions(data.y_proba), strict=True))
    train = write("train.csv", np.log(data.y_proba))
    named = (
        ("--validation", write("v.csv", np.log(data.y_proba_val), data.y_val)),
        ("--target", write("t.csv", np.log(data.y_proba))),
        ("--source-priors", train),
    )
    answer = ask("estimate", *(word for pair in named for word in pair), "--logits")
    assert answer["source_priors"] == close(**mean)


@pytest.mark.parametrize("suffix", ["csv", "npz", "parquet"])
def test_labels_are_counted(data, refuse, write, ask, both, suffix, tmp_path):
    path = write(f"train.{suffix}", data.y_proba, data.y)
    counts = dict(zip(data.classes, ps.priors_from_labels(data.y), strict=True))
    shift = ps.SCML().fit(
        data.y_proba_val, data.y_val, classes=data.classes, source_label_priors=counts
    )
    answer = ask("estimate", *both, "--source-label-priors", path)
    assert answer["priors"] == shift.estimate(data.y_proba).to_dict()["priors"]
    assert "source_label_priors" in answer["source_priors_from"]
    alone = tmp_path / "alone.csv"
    alone.write_text("label\n" + "\n".join(data.y))
    assert ask("estimate", *both, "--source-label-priors", alone)["priors"] == answer["priors"]
    line = refuse(1, "estimate", *both, "--source-priors", alone)
    assert "has nothing that --source-priors can use" in line


def test_predictions_alone_are_no_label_priors(data, write, both, refuse):
    path = write("train.csv", data.y_proba)
    line = refuse(1, "estimate", *both, "--source-label-priors", path)
    assert line.startswith(f"{path} has nothing that --source-label-priors can use")


# Without validation


def test_em_needs_source_priors_alone(data, files, ask, refuse):
    target = ("--target", files[1])
    answer = ask("estimate", *target, "--method", "em", "--source-priors", "ant=1,bee=1,cow=1")
    shift = ps.EM().fit(source_priors=np.full(3, 1 / 3), classes=data.classes)
    assert answer["priors"] == shift.estimate(data.y_proba).to_dict()["priors"]
    line = refuse(2, "estimate", *target, "--source-priors", "ant=1,bee=1,cow=1")
    assert line == (
        "scm-l needs --validation here; em and map need only --source-priors, ppi only "
        "--target-label-column."
    )
    line = refuse(2, "estimate", *target, "--method", "em")
    assert line.startswith("em needs --validation here")


def test_known_priors_need_source_priors(files, refuse):
    line = refuse(2, "adapt", "--target", files[1], "--known-priors", "ant=1,bee=1,cow=1")
    assert line.startswith("--known-priors need the priors that the model was trained under")


def test_one_number_for_two_classes(data, write, ask, refuse, files):
    p, y = data.y_proba_val[:, 1], (data.y_val == "bee").astype(int)
    validation = write("b.csv", np.column_stack([1 - p, p]), y, classes=["0", "1"])
    both = ("--validation", validation, "--target", validation)
    one = ask("estimate", *both, "--source-priors", "0.25")
    assert one["source_priors"] == {"0": 0.75, "1": 0.25}
    assert one["priors"] == ask("estimate", *both, "--source-priors", "0=0.75,1=0.25")["priors"]
    three = ("--validation", files[0], "--target", files[1])
    said = refuse(2, "estimate", *three, "--source-priors", "0.25")
    assert "a single number (0.25), the prior of the positive class of two" in said
