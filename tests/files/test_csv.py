"""CSV: every cell that is no prediction stays as it was."""

import csv
import gzip
import io
import tracemalloc
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from priorshift.files import _base, _csv, open_predictions
from priorshift.text import safe_csv


def swap(values):
    return values[:, ::-1]


@pytest.fixture(autouse=True, scope="module", params=["csv module", "PyArrow"])
def reader(request):
    """Read every file both ways."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "PyArrow":
            pytest.importorskip("pyarrow")
            patch.setattr(_csv, "LARGE_BYTES", 0)
        yield request.param


@pytest.fixture
def make(tmp_path):
    def write(text, **options):
        path = tmp_path / "t.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return open_predictions(path, **options)

    return write


def rewritten(file, function=swap, names=None):
    output = file.path.with_name("new.csv")
    with output.open("wb") as stream:
        file.rewrite(stream, names, function)
    return output.read_bytes()


def test_other_cells_are_kept(make):
    file = make('id,a,note,b\n007,0.25,"x, ""y""",0.75\n1e5,1,"two\nlines",0\n,0.5, é  ,0.5\n')
    assert file.names == ("id", "a", "b")
    assert rewritten(file, names=("a", "b")).decode() == (
        'id,a,note,b\n007,0.75,"x, ""y""",0.25\n1e5,0.0,"two\nlines",1.0\n,0.5, é  ,0.5\n'
    )


def test_byte_order_mark_and_line_ends_are_kept(make):
    file = make(b"\xef\xbb\xbfa,b,c\r\n0.25,0.75,x\r\n")
    assert file.header == ["a", "b", "c"]
    assert rewritten(file) == b"\xef\xbb\xbfa,b,c\r\n0.75,0.25,x\r\n"


def test_numbers_are_written_in_full(make):
    values = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    file = make("a,b,c\n" + "1,0,0\n" * 50)
    (file.path.parent / "new.csv").write_bytes(rewritten(file, lambda _: values))
    again = open_predictions(file.path.parent / "new.csv").values(None)
    np.testing.assert_array_equal(again, values)


@given(
    st.lists(
        st.tuples(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))),
        min_size=1,
        max_size=5,
    )
)
def test_any_text_passes_through(tmp_path_factory, cells):
    stream = io.StringIO()
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL)
    writer.writerows([("a", "b", "note"), *((0.25, 0.75, cell) for (cell,) in cells)])
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_bytes(stream.getvalue().encode())
    new = path.with_name("new.csv")
    with new.open("wb") as stream:
        open_predictions(path).rewrite(stream, ("a", "b"), swap)
    with new.open(encoding="utf-8", newline="") as text:
        rows = list(csv.reader(text))
    assert rows[1:] == [["0.75", "0.25", cell] for (cell,) in cells]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_line_ends_within_cells_stay_there(make, line_end):
    rows = [["a", "b", "note"], ["0.25", "0.75", "x\ry"], ["0.5", "0.5", "\n"], ["1", "0", "\r\n"]]
    text = line_end.join(f'{a},{b},"{note}"' for a, b, note in rows) + line_end
    new = rewritten(make(text), names=("a", "b")).decode()
    assert [row[2] for row in csv.reader(io.StringIO(new, newline=""))] == [row[2] for row in rows]
    assert new.count(line_end) == text.count(line_end)


def test_what_one_reader_does_not_know_the_other_reads(make, monkeypatch):
    """PyArrow knows neither +, nor blanks as missing, nor undecodable text in other columns."""
    monkeypatch.setattr(_base, "BLOCK_ROWS", 2)
    lines = ["0.5,0.5,x", "+0.25,0.75,x", "  ,n/A,x", "1e-3,0.999,x"]
    file = make("a,b,note\n" + "\n".join(lines) + "\n")
    expected = [[0.5, 0.5], [0.25, 0.75], [np.nan, np.nan], [0.001, 0.999]]
    np.testing.assert_array_equal(file.values(("a", "b")), expected)
    assert rewritten(file).decode().splitlines()[3] == "  ,n/A,x"
    undecodable = make("\n".join(["a,b,note", *lines]).encode() + b"\n0.5,0.5,\xff\n")
    with pytest.raises(ValueError, match="not UTF-8"):
        undecodable.values(("a", "b"))
    ragged = make("\n".join(["a,b,note", *lines, "0.5,0.5"]))
    with pytest.raises(ValueError, match="line 6 has 2 cells"):
        ragged.values(("a", "b"))


def test_blocks_together_equal_the_whole(make, monkeypatch):
    values = np.random.default_rng(1).dirichlet(np.ones(2), 7)
    file = make("b,a\n" + "".join(f"{b!r},{a!r}\n" for b, a in values.tolist()))
    whole = rewritten(file)
    monkeypatch.setattr(_base, "BLOCK_ROWS", 3)
    done = []
    with (file.path.with_name("x.csv")).open("wb") as stream:
        file.rewrite(stream, None, lambda block: done.append(len(block)) or swap(block))
    assert done == [3, 3, 1]
    assert file.path.with_name("x.csv").read_bytes() == whole
    np.testing.assert_array_equal(file.values(("a", "b")), values[:, ::-1])


def test_columns_come_in_the_order_asked_for(make):
    file = make("a,b,c\n0.1,0.2,0.7\n")
    assert file.values(["c", "a"]).tolist() == [[0.7, 0.1]]
    assert b"0.2,0.1,0.7" in rewritten(file, names=("a", "b"))
    with pytest.raises(ValueError, match=r"t\.csv has no column 'd'; it has 'a', 'b', 'c'\."):
        file.values(["a", "d"])


def test_numeric_columns_are_told_from_others(make):
    file = make(",id,a,text,label,gone,b\n0,x1,1,z,3,,\n1,x2,,z,4,,1e-3\n")
    assert file.names == ("a", "b")
    # missing cells are NaN, which is refused where predictions are checked, or dropped
    np.testing.assert_array_equal(file.values(None), [[1, np.nan], [np.nan, 1e-3]])
    assert open_predictions(file.path, label_column="b").names == ("a", "label")


def test_blanks_around_names_and_labels_do_not_count(make):
    file = make("label, cat, dog \n cat, 0.5, 0.5\n")
    assert file.names == ("cat", "dog")
    assert file.vector("label").tolist() == ["cat"]
    assert rewritten(file) == b"label, cat, dog \n cat, 0.5, 0.5\n"  # numbers that stay, stay


def test_labels_are_text_or_absent(make):
    assert make("label,a\n01,1\n\nb,2\n").vector("label").tolist() == ["01", "b"]
    assert make("a,b\n1,0\n").vector("label") is None
    assert make("a\n1\n").n_rows() is None


def test_a_header_alone_has_no_rows(make):
    file = make("label,a,b\n")
    assert file.names == ("a", "b")
    assert file.values(None).shape == (0, 2)
    assert rewritten(file) == b"label,a,b\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", r"t\.csv is empty; a CSV file begins with a header"),
        (b"a,b\n1,2,3\n", "line 2 has 3 cells but the header has 2"),
        (b"a,b,a\n1,2,3\n", r"the header of .*t\.csv names 'a' twice"),
        (b"a,b\n1,\xff\n", r"t\.csv is not UTF-8 text"),
        ("a,b\n1,2\n".encode("utf-16"), r"t\.csv is not UTF-8 text"),
        (
            b"a;b\n1;2;3\n",
            "line 2 has 3 cells but the header has 2; .* quote cells with semicolons",
        ),
        (b"\x1f\x8b\x08\0\0\0\0\0", r"t\.csv cannot be read: .*; write it again"),
        (b'a,b\n"' + b"x" * 200_000 + b'",1\n', r"t\.csv cannot be read as CSV"),
    ],
)
def test_bad_files_are_named(make, text, message):
    with pytest.raises(ValueError, match=message):
        make(text).values(None)


def test_a_bad_cell_is_named_by_its_line_in_the_file(make, monkeypatch):
    monkeypatch.setattr(_base, "BLOCK_ROWS", 2)
    with pytest.raises(ValueError, match=r"t\.csv: line 5, column 'b' holds 'x', not a number"):
        make("a,b\n" + "1,0\n" * 3 + "1,x\n").values(["a", "b"])


def test_percent_signs_are_called_by_their_name(make):
    table = make("id,a,b\n7,85%,15%\n8,12.5%,87.5 %\n")
    assert table.names == ("id", "a", "b")  # classes, though not yet numbers
    said = r"t\.csv: line 2, column 'a' holds '85%'.* \(4 such cells in 2 rows\).*0\.85 instead"
    with pytest.raises(ValueError, match=said):
        table.values(["a", "b"])


def test_a_failing_block_is_named(make, monkeypatch):
    monkeypatch.setattr(_base, "BLOCK_ROWS", 2)

    def fail(values):
        if values[0, 0] < 1:
            raise ValueError("bad row 0.")
        return values

    with pytest.raises(ValueError, match=r"t\.csv: bad row 0\. \(Row 0 of this block is row 2 of"):
        rewritten(make("a,b\n1,0\n1,0\n0,1\n"), fail)
    with pytest.raises(ValueError, match=r"t\.csv: bad row 0\.$"):
        rewritten(make("a,b\n0,1\n"), fail)


def test_messages_use_the_title(tmp_path):
    path = tmp_path / "secret.csv"
    path.write_text("")
    with pytest.raises(ValueError, match=r"^stdin is empty"):
        _ = open_predictions(path, title="stdin").names


@pytest.mark.parametrize(
    ("text", "new", "remark"),
    [
        (
            "id;a;b\n7;0,25;0,75\n8;1;0\n",
            "id;a;b\n7;0,75;0,25\n8;0,0;1,0\n",
            "semicolons between its cells, and decimals have a comma",
        ),
        (
            'note;a;b\n"1,5";0.25;0.75\n"x;y";0.5;0.5\n',
            'note;a;b\n1,5;0.75;0.25\n"x;y";0.5;0.5\n',
            "semicolons between its cells.",
        ),
        ("id\ta\tb\n7\t0.25\t0.75\n", "id\ta\tb\n7\t0.75\t0.25\n", "tabs between its cells."),
        ("a;x,b\n0.25,0.75\n", "a;x,b\n0.75,0.25\n", None),  # as many of each: commas
    ],
)
def test_the_header_tells_what_separates_cells(make, text, new, remark):
    file = make(text)
    names = file.names[-2:]
    assert file.values(names)[0].tolist() == [0.25, 0.75]
    assert file.head(1, names).tolist() == [[0.25, 0.75]]
    assert rewritten(file, names=names).decode() == new
    assert file.remarks == () if remark is None else remark in file.remarks[0]


def test_compressed_files_are_known_by_their_first_bytes(make, tmp_path):
    text = "id,a,b\n" + "".join(f"{i},0.25,0.75\n" for i in range(2500))
    for name in ("t.csv.gz", "t.csv", "T.CSV.GZ"):
        packed = tmp_path / name
        packed.write_bytes(gzip.compress(text.encode()))
        file = open_predictions(packed)
        assert file.names == ("id", "a", "b")
        np.testing.assert_array_equal(file.values(["a", "b"]), np.tile([0.25, 0.75], (2500, 1)))
        with (tmp_path / "new.csv.gz").open("wb") as stream:
            file.rewrite(stream, ["a", "b"], swap)
        new = (tmp_path / "new.csv.gz").read_bytes()
        assert gzip.decompress(new).decode() == text.replace("0.25,0.75", "0.75,0.25")
        with (tmp_path / "again.csv.gz").open("wb") as stream:
            file.rewrite(stream, ["a", "b"], swap)
        assert (tmp_path / "again.csv.gz").read_bytes() == new


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "Unnamed: 0_level_0", "__index_level_0__"])
def test_the_index_of_pandas_is_no_class(make, name):
    assert make(f"{name},a,b\n0,0.25,0.75\n").names == ("a", "b")


# Files that are made to fill a memory


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_base, "LONGEST_LINE", 1000)
    for name, line in (("a.csv.gz", "a" * 5000), ("b.csv.gz", "a,b\n" + "0" * 5000)):
        path = tmp_path / name
        path.write_bytes(gzip.compress(line.encode()))
        with pytest.raises(ValueError, match=r"a line of more than 1,000 .*; if you trust it"):
            open_predictions(path).values(None)
    whole = "a,b\n" + "0" * 5000 + ",1\n"
    path.write_bytes(gzip.compress(whole.encode()))
    assert open_predictions(path, bounded=False).values(None).tolist() == [[0, 1]]


def test_a_compressed_line_without_end_is_not_read_whole(tmp_path):
    """100 MB from 100 KB: only the longest possible line is held."""
    path = tmp_path / "bomb.csv.gz"
    with gzip.open(path, "wb") as stream:
        for _ in range(100):
            stream.write(b"," * 2**20)
    tracemalloc.start()
    with pytest.raises(ValueError, match="more than 16,777,216 characters"):
        _ = open_predictions(path).header
    largest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert largest < 80 * 2**20


def test_contents_that_expand_too_far_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_base, "MOST_EXPANDED", 10_000)
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"0.5,0.5\n" * 20_000))
    with pytest.raises(ValueError, match=r"expands from [0-9,]+ bytes to [0-9,]+ or more"):
        open_predictions(path).values(None)
    assert open_predictions(path, bounded=False).values(None).shape == (20_000, 2)
    monkeypatch.setattr(_base, "MOST_TIMES", 1000)
    assert open_predictions(path).values(None).shape == (20_000, 2)


def test_formulas_are_quoted_on_demand(tmp_path):
    path, copy = tmp_path / "a.csv", tmp_path / "copy.csv"
    path.write_text("=a,-b,@note\n0.25,0.75,+1+1\n0.5,0.5,-0.5\n")
    for wanted, first, cells in (
        (False, "=a,-b,@note", ["+1+1", "-0.5"]),
        (True, "'=a,'-b,'@note", ["'+1+1", "-0.5"]),
    ):
        with safe_csv() if wanted else nullcontext(), copy.open("wb") as stream:
            file = open_predictions(path)
            file.rewrite(stream, ("=a", "-b"), lambda block: block[:, ::-1])
        head, *rows = copy.read_text().splitlines()
        assert head == first
        assert [row.split(",")[2] for row in rows] == cells


def test_a_line_longer_than_a_chunk_is_read_by_pyarrow(make, reader, monkeypatch):
    """Chunks are small, so that little is held; more columns make them larger."""
    if reader != "PyArrow":
        pytest.skip("the csv module reads lines")
    monkeypatch.setattr(_csv, "CHUNK_BYTES", 64)
    monkeypatch.setattr(_csv, "CELL_BYTES", 64)
    found, tables = [], _csv.CsvFile._tables

    def watched(*arguments, **named):
        for table in tables(*arguments, **named):
            found.append(len(table))
            yield table

    monkeypatch.setattr(_csv.CsvFile, "_tables", watched)
    names = [f"c{k}" for k in range(40)]
    file = make("\n".join([",".join(names), *[",".join(["0.025000000000"] * 40)] * 9]))
    assert file.values(None).shape == (9, 40)
    assert found == [9]


# As spreadsheets write it


def test_a_line_that_tells_the_separator_is_no_header(make):
    plain = "a;b;note\r\n0,25;0,75;x\r\n1;0;y\r\n"
    file = make("\ufeffsep=;\r\n" + plain)
    assert file.header == ["a", "b", "note"]
    np.testing.assert_array_equal(file.values(("a", "b")), [[0.25, 0.75], [1, 0]])
    assert file.place(0) == "line 3"
    assert rewritten(file, lambda values: values, ("a", "b")).decode("utf-8-sig") == plain


def test_columns_without_names_and_cells_are_ignored(make):
    text = "a;b;;\n0.25;0.75;;\n1;0;;\n"
    file = make(text)
    assert file.names == ("a", "b")
    np.testing.assert_array_equal(file.values(("a", "b")), [[0.25, 0.75], [1, 0]])
    assert rewritten(file, lambda values: values).decode() == text
    with pytest.raises(ValueError, match="names '' twice"):
        make("a;b;;\n0.25;0.75;1;2\n").values(None)


def test_accents_are_the_same_however_they_are_composed(make):
    name, composed = "cafe\u0301", "caf\u00e9"
    file = make(f"{name},b,note\n0.25,0.75,{name}\n")
    assert file.header[0] == composed
    assert file.vector("note").tolist() == [composed]
    assert rewritten(file).decode() == f"{name},b,note\n0.75,0.25,{name}\n"


def test_another_encoding_is_told_how_to_convert(make):
    with pytest.raises(ValueError, match="iconv -f WINDOWS-1252 -t UTF-8"):
        make("caf\u00e9,b\n0.25,0.75\n".encode("cp1252")).values(None)
