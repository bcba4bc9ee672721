"""Files that belong together: which of their columns are which class."""

from typing import NamedTuple

import numpy as np
import pytest

from priorshift.border import SUM_TOLERANCE
from priorshift.files import common_classes, find_class_columns


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
    found = find_class_columns(tables, ["cat", "dog"], SUM_TOLERANCE)
    assert found.columns == [{"cat": "cat", "dog": "dog"}, {"dog": "p_dog", "cat": "p_cat"}]
    assert found.binary is None


@pytest.mark.parametrize(("kind", "left_out"), [("proba", True), ("logits", False)])
def test_numbers_that_no_sum_of_probabilities_has_are_left_out(kind, left_out):
    table = Table(("id", "cat", "dog"), [[7, *row] for row in TWO], kind=kind)
    found = find_class_columns([table, table], ["cat", "dog"], SUM_TOLERANCE)
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
    found = find_class_columns([table], known, SUM_TOLERANCE, positive=positive)
    assert found.binary == binary
    assert found.columns == [{binary[1]: column}]
    assert bool(found.remark) == (positive is None)


def test_one_column_that_nothing_explains_is_refused_in_the_reader_s_words():
    table = Table(("p",), [[0.9], [0.2]])
    with pytest.raises(ValueError, match="whose probability it is: positive_class ill"):
        find_class_columns([table], ["ill", "well"], SUM_TOLERANCE)


def test_tables_have_the_classes_that_they_have_in_common():
    tables = [Table(("b", "a", "x"), [[0, 1, 2]]), Table(("a", "b", "y"), [[0, 1, 2]])]
    assert common_classes(tables) == ("b", "a")
    array = Table(("a", "b"), TWO, is_table=False)
    assert common_classes([tables[0], array]) == ("b", "a")
    with pytest.raises(ValueError, match=r"the classes of file .* are not those of file"):
        common_classes([Table(("c", "d"), TWO), array])
