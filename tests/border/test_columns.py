"""Guards against predictions that are not what they seem: other orders, no names, repeats."""

import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import priorshift as ps
from priorshift.border import common_classes, find_class_columns

NAMES = np.array(["cat", "dog", "elk", "fox"])


def draw(rng, n, K=4, signal=0.6, priors=None):
    y = rng.choice(K, size=n, p=priors)
    return (1 - signal) * rng.dirichlet(np.ones(K), n) + signal * np.eye(K)[y], y


@pytest.mark.parametrize(
    "frame", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"]
)
def test_an_array_after_a_frame_is_warned_of(rng, frame):
    y_proba, y = draw(rng, 200)
    given = frame(dict(zip(NAMES, y_proba.T, strict=True)))
    est = ps.SCML().fit(given, NAMES[y])
    with pytest.warns(ps.PriorShiftWarning, match=r"y_proba has no column names, .* 'cat', 'dog'"):
        est.estimate(y_proba)
    with pytest.warns(ps.PriorShiftWarning, match="a frame came before it"):
        est.adapt(y_proba)
    with pytest.warns(ps.PriorShiftWarning, match="y_proba_target has no column names"):
        ps.assess(given, NAMES[y], y_proba, method="scm-l")
    with pytest.warns(ps.PriorShiftWarning, match="y_proba_target has no column names"):
        ps.check_assumption(given, NAMES[y], y_proba)
    shift = est.estimate(given, confidence_level=0.9)
    for adapt in (shift.adapt, shift.adapt_interval, ps.assess(given, NAMES[y], given).adapt):
        with pytest.warns(ps.PriorShiftWarning, match="y_proba has no column names"):
            adapt(y_proba)


def test_nothing_else_is_warned_of(rng):
    y_proba, y = draw(rng, 200)
    frame = pd.DataFrame(y_proba, columns=NAMES)
    est = ps.SCML().fit(frame, NAMES[y])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        est.estimate(frame).adapt(frame)
        ps.PriorEstimate.from_dict(est.estimate(frame).to_dict()).adapt(y_proba)
        ps.SCML().fit(y_proba, NAMES[y]).estimate(y_proba).adapt(y_proba)
        ps.SCML().fit(y_proba, NAMES[y]).estimate(y_proba)
        ps.SCML().fit(y_proba, NAMES[y]).estimate(frame)
        ps.SCML().fit(pd.DataFrame(y_proba), y).estimate(y_proba)  # numbered by pandas
        ps.assess(frame, NAMES[y], frame, method="scm-l")
        binary = ps.SCML().fit(pd.Series(y_proba[:, 0]), y == 0)
        binary.estimate(y_proba[:, 0])


@pytest.mark.parametrize("order", [[1, 0, 2, 3], [3, 0, 1, 2], [2, 3, 0, 1]])
@pytest.mark.parametrize("method", [ps.SCML, ps.EM, ps.Auto])
def test_columns_in_another_order_are_named(rng, order, method):
    y_proba, y = draw(rng, 400)
    found = ", ".join(map(repr, NAMES[order].tolist()))
    with pytest.warns(ps.PriorShiftWarning, match=f"another order .* if the columns were {found}"):
        method().fit(y_proba[:, order], NAMES[y])


@pytest.mark.parametrize(("K", "n"), [(2, 30_000), (10, 30_000), (10, 5000), (200, 30_000)])
@pytest.mark.parametrize("sort", [np.sort, lambda y: np.arange(y.size) % (y.max() + 1)])
def test_another_order_is_found_among_many_rows(rng, K, n, sort):
    """However rows are sorted: only some of them are looked at first."""
    y = sort(rng.integers(K, size=n))
    decided = np.where(rng.random(n) < 0.7, y, rng.integers(K, size=n))
    y_proba, order = np.eye(K)[decided] * 0.6 + 0.4 / K, np.roll(np.arange(K), 1)
    fit = ps.NoAdaptation().fit
    with pytest.warns(ps.PriorShiftWarning, match=r"another order .* accuracy on validation is"):
        fit(y_proba[:, order], y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(y_proba, y)


def test_assess_says_so_first_of_all_else(rng):
    y_proba, y = draw(rng, 400)
    found = ps.assess(y_proba[:, [1, 0, 2, 3]], NAMES[y], y_proba, method="scm-l")
    assert any("another order than the classes" in reason for reason in found.reasons)


@pytest.mark.parametrize("K", [2, 10, 100])
@pytest.mark.parametrize("n", [20, 100, 2000])
def test_chance_finds_no_order(K, n):
    """A model that knows nothing, one that prefers a class, and one that is often right."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        y = rng.integers(K, size=n)
        y[: min(K, n)] = np.arange(min(K, n))
        for signal, favour in ((0.0, 0.0), (0.0, 5.0), (0.3, 0.0)):
            y_proba, _ = draw(rng, n, K, 0.0)
            y_proba = y_proba + signal * np.eye(K)[y] + favour * np.eye(K)[0]
            y_proba /= y_proba.sum(axis=1, keepdims=True)
            with warnings.catch_warnings():
                warnings.filterwarnings("error", "the columns seem")
                warnings.filterwarnings("ignore", "", ps.PriorShiftWarning)
                warnings.filterwarnings("error", "the columns seem")
                ps.NoAdaptation().fit(y_proba, y, classes=np.arange(K))


def test_a_model_that_prefers_one_of_two_classes_is_not_called_mixed_up(rng):
    """Nearly all labels are 0, nearly all decisions 1: accuracy alone would ask for a swap."""
    y = (rng.random(1000) < 0.05).astype(int)
    p = np.where(rng.random(1000) < 0.9, 0.6, 0.3) + 0.05 * y
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "the columns seem")
        ps.NoAdaptation().fit(p, y)


def test_repeated_rows_are_said(rng):
    y_proba, y = draw(rng, 600)
    target, _ = draw(rng, 150)
    repeated = np.tile(target, (4, 1))
    test = ps.check_assumption(y_proba, NAMES[y], repeated, random_state=0)
    assert "repeated rows" in str(test)
    found = ps.assess(y_proba, NAMES[y], repeated, method="scm-l")
    assert any("The target has 450 repeated rows" in reason for reason in found.reasons)
    found = ps.assess(y_proba, NAMES[y], target, method="scm-l")
    assert not any("repeated rows" in reason for reason in found.reasons)


def test_a_class_without_a_column_is_named_with_the_column_that_may_be_meant():
    """As on the command line."""
    pandas = pytest.importorskip("pandas")
    y = ["cat", "dog"] * 20
    frame = pandas.DataFrame({"cat": [0.9, 0.2] * 20, "dog": [0.1, 0.8] * 20})
    typo = frame.rename(columns={"dog": "dgo"})
    said = r"y_proba_target has no column 'dog'; it has 'cat', 'dgo'.*Did you mean 'dgo'\?"
    with pytest.raises(ValueError, match=said):
        ps.assess(frame, y, typo)
    said = r"y_proba_val has no column 'dgo'; it has 'cat', 'dog'.*Did you mean 'dog'\?"
    with pytest.raises(ValueError, match=said):
        ps.assess(frame, y, frame, classes=["cat", "dgo"])


# Tables that belong together: see find_class_columns


class Table(NamedTuple):
    """A file as far as its header and first rows go."""

    header: tuple[str, ...]
    rows: list[list[float]]
    is_table: bool = True
    kind: str = "proba"
    where: str = "file"

    @property
    def names(self):
        return self.header

    @property
    def single(self):
        return len(self.header) == 1

    def head(self, n_rows, names):
        return np.array(self.rows)[:n_rows, [self.header.index(name) for name in names]]


TWO = [[0.9, 0.1], [0.2, 0.8]]


def test_each_table_may_add_something_of_its_own_to_the_classes():
    tables = [Table(("cat", "dog"), TWO), Table(("p_dog", "p_cat"), TWO)]
    found = find_class_columns(tables, ["cat", "dog"])
    assert found.columns == [{"cat": "cat", "dog": "dog"}, {"dog": "p_dog", "cat": "p_cat"}]
    assert found.binary is None


@pytest.mark.parametrize(("kind", "left_out"), [("proba", True), ("logits", False)])
def test_numbers_that_no_sum_of_probabilities_has_are_left_out(kind, left_out):
    table = Table(("id", "cat", "dog"), [[7, *row] for row in TWO], kind=kind)
    found = find_class_columns([table, table], ["cat", "dog"])
    assert found.columns == [{"cat": "cat", "dog": "dog"} if left_out else None] * 2
    assert ("'id'" in found.remark) == left_out


@pytest.mark.parametrize(
    ("column", "known", "positive", "binary"),
    [
        ("p", ["0", "1"], None, ("0", "1")),
        ("p", ["0.0", "1.0"], None, ("0", "1")),
        ("p_ill", ["ill", "well"], None, ("well", "ill")),
        ("p", ["ill", "well"], "ill", ("well", "ill")),
        ("p", [], "yes", ("no", "yes")),
        ("p", [], "ill", ("not ill", "ill")),
    ],
)
def test_one_column_tells_two_classes_apart(column, known, positive, binary):
    table = Table((column, "age"), [[0.9, 40], [0.2, 3]])
    found = find_class_columns([table], known, positive=positive)
    assert found.binary == binary
    assert found.columns == [{binary[1]: column}]
    assert bool(found.remark) == (positive is None)


def test_one_column_that_nothing_explains_is_refused_in_the_reader_s_words():
    table = Table(("p",), [[0.9], [0.2]])
    with pytest.raises(ValueError, match="whose probability it is: positive_class ill"):
        find_class_columns([table], ["ill", "well"])


def test_tables_have_the_classes_that_they_have_in_common():
    tables = [Table(("b", "a", "x"), [[0, 1, 2]]), Table(("a", "b", "y"), [[0, 1, 2]])]
    assert common_classes(tables) == ("b", "a")
    array = Table(("a", "b"), TWO, is_table=False)
    assert common_classes([tables[0], array]) == ("b", "a")
    with pytest.raises(ValueError, match=r"the classes of file .* are not those of file"):
        common_classes([Table(("c", "d"), TWO), array])
