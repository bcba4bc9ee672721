"""Files that belong together: which of their columns are which class."""

import numpy as np
import pytest

from priorshift.files import by_class, common_classes, open_predictions

TWO = [[0.9, 0.1], [0.2, 0.8]]


@pytest.fixture
def table(tmp_path):
    """Write a table of these columns and rows, and open it."""
    made = []

    def write(header, rows, *, logits=False):
        made.append(tmp_path / f"{len(made)}.csv")
        lines = [",".join(header), *(",".join(map(str, row)) for row in rows)]
        made[-1].write_text("\n".join(lines) + "\n", encoding="utf-8")
        return open_predictions(made[-1], logits=logits)

    return write


def test_each_table_may_add_something_of_its_own_to_the_classes(table):
    tables = [table(("cat", "dog"), TWO), table(("p_dog", "p_cat"), TWO)]
    (first, second), remark = by_class(tables, ["cat", "dog"])
    assert first.names == ("cat", "dog")
    assert second.columns == {"dog": "p_dog", "cat": "p_cat"}
    assert first.binary is second.binary is None
    assert not remark


@pytest.mark.parametrize("logits", [False, True])
def test_numbers_that_no_sum_of_probabilities_has_are_left_out(table, logits):
    one = table(("id", "cat", "dog"), [[7, *row] for row in TWO], logits=logits)
    files, remark = by_class([one, one], ["cat", "dog"])
    for file in files:
        assert file.names == (("id",) * logits + ("cat", "dog"))
    assert ("'id'" in remark) != logits


@pytest.mark.parametrize(
    ("column", "known", "positive", "binary"),
    [
        ("p", ["0", "1"], None, ("0", "1")),
        ("p", ["0.0", "1.0"], None, ("0", "1")),
        ("p", ["ill", "well"], "ill", ("well", "ill")),
        ("p", [], "yes", ("no", "yes")),
        ("p", [], "ill", ("not ill", "ill")),
    ],
)
def test_one_column_tells_two_classes_apart(table, column, known, positive, binary):
    one = table((column, "age"), [[0.9, 40], [0.2, 3]])
    (file,), remark = by_class([one], known, positive=positive)
    assert file.binary == binary
    assert file.columns == {binary[1]: column}
    assert bool(remark) == (positive is None)


def test_one_column_that_nothing_explains_is_refused_in_the_reader_s_words(table):
    with pytest.raises(ValueError, match="whose probability it is: positive_class ill"):
        by_class([table(("p",), [[0.9], [0.2]])], ["ill", "well"])


def test_tables_have_the_classes_that_they_have_in_common(table, tmp_path):
    tables = [table(("b", "a", "x"), [[0, 1, 2]]), table(("a", "b", "y"), [[0, 1, 2]])]
    assert common_classes(tables) == ("b", "a")
    np.savez(tmp_path / "array.npz", y_proba=TWO, classes=["a", "b"])
    array = open_predictions(tmp_path / "array.npz")
    assert common_classes([tables[0], array]) == ("b", "a")
    with pytest.raises(ValueError, match=r"the classes of .* are not those of"):
        common_classes([table(("c", "d"), TWO), array])
