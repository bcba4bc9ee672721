"""Bundled data sets: what they hold, that they are what was made, and how they are made."""

import gzip
import hashlib
import io
import math
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import priorshift as ps
from lab import fashion_lt
from lab.fashion_lt import long_tail_counts, pack_proba, write_archive
from lab.paper.distributions import draw_parts
from lab.paper.images import read_idx
from priorshift.border import check_priors, check_proba
from priorshift.datasets import ShiftedPredictions, load_fashion_lt
from priorshift.datasets._predictions import read_archive, unpack_proba

DEBIAN = Path("/usr/share/datasets/fashion-mnist")

COUNTS = {  # of validation and target, as ORIGIN.md documents them
    "T-shirt/top": (1500, 200),
    "Trouser": (194, 409),
    "Pullover": (42, 699),
    "Dress": (539, 286),
    "Coat": (15, 1000),
    "Sandal": (899, 239),
    "Shirt": (116, 489),
    "Sneaker": (323, 342),
    "Bag": (70, 585),
    "Ankle boot": (25, 836),
}


@pytest.fixture(scope="module")
def data():
    return load_fashion_lt()


@pytest.fixture(scope="module")
def origin():
    return files("priorshift.datasets").joinpath("ORIGIN.md").read_text(encoding="utf-8")


def accuracy(data, y_proba):
    return (data.classes[y_proba.argmax(axis=1)] == data.y_target).mean()


def estimate(data, method):
    fitted = ps.get_estimator(method).fit(
        data.y_proba_val, data.y_val, source_priors=data.source_priors, classes=data.classes
    )
    return fitted.estimate(data.y_proba_target)


def true_priors(data):
    return ps.priors_from_labels(data.y_target, classes=data.classes)


# What load_fashion_lt gives


@pytest.mark.parametrize("part", ["y_proba_val", "y_proba_target"])
def test_predictions_are_probabilities(data, part):
    values = check_proba(getattr(data, part)).values
    np.testing.assert_allclose(values.sum(axis=1), 1.0, rtol=0, atol=1e-14)
    assert values.min() > 0  # so that any class can be adapted to, and log loss is finite


def test_source_priors_are_close_to_the_training_balance(data):
    check_priors(data.source_priors, data.classes, "source_priors")
    trained = fashion_lt.TRAIN / fashion_lt.TRAIN.sum()
    assert np.abs(data.source_priors - trained).sum() < 0.03


def test_labels_are_counted_as_documented(data, origin):
    assert data.classes.tolist() == list(COUNTS)
    for position, labels in enumerate([data.y_val, data.y_target]):
        names, counts = np.unique(labels, return_counts=True)
        assert dict(zip(names.tolist(), counts.tolist(), strict=True)) == {
            name: pair[position] for name, pair in COUNTS.items()
        }
    for name, (n_val, n_target) in COUNTS.items():
        assert re.search(
            rf"^\| {re.escape(name)} \| \d+ \| {n_val} \| {n_target} \|$", origin, re.MULTILINE
        )


def test_rows_are_in_no_order(data):
    for labels in (data.y_val, data.y_target):
        halves = np.array_split(labels, 2)
        first, second = (ps.priors_from_labels(half, classes=data.classes) for half in halves)
        assert np.abs(first - second).sum() < 0.15


def test_arrays_are_read_only_and_fresh_at_every_load(data):
    with pytest.raises(ValueError, match="read-only"):
        data.y_proba_val[0, 0] = 1.0
    with pytest.raises(AttributeError):
        data.name = "other"
    assert load_fashion_lt().y_proba_val is not data.y_proba_val


def test_a_data_set_leaves_the_arrays_it_is_made_of_writable():
    priors = np.array([0.5, 0.5])
    names = np.array(["a", "b"])
    made = ShiftedPredictions("toy", "", names, np.eye(2), names, np.eye(2), names, priors)
    assert not made.source_priors.flags.writeable
    assert priors.flags.writeable


def test_description_tells_the_origin(data):
    for fact in ["Zalando", "1708.07747", "Expat", "MLPClassifier", "seed 0", "scikit-learn 1."]:
        assert fact in data.description
    assert max(map(len, data.description.splitlines())) <= 100
    assert repr(data) == "ShiftedPredictions('fashion_lt', n_classes=10, n_val=3723, n_target=5085)"


# The file


def test_file_is_the_one_that_was_made(origin):
    content = files("priorshift.datasets").joinpath("fashion_lt.npz").read_bytes()
    assert f"`{hashlib.sha256(content).hexdigest()}`" in origin
    assert f"| bytes | {len(content)} |" in origin
    assert len(content) < 200_000


def test_origin_quotes_the_description_and_the_accuracies(data, origin):
    assert data.description in origin
    oracle = ps.adapt_proba(data.y_proba_target, data.source_priors, true_priors(data))
    assert f"unadapted | {accuracy(data, data.y_proba_target):.4f} |" in origin
    assert f"true priors | {accuracy(data, oracle):.4f} |" in origin


def test_loading_needs_no_classifier():
    code = (
        "import sys; from priorshift.datasets import load_fashion_lt; load_fashion_lt(); "
        "assert 'sklearn.neural_network' not in sys.modules, 'scikit-learn networks'; "
        "assert 'lab.fashion_lt' not in sys.modules, 'the script'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# The shift is worth adapting to


def test_shift_is_large_and_hurts(data):
    decided = data.classes[data.y_proba_val.argmax(axis=1)]
    assert 0.92 < (decided == data.y_val).mean() < 0.94
    assert 0.62 < accuracy(data, data.y_proba_target) < 0.65
    assert np.abs(data.source_priors - true_priors(data)).sum() > 1.3


def test_true_priors_give_back_what_the_shift_took(data):
    oracle = ps.adapt_proba(data.y_proba_target, data.source_priors, true_priors(data))
    assert accuracy(data, oracle) > accuracy(data, data.y_proba_target) + 0.16


@pytest.mark.filterwarnings("ignore::priorshift.PriorShiftWarning")  # cm and bbse clip
def test_every_method_helps(data):
    for method in set(ps.available_estimators()) - {"na", "mean"}:
        shift = estimate(data, method)
        assert np.abs(shift.priors - true_priors(data)).sum() < 0.5, method
        adapted = accuracy(data, shift.adapt(data.y_proba_target))
        assert adapted > accuracy(data, data.y_proba_target) + 0.05, method


@pytest.mark.parametrize(
    ("method", "gain", "l1_error"),
    [("scm-l", 0.15, 0.21), ("scm-m", 0.15, 0.18), ("em", 0.16, 0.06), ("map", 0.16, 0.06)],
)
def test_adaptation_gains_the_documented_margin(data, method, gain, l1_error):
    shift = estimate(data, method)
    assert np.abs(shift.priors - true_priors(data)).sum() < l1_error
    adapted = accuracy(data, shift.adapt(data.y_proba_target))
    assert adapted > accuracy(data, data.y_proba_target) + gain


# Packing


@given(
    arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(2, 6)), elements=st.floats(-15, 15))
)
def test_packing_keeps_a_thousandth_of_every_probability(logits):
    proba = np.exp(logits)
    proba /= proba.sum(axis=1, keepdims=True)
    restored = unpack_proba(pack_proba(proba))
    np.testing.assert_allclose(restored, proba, rtol=1.01 / 1024)
    np.testing.assert_allclose(restored.sum(axis=1), 1.0, rtol=0, atol=1e-14)
    chosen = restored.argmax(axis=1)[:, None]  # another only where two are all but equal
    lost = np.log(proba.max(axis=1)) - np.log(np.take_along_axis(proba, chosen, axis=1))[:, 0]
    assert lost.max() <= 0.51 / 1024


def test_packing_twice_changes_nothing_more():
    codes = pack_proba(np.random.default_rng(0).dirichlet(np.full(5, 0.1), 200))
    np.testing.assert_array_equal(pack_proba(unpack_proba(codes)), codes)


def test_packing_raises_zeros_to_the_smallest_it_can_keep():
    restored = unpack_proba(pack_proba(np.array([[1.0, 0.0], [0.5, 0.5]])))
    assert restored[0, 1] == pytest.approx(math.exp(-65535 / 1024))
    assert restored[1].tolist() == [0.5, 0.5]


def test_archive_round_trip_with_classes_out_of_order():
    rng = np.random.default_rng(0)
    classes = np.array(["pear", "apple", "fig"])
    made = ShiftedPredictions(
        name="fruit",
        description="Two lines,\nof UTF-8: ½",
        classes=classes,
        y_proba_val=rng.dirichlet(np.ones(3), 20),
        y_val=rng.choice(classes, 20),
        y_proba_target=rng.dirichlet(np.ones(3), 30),
        y_target=rng.choice(classes, 30),
        source_priors=np.array([0.5, 0.3, 0.2]),
    )
    first, again = io.BytesIO(), io.BytesIO()
    write_archive(first, made)
    write_archive(again, made)
    assert first.getvalue() == again.getvalue()
    first.seek(0)
    kept = read_archive(first)
    assert (kept.name, kept.description) == (made.name, made.description)
    for field in ("classes", "y_val", "y_target", "source_priors"):
        np.testing.assert_array_equal(getattr(kept, field), getattr(made, field))
    np.testing.assert_allclose(kept.y_proba_val, made.y_proba_val, rtol=1e-3)
    np.testing.assert_allclose(kept.y_proba_target, made.y_proba_target, rtol=1e-3)


# Making


def test_long_tail_counts_fall_exponentially_along_the_order():
    counts = long_tail_counts([2, 0, 3, 1], 8000, 8.0)
    assert counts.tolist() == [4000, 1000, 8000, 2000]
    assert long_tail_counts(range(5), 7, 1.0).tolist() == [7] * 5


@given(st.integers(0, 2**32 - 1))
def test_parts_are_disjoint_and_counted(seed):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(4), [9, 5, 0, 7]))
    wanted = [np.array([4, 1, 0, 7]), np.array([5, 0, 0, 0]), np.array([0, 3, 0, 0])]
    parts = draw_parts(y, wanted, rng)
    for rows, counts in zip(parts, wanted, strict=True):
        np.testing.assert_array_equal(np.bincount(y[rows], minlength=4), counts)
    rows = np.concatenate(parts)
    assert np.unique(rows).size == rows.size


def test_every_row_may_be_drawn():
    y = np.repeat([0, 1], 10)
    drawn = [
        draw_parts(y, [np.array([1, 2])], np.random.default_rng(seed))[0] for seed in range(200)
    ]
    assert np.unique(np.concatenate(drawn)).size == y.size


def test_parts_larger_than_the_data_are_refused():
    with pytest.raises(ValueError, match="class 1 has 2 samples, but counts asks for 3"):
        draw_parts(np.array([0, 1, 1]), [np.array([1, 3])], np.random.default_rng(0))


def write_idx(path, values):
    header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, dtype=">u4").tobytes()
    path.write_bytes(gzip.compress(header + values.tobytes(), compresslevel=1))


@pytest.fixture
def tiny_images(tmp_path):
    """As many images as Fashion-MNIST has, of two pixels that tell something of the class."""
    rng = np.random.default_rng(0)
    for part, n_each in [("train", 6000), ("t10k", 1000)]:
        y = np.repeat(np.arange(10, dtype=np.uint8), n_each)
        pixels = 25 * y[:, None, None] + rng.integers(0, 30, (y.size, 1, 2))
        write_idx(tmp_path / f"{part}-images-idx3-ubyte.gz", pixels.astype(np.uint8))
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte.gz", y)
    return tmp_path


def test_read_idx_reads_what_was_written(tmp_path):
    values = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    write_idx(tmp_path / "x.gz", values)
    np.testing.assert_array_equal(read_idx(tmp_path / "x.gz"), values)


def test_other_files_and_missing_ones_are_refused(tmp_path):
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"\0\0\x0d\1" + bytes(8)))
    with pytest.raises(ValueError, match="not an IDX file of unsigned bytes"):
        read_idx(tmp_path / "x.gz")
    with pytest.raises(ValueError, match="install Debian's package dataset-fashion-mnist"):
        fashion_lt.main(["--images", str(tmp_path), "--output", str(tmp_path)])
    assert not (tmp_path / "fashion_lt.npz").exists()


@pytest.mark.slow
def test_script_writes_archive_and_origin(tiny_images, tmp_path_factory):
    output = tmp_path_factory.mktemp("output")
    fashion_lt.main(["--images", str(tiny_images), "--output", str(output)])
    assert sorted(path.name for path in output.iterdir()) == ["ORIGIN.md", "fashion_lt.npz"]
    made = read_archive(output / "fashion_lt.npz")
    for labels, counts in [
        (made.y_val, fashion_lt.VAL),
        (made.y_target, fashion_lt.TARGET),
    ]:
        np.testing.assert_array_equal((labels[:, None] == made.classes).sum(axis=0), counts)
    digest = hashlib.sha256((output / "fashion_lt.npz").read_bytes()).hexdigest()
    assert digest in (output / "ORIGIN.md").read_text(encoding="utf-8")
    decided = made.classes[made.y_proba_val.argmax(axis=1)]
    assert (decided == made.y_val).mean() > 0.6  # columns and labels go together


@pytest.mark.slow
@pytest.mark.skipif(
    not DEBIAN.exists(), reason="needs the images: apt install dataset-fashion-mnist"
)
def test_script_makes_the_bundled_file_again(data):
    made = fashion_lt.make_predictions(DEBIAN)
    np.testing.assert_array_equal(made.y_val, data.y_val)
    np.testing.assert_array_equal(made.y_target, data.y_target)
    # other versions and machines differ in the last digits, which training enlarges
    np.testing.assert_allclose(made.source_priors, data.source_priors, atol=0.02)
    assert np.abs(made.y_proba_target - data.y_proba_target).mean() < 0.01
