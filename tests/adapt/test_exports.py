"""Adapters as SQL: what the statement says, and SQLite; tests/extras/test_sql.py has databases."""

import math
import re
import sqlite3
from contextlib import closing

import numpy as np
import pytest

import priorshift as ps
from priorshift.adapt import _exports
from priorshift.calibration import CalibrationAverage, CalibrationMap

ADAPTER = ps.Adapter(["a", "b"], [0.5, 0.5], [0.9, 0.1])


def calibrated(K, n_maps=1, *, square=False):
    slope = np.full((K, K), 0.1) if square else np.ones(K)
    one = CalibrationMap("map", slope, np.zeros(K))
    weights = tuple(np.full(n_maps, 1 / n_maps).tolist())
    even = np.full(K, 1 / K)
    return ps.Adapter(np.arange(K), even, even, CalibrationAverage((one,) * n_maps, weights))


def names(K):
    return [f"c{k}" for k in range(K)]


def test_names_are_quoted():
    text = ADAPTER.to_sql('my "table', ["x", 'y"; DROP TABLE t'], keep=["id"])
    assert 'FROM "my ""table"' in text
    assert '"y""; DROP TABLE t"' in text
    assert text.startswith('SELECT "id", ')
    assert "FROM `s`.`t`" in ADAPTER.to_sql("s.t", ["x", "y"], "spark")
    assert 'FROM "s.t"' in ADAPTER.to_sql(["s.t"], ["x", "y"], "duckdb")
    assert 'FROM "a"."b.c"' in ADAPTER.to_sql(("a", "b.c"), ["x", "y"])


def test_dialects_differ_where_databases_do():
    texts = {name: ADAPTER.to_sql("t", ["x", "y"], name) for name in _exports.DIALECTS}
    assert len(set(texts.values())) == 3
    assert "DOUBLE PRECISION" in texts["ansi"]
    assert "DOUBLE PRECISION" not in texts["spark"]


@pytest.mark.parametrize("value", [0.1, 1 / 3, 5e-324, -1.7976931348623157e308, 0.0, 1e23])
def test_numbers_come_back_to_the_last_bit(value):
    assert float(_exports.number(value)) == value
    assert "e" in _exports.number(value)


def test_own_names_avoid_those_of_the_table():
    text = ADAPTER.to_sql("t", ["PS_P_0", "ps_total"], keep=["psps_x"])
    assert "pspsps_total = " in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": ["x"]}, "columns has 1 names but there are 2 classes"),
        ({"columns": ["x", "x"]}, "columns names a column twice"),
        ({"columns": {"a": "x"}}, "a column per class"),
        ({"columns": ["x", 3]}, "columns must be names"),
        ({"columns": ["x", ""]}, "columns must be names"),
        ({"keep": ["y"]}, "keep names 'y', which is adapted"),
        ({"keep": ["i", "i"]}, "keep names a column twice"),
        ({"dialect": "mysql"}, "dialect must be one of 'ansi', 'duckdb', 'spark'"),
        ({"table": ""}, "table must be a name"),
        ({"table": "s..t"}, "table must be a name"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ADAPTER.to_sql(**{"table": "t", "columns": ["x", "y"]} | arguments)


@pytest.mark.parametrize(("K", "n_maps", "square"), [(60, 10, True), (1000, 10, False)])
def test_statements_beyond_reason_name_the_alternative(K, n_maps, square):
    with pytest.raises(ValueError, match=r"to_onnx, to_torch, or the command `priorshift adapt"):
        calibrated(K, n_maps, square=square).to_sql("t", names(K))


def test_large_but_reasonable_statements():
    for adapter in (calibrated(20, 10, square=True), calibrated(400)):
        K = adapter.classes.size
        text = adapter.to_sql("t", names(K))
        assert len(text) <= _exports.MOST_CHARACTERS
        sums = re.split(r"[(),]", text)
        assert max(part.count(" + ") for part in sums) < 2 * _exports.CHUNK


@pytest.mark.parametrize(
    ("columns", "said"), [(None, "got None"), (["a", "a"], "give each its own")]
)
def test_columns_that_are_no_names_are_refused(columns, said):
    with pytest.raises(ValueError, match=said):
        ps.Adapter(["a", "b"], [0.5, 0.5], [0.5, 0.5]).to_sql("t", columns)


def test_sqlite_computes_what_numpy_does(rng):
    """With hostile names; its own LN and EXP are not in every build, and GREATEST is in none."""
    maps = (
        CalibrationMap("ts", np.full(3, 0.7), np.zeros(3)),
        CalibrationMap("ms", np.eye(3) + rng.normal(0, 0.1, (3, 3)), rng.normal(0, 0.5, 3), 1e-4),
    )
    average = CalibrationAverage(maps, (0.25, 0.75))
    adapter = ps.Adapter(["a", "b", "c"], [0.2, 0.3, 0.5], [0.0, 0.6, 0.4], average)
    rows = np.vstack([np.eye(3)[1:], rng.dirichlet(np.ones(3), 20)])
    columns, table = ['p"', "x'; DROP TABLE t; --", "é"], 'some "table'
    with closing(sqlite3.connect(":memory:")) as database:
        database.create_function("LN", 1, math.log)
        database.create_function("EXP", 1, math.exp)
        database.create_function("GREATEST", -1, max)
        quoted = ['"' + name.replace('"', '""') + '"' for name in columns]
        database.execute(f'CREATE TABLE "some ""table" ({", ".join(quoted)})')
        database.executemany('INSERT INTO "some ""table" VALUES (?, ?, ?)', rows.tolist())
        found = database.execute(adapter.to_sql(table, columns)).fetchall()
    np.testing.assert_allclose(np.array(found), adapter(rows), rtol=0, atol=1e-12)
