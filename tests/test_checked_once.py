"""Predictions are checked once, however many methods and tests look at them afterwards."""

import pickle
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from scipy.sparse import csr_array

import priorshift as ps
from priorshift.border import (
    ArrayTable,
    Predictions,
    Table,
    check,
    check_outputs,
    check_proba,
    ordered,
)
from priorshift.border import rows as table_rows
from priorshift.cli import _read, main
from priorshift.compare import compare
from priorshift.evidence import detect_shift
from priorshift.files._arrow import ColumnRows
from priorshift.report import render_report

K, N_VAL, N_TARGET = 4, 400, 300
NAMES = [f"c{k}" for k in range(K)]


@pytest.fixture
def data(simulate, rng):
    """Validation with labels, and a target, told apart by their number of rows."""
    world = simulate(K)
    y_proba_val, y_val = world.draw(np.full(K, 1 / K), N_VAL, rng)
    y_proba, _ = world.draw(np.array([0.4, 0.3, 0.2, 0.1]), N_TARGET, rng)
    return y_proba_val, y_val, y_proba


@pytest.fixture
def scans(monkeypatch):
    """Count how often the values of predictions are scanned, by their number of rows."""
    counted = Counter()
    scan = check._check_distributions

    def counting(name, block, rows):
        counted[rows.stop] += rows.start == 0  # the tests below have one block each
        return scan(name, block, rows)

    monkeypatch.setattr(check, "_check_distributions", counting)
    return counted


@pytest.fixture
def confusions(monkeypatch):
    """Count how often probabilities are summed by label over all rows, and how often weighted."""
    counted = Counter()
    add_up = table_rows._sum_block

    def counting(labels, n_labels, weight, block, rows):
        counted[rows.stop if weight is None else "weighted"] += rows.start == 0
        return add_up(labels, n_labels, weight, block, rows)

    monkeypatch.setattr(table_rows, "_sum_block", counting)
    return counted


@pytest.fixture
def files(data, tmp_path):
    """Write both as Parquet; return the options that name them."""
    y_proba_val, y_val, y_proba = data
    columns = {name: y_proba_val[:, k] for k, name in enumerate(NAMES)}
    columns["label"] = [NAMES[k] for k in y_val]
    pq.write_table(pa.table(columns), tmp_path / "v.parquet")
    target = {name: y_proba[:, k] for k, name in enumerate(NAMES)}
    pq.write_table(pa.table(target), tmp_path / "t.parquet")
    paths = str(tmp_path / "v.parquet"), str(tmp_path / "t.parquet")
    return ["--validation", paths[0], "--target", paths[1]]


KINDS = {
    "array": np.asarray,
    "list": np.ndarray.tolist,
    "frame": lambda values: pa.table({name: values[:, k] for k, name in enumerate(NAMES)}),
    "table": ArrayTable,
    "sparse": csr_array,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["em", "scm-l", "auto"])
def test_fit_and_estimate_check_their_input_once(data, scans, kind, method):
    y_proba_val, y_val, y_proba = (KINDS[kind](data[0]), np.array(NAMES)[data[1]], data[2])
    estimator = ps.get_estimator(method).fit(y_proba_val, y_val, classes=NAMES)
    assert scans == {N_VAL: 1}
    estimator.estimate(KINDS[kind](y_proba))
    assert scans == {N_VAL: 1, N_TARGET: 1}


def test_checked_predictions_are_not_checked_again(data, scans):
    y_proba_val, y_val, y_proba = data
    expected = ps.SCML().fit(y_proba_val, y_val).estimate(y_proba)
    adapted = expected.adapt(y_proba)
    scans.clear()
    validation, target = check_proba(y_proba_val), check_proba(y_proba)
    shift = ps.SCML().fit(validation, y_val).estimate(target)
    np.testing.assert_array_equal(shift.priors, expected.priors)
    np.testing.assert_array_equal(shift.adapt(target), adapted)
    ps.diagnose(validation, y_val, target, shift)
    detect_shift(validation, y_val, target, n_resamples=99, random_state=0)
    assert scans == {N_VAL: 1, N_TARGET: 1}


def test_comparing_all_methods_checks_and_counts_once(data, scans, confusions):
    labels = np.arange(N_TARGET) % K  # to score methods, adapted rows are needed
    comparison = compare(*data, labels)
    assert len([r for r in comparison.results if r.estimate is not None]) > 10
    assert scans == {N_VAL: 1, N_TARGET: 1}
    # once as it is; and once as calibrated, which is another matrix
    assert confusions[N_VAL] <= 2


def test_assess_checks_and_counts_once(data, scans, confusions):
    ps.assess(*data, y_target=np.arange(N_TARGET) % K, method="scm-l")
    assert scans == {N_VAL: 1, N_TARGET: 1}
    # as it is, squared for the variance of each class, for what diagnose redraws, and in the groups
    # of rows that the test of a shift permutes
    assert confusions[N_VAL] <= 4
    assert confusions["weighted"] <= 2  # all redraws in one pass, and weighted by probabilities


@pytest.mark.usefixtures("blank_figures")
def test_a_report_checks_and_counts_once(data, scans, confusions):
    y_proba_val, y_val, y_proba = data
    shift = ps.EM().fit(y_proba_val, y_val).estimate(y_proba)
    scans.clear(), confusions.clear()
    render_report(shift, y_proba_val=y_proba_val, y_val=y_val, y_proba_target=y_proba)
    assert scans == {N_VAL: 1, N_TARGET: 1}
    # as it is, squared for the variance of each class, for what diagnose redraws, and in the groups
    # of rows that the test of a shift permutes
    assert confusions[N_VAL] <= 4
    assert confusions["weighted"] <= 2  # all redraws in one pass, and weighted by probabilities


@pytest.mark.usefixtures("blank_figures")
@pytest.mark.parametrize(
    ("command", "large"),
    [("assess", False), ("estimate", True), ("compare", False), ("test", True), ("report", True)],
)
def test_commands_check_each_file_once(
    files, scans, confusions, command, large, monkeypatch, tmp_path
):
    """A large Parquet file is read in blocks, and decoded once for the check; a small one once."""
    decoded = Counter()
    decode = pq.ParquetFile.iter_batches

    def counting(file, *arguments, **options):
        decoded[file.metadata.num_rows] += 1
        return decode(file, *arguments, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counting)
    if large:
        monkeypatch.setattr(_read, "IN_MEMORY_BYTES", 0)
    more = ["--output", str(tmp_path / "r.html")] if command == "report" else []
    result = CliRunner().invoke(main, [command, *files, *more])
    assert result.exit_code == 0, result.output
    assert scans == {N_VAL: 1, N_TARGET: 1}
    # predictions as they are and as calibrated, and both twice more for diagnostics
    assert confusions[N_VAL] <= 6
    assert decoded[N_VAL] == 2  # predictions and labels
    assert large or decoded[N_TARGET] == 1


def test_a_large_file_is_decoded_once_for_the_check(files, monkeypatch):
    passes = []
    blocks = ColumnRows.blocks

    def counting(table, part, n_rows):
        if table.file.path.name == "t.parquet":
            passes.append(part)
        return blocks(table, part, n_rows)

    monkeypatch.setattr(ColumnRows, "blocks", counting)
    monkeypatch.setattr(_read, "IN_MEMORY_BYTES", 0)
    result = CliRunner().invoke(main, ["estimate", *files, "--method", "scm-l"])
    assert result.exit_code == 0, result.output
    assert len(passes) == 3  # to check it, to count it, and to draw rows for the assessment


# What the object promises


def test_what_passed_no_check_or_another_one_is_checked():
    bad = np.array([[0.5, 0.6], [2.0, -1.0]])
    for predictions in (Predictions(bad), check_outputs(bad, from_proba=False)):
        with pytest.raises(ValueError, match=r"row 0 of y_proba sums to 1\.1|a negative value"):
            check_proba(predictions)
    with pytest.raises(ValueError, match="nothing but -inf"):
        check_outputs(Predictions(np.full((1, 2), -np.inf)), from_proba=False)


def test_the_probability_of_one_class_stays_a_column(data):
    """What comes back like the input, as adapt does, must not surprise a report or diagnostics."""
    y_proba_val, y_val, y_proba = data
    alone, y = check_proba(y_proba_val[:, 1]), (y_val == 1).astype(int)
    target = check_proba(y_proba[:, 1])
    shift = ps.EM().fit(alone, y).estimate(target)
    assert shift.adapt(target).shape == (N_TARGET,)
    for one, two in ((alone, target), (y_proba_val[:, 1], y_proba[:, 1])):
        found = ps.diagnose(one, y, two, shift)
        assert (
            found.accuracy_after
            == ps.diagnose(alone.values, y, target.values, shift).accuracy_after
        )


def test_a_caller_who_changes_an_array_is_noticed(data):
    y_proba_val, y_val, y_proba = data
    estimator = ps.EM().fit(y_proba_val, y_val)
    estimator.estimate(y_proba)
    y_proba[7] = np.nan
    with pytest.raises(ValueError, match=r"NaN .* at row 7"):
        estimator.estimate(y_proba)


def test_a_checked_table_is_refused_where_all_rows_are_needed(data):
    checked = check_proba(ArrayTable(data[2]), tables=True)
    assert isinstance(checked.values, Table)
    assert check_proba(checked, tables=True) is checked
    with pytest.raises(ValueError, match="read in blocks"):
        check_proba(checked)
    with pytest.raises(TypeError, match="read in blocks"):
        np.asarray(checked)


def test_columns_by_name_keep_their_check(scans):
    frame = pa.table({"b": [0.9, 0.2], "a": [0.1, 0.8]})
    checked = ordered(check_proba(frame), np.array(["a", "b"]))
    assert checked.names == ("a", "b")
    assert check_proba(checked) is checked
    np.testing.assert_array_equal(checked, [[0.1, 0.9], [0.8, 0.2]])
    assert scans == {2: 1}


def test_what_is_made_once_depends_on_rows_and_arguments():
    checked = check_proba([[0.9, 0.1], [0.2, 0.8]])
    made = []

    def make(rows, *arguments):
        return checked.once(rows, "key", arguments, lambda: made.append(arguments) or len(made))

    y, other = np.array([0, 1]), np.array([1, 1])
    assert [make(checked.values, y, None), make(checked.values, y.copy(), None)] == [1, 1]
    assert make(checked.values, other, None) == 2
    assert make(checked.values, other, other) == 3
    assert make(checked.values, other, other) == 3
    assert [make(checked.values.copy(), other, other) for _ in range(2)] == [4, 5]
    assert ordered(checked, np.array([0, 1])) is checked


def test_weights_and_labels_decide_what_is_counted_anew(data):
    y_proba_val, y_val, _ = data
    checked, weight = check_proba(y_proba_val), np.linspace(0.5, 2, N_VAL)
    shuffled = np.roll(y_val, 1)
    for y, more in ((y_val, {}), (y_val, {"sample_weight": weight}), (shuffled, {}), (y_val, {})):
        found = ps.SCM().fit(checked, y, **more).confusion_
        expected = ps.SCM().fit(y_proba_val, y, **more).confusion_
        np.testing.assert_array_equal(found.counts, expected.counts)


def test_a_fit_to_checked_predictions_is_pickled(data):
    y_proba_val, y_val, y_proba = data
    estimator = ps.GLS().fit(check_proba(y_proba_val), y_val)
    again = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(
        again.estimate(y_proba).priors, estimator.estimate(y_proba).priors
    )
    plain = pickle.dumps(ps.GLS().fit(y_proba_val, y_val))
    assert len(pickle.dumps(estimator)) <= len(plain) + 1000


def counted_calls(function, counted):
    def counting(*arguments, **options):
        counted[function.__name__] += 1
        return function(*arguments, **options)

    return counting


@pytest.mark.parametrize("method", ["auto", "em"])
@pytest.mark.parametrize("command", ["assess", "estimate", "adapt"])
def test_commands_fit_and_estimate_once(files, command, method, monkeypatch, tmp_path):
    """Auto's fit is what takes the time."""
    kind, counted = type(ps.get_estimator(method)), Counter()
    for name in ("fit", "estimate"):
        monkeypatch.setattr(kind, name, counted_calls(getattr(kind, name), counted))
    words = [command, *files, "--method", method]
    if command == "adapt":
        words += ["--output", str(tmp_path / "o.parquet")]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert counted["fit"] == 1
    # a verdict takes away what EM would adapt by, so that it is asked again
    assert counted["estimate"] == 1 or (method == "em" and counted["estimate"] == 2)
