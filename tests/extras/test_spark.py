"""Spark frames: the same numbers as NumPy, from Arrow batches in local mode."""

import os
import pickle
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

pyspark = pytest.importorskip("pyspark", reason="needs the extra `spark`")
if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
    pytest.skip("Spark needs Java 17 or newer: none is found", allow_module_level=True)

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402, N812

import priorshift as ps  # noqa: E402
from priorshift.border import map_reduce, take_rows  # noqa: E402
from priorshift.border.clusters import SparkTable, _of_size, pack, unpack  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

SAME = {"rtol": 0, "atol": 1e-10}
K = 5
NAMES = [f"class {k}" for k in range(K)]


@pytest.fixture(scope="module")
def spark():
    """Workers are to run this very interpreter, with the library that it sees."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("priorshift")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "170",
        "spark.sql.files.maxPartitionBytes": "65536",
        "spark.sql.files.openCostInBytes": "65536",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def data():
    """Validation, and a target that follows other priors."""
    rng = np.random.default_rng(5)
    means = 1.5 * rng.standard_normal((K, 3))

    def draw(priors, n):
        y = rng.choice(K, n, p=priors)
        z = (means[y] + rng.standard_normal((n, 3))) @ means.T - 0.5 * (means**2).sum(axis=1)
        return softmax(z, axis=1), y

    y_proba_val, y_val = draw(np.full(K, 1 / K), 400)
    return y_proba_val, np.array(NAMES)[y_val], draw(rng.dirichlet(np.ones(K)), 1201)[0]


@pytest.fixture(scope="module")
def frame(spark, data, tmp_path_factory):
    """The target as a folder of three files, one of them empty."""
    folder = tmp_path_factory.mktemp("target")
    for at, part in enumerate(np.split(data[2], [700, 700])):
        columns = {name: part[:, k] for k, name in enumerate(NAMES)} | {"site": ["x"] * len(part)}
        pq.write_table(pa.table(columns), folder / f"{at}.parquet")
    return spark.read.parquet(str(folder))


@pytest.fixture(scope="module")
def table(frame):
    """The target as a table, made once: every pass takes its time."""
    table = SparkTable(frame, NAMES, cache=True)
    yield table
    table.release()


def rows_of(frame, columns):
    """Collect a frame in its own order of rows."""
    return np.array([list(row) for row in frame.select(*columns).collect()])


def assert_same(found, expected):
    np.testing.assert_allclose(found.priors, expected.priors, **SAME)
    for name in ("gap", "objective"):
        if getattr(expected, name) is not None:
            one, other = getattr(found, name), getattr(expected, name)
            np.testing.assert_allclose(one, other, rtol=1e-14, atol=1e-10)
    assert (found.status, found.n_iter) == (expected.status, expected.n_iter)
    assert found.n_target == expected.n_target


# The same numbers


@pytest.mark.parametrize("method", ["em", "map", "cm", "scm-l", "rlls"])
def test_methods_give_the_numbers_of_numpy(method, table, data):
    y_proba_val, y_val, y_proba = data
    assert table.shape == y_proba.shape
    assert table.dtype == np.float64
    estimator = ps.get_estimator(method).fit(y_proba_val, y_val, classes=NAMES)
    assert_same(estimator.estimate(table), estimator.estimate(y_proba))


def test_columns_are_matched_by_name_and_rows_may_be_labelled(frame, table):
    y_proba = rows_of(frame, NAMES)
    y = np.array(NAMES)[y_proba.argmax(axis=1)]
    expected = ps.SCM().fit(y_proba, y, classes=NAMES)
    found = ps.SCM().fit(table, y)
    assert found.classes_.tolist() == NAMES
    np.testing.assert_allclose(found.confusion_.counts, expected.confusion_.counts, **SAME)
    turned = SparkTable(frame, NAMES[::-1])
    np.testing.assert_allclose(
        found.estimate(turned).priors, expected.estimate(y_proba).priors, **SAME
    )


def test_one_column_of_float32_arrays(frame, data):
    arrays = frame.select(F.array(*(F.col(name).cast("float") for name in NAMES)).alias("p.all"))
    table = SparkTable(arrays, "p.all")
    assert table.shape == data[2].shape
    assert table.dtype == np.float32
    assert table.names is None
    rows = data[2].astype(np.float32)
    found, expected = (ps.DecisionCounts.from_arrays(at, decision="soft") for at in (table, rows))
    np.testing.assert_allclose(found.counts, expected.counts, **SAME)


def test_rows_are_numbered_through_all_partitions(frame, table):
    rows = rows_of(frame, NAMES)
    found = map_reduce(
        lambda block, rows: [(rows.start, rows.stop)], table, block_bytes=8 * K * 300
    )
    starts, stops = zip(*(at for at in found), strict=True)
    assert starts == (0, *stops[:-1])
    assert stops[-1] == len(rows)
    assert max(stop - start for start, stop in found) == 300
    index = np.array([0, 499, 500, 1200])
    np.testing.assert_array_equal(take_rows(table, index), rows[index])


def test_the_guides_recipe_adapts_a_frame(frame, data):
    shift = ps.EM().fit(source_priors=np.full(K, 1 / K), classes=NAMES).estimate(data[2])
    every = F.array(*(F.col(name).cast("float") for name in NAMES))
    frame = frame.select("site", every.alias("probability"))
    guide = (Path(__file__).parents[2] / "docs/guides/clusters.md").read_text(encoding="utf-8")
    given = {"shift": shift, "pa": pa}
    exec("def adapt" + guide.split("def adapt")[1].split("\n\n\n")[0], given)
    found = frame.mapInArrow(given["adapt"], frame.schema)
    assert found.columns == frame.columns
    before, after = (
        np.array([row.probability for row in each.collect()]) for each in (frame, found)
    )
    np.testing.assert_allclose(after, shift.adapt(before.astype(np.float32)), rtol=1e-6)


# What may go wrong


def test_an_error_names_the_row_and_comes_without_sparks_traceback(frame):
    wrong = frame.withColumn(NAMES[0], F.lit(None).cast("double"))
    with pytest.raises(ValueError, match=r"^y_proba has NaN \(nan\) at row 0, column 0; repair"):
        ps.EM().fit(source_priors=np.full(K, 1 / K)).estimate(SparkTable(wrong, NAMES))


def test_rows_that_are_kept_are_checked_on_the_way(frame, table):
    """Where they are distributions no other pass checks them; where not, one says what is wrong."""
    assert table.distributions
    assert not SparkTable(frame, NAMES).distributions
    for change, message in ((F.col(NAMES[0]) + 1, "sums to"), (F.lit(-1.0), "has a negative")):
        wrong = SparkTable(frame.withColumn(NAMES[0], change), NAMES, cache=True)
        assert not wrong.distributions
        with pytest.raises(ValueError, match=message):
            ps.EM().fit(source_priors=np.full(K, 1 / K)).estimate(wrong)
        wrong.release()


def test_a_task_goes_through_many_partitions_that_are_kept(frame):
    table = SparkTable(frame.repartition(7), NAMES, cache=True)
    y_proba = np.concatenate([np.fromfile(file).reshape(-1, K) for file in kept_files(table)])
    assert (len(kept_files(table)), table._in_few_tasks().rdd.getNumPartitions()) == (7, 2)
    found = map_reduce(lambda block, rows: ([rows.start], [block]), table, block_bytes=8 * K * 50)
    np.testing.assert_array_equal(np.concatenate(found[1]), y_proba)
    assert found[0] == sorted(found[0])
    table.release()


def test_a_task_of_many_partitions_that_are_not_all_there_is_cut(frame, data, monkeypatch):
    """On several machines, Spark may join partitions that are kept on different ones."""
    table = SparkTable(frame, NAMES, cache=True)
    files = kept_files(table)
    elsewhere = table.frame.withColumn("path", F.lit("/kept/elsewhere"))
    with monkeypatch.context() as patched:
        patched.setattr(table, "_in_few_tasks", lambda: elsewhere)
        em = ps.EM().fit(source_priors=np.full(K, 1 / K), classes=NAMES)
        assert_same(em.estimate(table), em.estimate(data[2]))
    assert kept_files(table) == files
    assert table._in_few_tasks() is table.frame
    table.release()


def test_a_frame_that_changes_between_passes_is_found_out(table, monkeypatch):
    monkeypatch.setattr(table, "frame", table.frame.limit(1))
    with pytest.raises(ValueError, match=r"gave other (rows|partitions) than when .*cache=True"):
        map_reduce(lambda block, rows: 0, table)


def kept_files(table):
    return [Path(row.path) for row in table.frame.collect()]


def test_rows_that_an_executor_lost_are_kept_anew(frame, data):
    table = SparkTable(frame, NAMES, cache=True)
    lost = kept_files(table)
    assert sum(file.stat().st_size for file in lost) == data[2].nbytes
    for file in lost:
        file.unlink()
    em = ps.EM().fit(source_priors=np.full(K, 1 / K), classes=NAMES)
    assert_same(em.estimate(table), em.estimate(data[2]))
    assert not any(file.exists() for file in lost)
    files = kept_files(table)
    table.release()
    assert not any(file.exists() for file in files)
    SparkTable(frame, NAMES).release()  # nothing is kept


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["class 0", "class 9"], r"no column \['class 9'\]"),
        ([], "no column"),
        (["class 0", "site"], "'site' holds string; cast it to float or double"),
        ("class 0", "'class 0' must hold an array; it holds double"),
        (["class 0", "all"], "'all' must hold numbers; it holds array<double>"),
        ("ragged", "different lengths"),
    ],
)
def test_bad_columns_are_named(frame, columns, message):
    every = F.array(*(F.col(name) for name in NAMES))
    frame = frame.withColumn("all", every)
    frame = frame.withColumn(
        "ragged", F.slice(every, 1, F.when(F.col(NAMES[0]) > 0.5, 2).otherwise(3))
    )
    with pytest.raises(ValueError, match=message):
        SparkTable(frame, columns)


def test_a_frame_alone_does_not_say_which_columns(frame):
    with pytest.raises(ValueError, match=r"y_proba is a Spark frame.*SparkTable\(y_proba, columns"):
        ps.EM().fit(source_priors=np.full(K, 1 / K)).estimate(frame)


def test_a_table_stays_where_it_is(table):
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(table)
    with pytest.raises(TypeError, match="not fetched"):
        table.blocks(slice(0, 5), 5)


# Without Spark


LEAVES = st.one_of(
    st.integers(-(2**40), 2**40),
    st.floats(allow_nan=False),
    st.lists(st.floats(allow_nan=False), max_size=4).map(np.array),
    st.integers(0, 3).map(lambda n: np.ones((n, 2), np.float32)),
)


@given(
    st.recursive(
        LEAVES, lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple)
    )
)
@settings(max_examples=100)
def test_results_come_back_as_they_were(result):
    def same(one, other):
        if isinstance(one, list | tuple):
            assert type(one) is type(other)
            assert len(one) == len(other)
            for pair in zip(one, other, strict=True):
                same(*pair)
        else:
            assert np.asarray(one).dtype == np.asarray(other).dtype
            np.testing.assert_array_equal(one, other)

    same(result, unpack(pack(result)))


def test_objects_are_not_packed():
    with pytest.raises(ValueError, match="must return numbers"):
        pack([object()])


@given(sizes=st.lists(st.integers(0, 9), max_size=8), n_rows=st.integers(1, 12))
@settings(max_examples=100)
def test_batches_of_any_size_become_blocks_of_one_size(sizes, n_rows):
    rows = np.arange(2 * sum(sizes)).reshape(-1, 2)
    ends = np.cumsum(sizes)
    batches = [rows[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    blocks = list(_of_size(iter(batches), n_rows))
    assert [len(block) for block in blocks[:-1]] == [n_rows] * (len(blocks) - 1)
    assert all(0 < len(block) <= n_rows for block in blocks)
    np.testing.assert_array_equal(np.concatenate([rows[:0], *blocks]), rows)
