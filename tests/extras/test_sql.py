"""Adapters as SQL: DuckDB and Spark compute what NumPy does, also of zeros, ones and NULLs."""

import os
import shutil
import sys
import warnings

import numpy as np
import pytest

import priorshift as ps
from priorshift.calibration import CalibrationAverage, CalibrationMap

duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")

CLOSE = 1e-12


def make(K, kind, *, zeros=True, seed=0):
    """Return an adapter: plain, of one temperature, or of maps that differ in all they can."""
    rng = np.random.default_rng(seed)
    square = np.eye(K) + rng.normal(0, 0.5 / K, (K, K))
    maps = (
        CalibrationMap("ts", np.full(K, 0.7), np.zeros(K)),
        CalibrationMap("vs", rng.normal(1, 0.2, K), rng.normal(0, 0.5, K), 1e-4),
        CalibrationMap("ms", square, rng.normal(0, 0.5, K), rng.uniform(0, 1e-3, K)),
        CalibrationMap("steep", np.full(K, 20.0), np.zeros(K)),
    )
    average = {
        "plain": None,
        "one": maps[0],
        "many": CalibrationAverage(maps, (0.2, 0.3, 0.4, 0.1)),
    }[kind]
    priors = rng.dirichlet(np.ones(K))
    if zeros:
        priors[: K // 2] = 0
    return ps.Adapter(
        [f"class {k}" for k in range(K)],
        rng.dirichlet(np.full(K, 5.0)),
        priors / priors.sum(),
        average,
    )


def probabilities(K, n=200, seed=1):
    rng = np.random.default_rng(seed)
    y_proba = rng.dirichlet(np.full(K, 0.3), n)
    y_proba[: n // 3] = np.eye(K)[rng.integers(K, size=n // 3)]
    return y_proba


def table(values, columns, **more):
    return pa.table({name: values[:, k] for k, name in enumerate(columns)} | more)


def expected(adapter, values):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.PriorShiftWarning)  # rows without a class left
        return adapter(values)


@pytest.fixture(scope="module")
def spark():
    pyspark = pytest.importorskip("pyspark", reason="needs the extra `spark`")
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        pytest.skip("Spark needs Java 17 or newer: none is found")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = pyspark.sql.SparkSession.builder.master("local[1]").appName("priorshift-sql")
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    for key, value in options.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(params=["duckdb", "spark"])
def query(request):
    """Return what runs a statement on a table called `some table`, in a database."""

    def by_duckdb(statement, rows):
        with duckdb.connect() as connection:
            connection.register("some table", rows)
            return connection.sql(statement).to_arrow_table()

    def by_spark(statement, rows):
        session = request.getfixturevalue("spark")
        session.createDataFrame(rows).createOrReplaceTempView("`some table`")
        return session.sql(statement).toArrow()

    def run(adapter, rows, columns, **more):
        by = by_duckdb if request.param == "duckdb" else by_spark
        return by(adapter.to_sql("some table", columns, request.param, **more), rows)

    if request.param == "spark":
        request.getfixturevalue("spark")
    return run


def values_of(found, columns):
    return np.column_stack([found.column(name).to_numpy() for name in columns])


@pytest.mark.parametrize("K", [2, 3, 10])
@pytest.mark.parametrize("kind", ["plain", "one", "many"])
def test_numbers_are_numpys(query, K, kind):
    adapter, values = make(K, kind), probabilities(K)
    columns = [f'p "{k}" `x`; -- ü' for k in range(K)]
    rows = table(values, columns, id=np.arange(200), note=["a'b"] * 200, ps_p_0=np.ones(200))
    found = query(adapter, rows, columns, keep=["ps_p_0", "id", "note"])
    assert found.column_names == ["ps_p_0", "id", "note", *columns]
    order = np.argsort(found.column("id").to_numpy())
    wanted = expected(adapter, values)
    np.testing.assert_allclose(values_of(found, columns)[order], wanted, rtol=0, atol=CLOSE)
    assert found.column("note").to_pylist() == ["a'b"] * 200


def test_many_classes(query):
    K = 300
    adapter, values = make(K, "plain"), probabilities(K, n=20)
    columns = [f"c{k}" for k in range(K)]
    found = values_of(query(adapter, table(values, columns), columns), columns)
    np.testing.assert_allclose(found, expected(adapter, values), rtol=0, atol=CLOSE)


def test_many_classes_calibrated_in_duckdb():
    K = 200
    adapter, values = make(K, "one", zeros=False), probabilities(K, n=20)
    columns = [f"c{k}" for k in range(K)]
    with duckdb.connect() as connection:
        connection.register("t", table(values, columns))
        found = connection.sql(adapter.to_sql("t", columns, "duckdb")).to_arrow_table()
    np.testing.assert_allclose(
        values_of(found, columns), expected(adapter, values), rtol=0, atol=CLOSE
    )


def test_columns_by_class_of_other_types_and_missing(query):
    adapter = make(3, "many", zeros=False)
    values = probabilities(3)
    columns = {"class 2": "c", "class 0": "a", "class 1": "b"}
    rows = table(values.astype(np.float32), ["a", "b", "c"])
    found = values_of(query(adapter, rows, columns), ["a", "b", "c"])
    wanted = expected(adapter, values.astype(np.float32).astype(np.float64))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=CLOSE)
    whole = table(np.eye(3, dtype=np.int64), ["a", "b", "c"])
    found = values_of(query(adapter, whole, ["a", "b", "c"]), ["a", "b", "c"])
    np.testing.assert_allclose(found, expected(adapter, np.eye(3)), rtol=0, atol=CLOSE)
    missing = pa.table({"a": [0.5, None], "b": [0.25, 0.5], "c": [0.25, 0.5]})
    found = query(adapter, missing, ["a", "b", "c"])
    assert [found.column(name).null_count for name in "abc"] == [1, 1, 1]


def test_ansi_statements_run_in_duckdb():
    """DuckDB's dialect holds all that they use."""
    adapter, values = make(3, "many"), probabilities(3)
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA s")
        connection.register("rows", table(values, "abc"))
        connection.execute("CREATE TABLE s.t AS SELECT * FROM rows")
        found = connection.sql(adapter.to_sql("s.t", list("abc")))
        found = values_of(found.to_arrow_table(), "abc")
    np.testing.assert_allclose(found, expected(adapter, values), rtol=0, atol=CLOSE)
