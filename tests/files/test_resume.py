"""A file that is written in parts, by runs that end in the middle, is the same file."""

import errno
import gzip
import io
import json
import os
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import priorshift as ps
from priorshift.files import (
    _atomic,
    _base,
    _resume,
    atomic_file,
    open_predictions,
    remove_partial,
    resumable_file,
    sign,
)

N = 23
VALUES = np.random.default_rng(0).dirichlet(np.ones(3), N)
EVERY = [
    *("t.npy", "t.npz", "t.csv", "bom.csv", "t.csv.gz"),
    *("t.parquet", "file.arrow", "t.feather"),
]


class Killed(BaseException):
    """Ends a run where it stands, as no failure of the work itself does."""


def columns():
    return {
        "id": pa.array([f"row {i}" for i in range(N)]),
        "a": pa.array(VALUES[:, 0], pa.float32()),
        "kind": pa.array(["x", "y", None] * (N // 3) + ["x", "z"]).dictionary_encode(),
        "b": pa.array(VALUES[:, 1]),
        "nested": pa.array([[{"x": i}] for i in range(N)]),
        "c": pa.array(VALUES[:, 2]),
    }


def write(path):
    table = pa.table(columns()).replace_schema_metadata({"mine": "yes"})
    if path.suffix == ".npy":
        np.save(path, VALUES.astype(np.float32))
    elif path.suffix == ".npz":
        np.savez_compressed(path, y_proba=VALUES, classes=["a", "b", "c"], id=np.arange(N))
    elif ".csv" in path.name:
        lines = ["id,a,b,c", *(f'"é {i}",{a},{b},{c}' for i, (a, b, c) in enumerate(VALUES))]
        mark = "\ufeff" if path.name == "bom.csv" else ""
        text = (mark + "\r\n".join(lines) + "\r\n").encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    elif path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=10, compression="zstd")
    elif path.suffix == ".feather":
        feather.write_feather(table, path, chunksize=9)
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=9)
    return open_predictions(path)


def run(file, output, fingerprint="same", *, last=N, killed_at_the_end=False):
    """Rewrite a file, and be killed once `last` rows are done; return those done here."""
    done = []

    def turn(values):
        if sum(map(len, done)) >= last:
            raise Killed
        done.append(values)
        return values[:, [1, 2, 0]]

    with resumable_file(output, fingerprint) as partial:
        file.rewrite(partial, ("a", "b", "c"), turn, lambda: {"so far": len(done)})
        if killed_at_the_end:
            raise Killed
    return sum(map(len, done))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(_base, "BLOCK_ROWS", 4)
    monkeypatch.setattr(_resume, "EVERY_SECONDS", 0.0)


@pytest.mark.parametrize("name", EVERY)
def test_a_run_that_is_continued_writes_the_same_bytes(tmp_path, name):
    file = write(tmp_path / name)
    with atomic_file(tmp_path / f"whole-{name}") as stream:
        file.rewrite(stream, ("a", "b", "c"), lambda v: v[:, [1, 2, 0]])
    output = tmp_path / f"new-{name}"
    before = set(tmp_path.iterdir())
    for last in (8, 4):  # the second run begins where the first ended
        with pytest.raises(Killed):
            run(file, output, last=last)
        assert not output.exists()
    assert 0 < run(file, output) < N - 8
    assert output.read_bytes() == (tmp_path / f"whole-{name}").read_bytes()
    assert set(tmp_path.iterdir()) == before | {output}


@pytest.mark.parametrize("name", EVERY)
def test_what_is_half_written_after_the_mark_does_not_matter(tmp_path, name):
    file = write(tmp_path / name)
    run(file, tmp_path / f"whole-{name}")
    output = tmp_path / f"new-{name}"
    with pytest.raises(Killed):
        run(file, output, last=12)
    with (tmp_path / f".new-{name}.partial").open("ab") as stream:
        stream.write(b"\x00garbage" * 9)
    assert run(file, output) <= N - 12
    assert output.read_bytes() == (tmp_path / f"whole-{name}").read_bytes()


@pytest.mark.parametrize("name", EVERY)
def test_other_work_begins_anew(tmp_path, name):
    file = write(tmp_path / name)
    output = tmp_path / f"new-{name}"
    with pytest.raises(Killed):
        run(file, output, last=12)
    assert run(file, output, "other") == N


@pytest.mark.parametrize("name", EVERY[::3])
@pytest.mark.parametrize("harm", ["no file", "short", "a broken first line", "a changed number"])
def test_what_cannot_be_continued_is_begun_anew(tmp_path, name, harm):
    file = write(tmp_path / name)
    run(file, tmp_path / f"whole-{name}")
    output, store = tmp_path / f"new-{name}", tmp_path / f".new-{name}.partial"
    with pytest.raises(Killed):
        run(file, output, last=12)
    content, lost = store.read_bytes(), True
    if harm == "no file":
        store.unlink()
    elif harm == "short":  # the last piece is lost
        os.truncate(store, len(content) - 1)
        lost = False
    elif harm == "a broken first line":
        store.write_bytes(b"{" + content)
    else:
        at = content.rindex(b'"rows": ') + 8
        store.write_bytes(content[:at] + b"7" + content[at + 1 :])
        lost = False
    assert (run(file, output) == N) is lost
    assert output.read_bytes() == (tmp_path / f"whole-{name}").read_bytes()


@pytest.mark.parametrize("name", EVERY)
def test_a_run_killed_after_its_last_piece_loses_nothing(tmp_path, name):
    file = write(tmp_path / name)
    run(file, tmp_path / f"whole-{name}")
    output = tmp_path / f"new-{name}"
    with pytest.raises(Killed):
        run(file, output, killed_at_the_end=True)
    assert not output.exists()
    assert run(file, output) == 0  # all that is left to do is to join
    assert output.read_bytes() == (tmp_path / f"whole-{name}").read_bytes()


def add(partial, piece, **kept):
    """Write a piece of one row to an output, and keep it."""
    for each in partial.pieces(lambda begin: iter([(1, piece)]), lambda: kept):
        partial.stream.write(each)


def begin_and_raise(goal, error):
    with resumable_file(goal, "f") as partial:
        add(partial, b"half")
        raise error


def interrupted(goal):
    """Begin, and stop at once; return where that began."""
    with suppress(KeyboardInterrupt), resumable_file(goal, "f") as partial:
        raise KeyboardInterrupt
    return partial


def test_failures_leave_nothing_and_interruptions_everything(tmp_path):
    goal = tmp_path / "a.csv"
    goal.write_text("old")
    full = OSError(errno.ENOSPC, "no space left")
    for error, left in (
        (ValueError(), 1),
        (full, 1),
        (KeyboardInterrupt(), 2),
        (OSError(), 2),
        (SystemExit(), 2),
    ):
        with pytest.raises(type(error)):
            begin_and_raise(goal, error)
        assert goal.read_text() == "old"
        assert len(list(tmp_path.iterdir())) == left
    with resumable_file(goal, "f") as partial:
        assert (partial.rows, partial.kept) == (3, {})
        add(partial, b" and whole")
    assert goal.read_text() == "half" * 3 + " and whole"
    assert list(tmp_path.iterdir()) == [goal]


def test_the_disk_is_not_waited_for_more_often_than_the_clock_says(tmp_path, monkeypatch):
    monkeypatch.setattr(_resume, "EVERY_SECONDS", 3600.0)
    clock, synced = iter([0.0, 0.0, 3599.0, 3600.0, 3600.0, 7199.0]), []
    with resumable_file(tmp_path / "a.csv", "f") as partial:
        monkeypatch.setattr(_resume.time, "monotonic", lambda: next(clock))
        monkeypatch.setattr(_resume.os, "fsync", lambda _: synced.append(1))
        pieces = [(1, b"a"), (1, b"b"), (1, b"c"), (1, b"d")]
        list(partial.pieces(lambda begin: iter(pieces), dict))
        assert len(synced) == 2


posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX users, modes and locks")


@posix
def test_two_runs_do_not_write_the_same_file(tmp_path):
    goal = tmp_path / "a.csv"
    with resumable_file(goal, "f") as partial:
        add(partial, b"one")
        with pytest.raises(BlockingIOError, match="another run is writing"):
            resumable_file(goal, "f").__enter__()
    assert goal.read_text() == "one"


@posix
@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "another user"])
def test_what_is_not_ours_is_refused_and_left_alone(tmp_path, monkeypatch, kind):
    goal, hidden, victim = tmp_path / "a.csv", tmp_path / ".a.csv.partial", tmp_path / "victim"
    victim.write_text("dear")
    if kind == "link":
        hidden.symlink_to(victim)
    elif kind == "folder":
        hidden.mkdir()
    elif kind == "pipe":
        os.mkfifo(hidden)
    else:
        hidden.write_text("")
        monkeypatch.setattr(os, "geteuid", lambda: hidden.stat().st_uid + 1)
    for _ in range(2):
        with pytest.raises(ValueError, match="a link, a folder or another user's"):
            resumable_file(goal, "f").__enter__()
        assert hidden.is_symlink() or hidden.exists()
        assert victim.read_text() == "dear"
        remove_partial(goal)


@posix
def test_another_file_in_the_place_of_ours_is_not_written_to(tmp_path):
    """In a folder that others may write to, they can rename what they cannot open."""
    goal, hidden, stolen = tmp_path / "a.csv", tmp_path / ".a.csv.partial", tmp_path / "stolen"
    victim = tmp_path / "victim"
    victim.write_text("dear")
    with resumable_file(goal, "f") as partial:
        hidden.rename(stolen)
        hidden.symlink_to(victim)
        add(partial, b"whole")
    assert victim.read_text() == "dear"
    assert goal.read_text() == "whole"
    assert hidden.is_symlink()


@posix
def test_what_others_may_have_written_is_not_continued(tmp_path):
    goal, hidden = tmp_path / "a.csv", tmp_path / ".a.csv.partial"
    for mode, rows in ((0o644, 1), (0o666, 0)):
        hidden.unlink(missing_ok=True)
        with pytest.raises(KeyboardInterrupt):
            begin_and_raise(goal, KeyboardInterrupt)
        assert hidden.stat().st_mode & 0o777 == 0o600
        hidden.chmod(mode)
        assert interrupted(goal).rows == rows
        assert hidden.stat().st_mode & 0o777 == 0o600


def test_entries_that_were_changed_are_not_believed(tmp_path):
    goal, hidden = tmp_path / "a.csv", tmp_path / ".a.csv.partial"
    with pytest.raises(KeyboardInterrupt):
        begin_and_raise(goal, KeyboardInterrupt)
    first, line, _ = hidden.read_bytes().splitlines(keepends=True)
    entry = json.loads(line)
    changed = [json.dumps(entry | change) for change in ({"rows": 2}, {"kept": 1}, {"crc": 0})]
    signed = json.dumps(sign({"rows": 1}))
    for text in (*changed, signed, "[]", "1", "null", "[" * 9999, '{"rows": 1'):
        hidden.write_bytes(first + text.encode() + b"\nhalf")
        partial = interrupted(goal)
        assert (partial.rows, partial.kept) == (0, None)


def test_what_will_not_be_continued_is_removed(tmp_path):
    goal = tmp_path / "a.csv"
    with pytest.raises(KeyboardInterrupt):
        begin_and_raise(goal, KeyboardInterrupt)
    for _ in range(2):
        remove_partial(goal)
        assert not list(tmp_path.iterdir())


def test_permissions_stay(tmp_path):
    goal = tmp_path / "a.csv"
    goal.write_text("old")
    goal.chmod(0o640)
    with resumable_file(goal, "f") as partial:
        add(partial, b"new")
    assert goal.stat().st_mode & 0o777 == 0o640


def test_joined_parquet_has_the_row_groups_that_were_written(tmp_path):
    file = write(tmp_path / "t.parquet")
    with pytest.raises(Killed):
        run(file, tmp_path / "new.parquet", last=8)
    run(file, tmp_path / "new.parquet")
    new, old = pq.ParquetFile(tmp_path / "new.parquet"), pq.read_table(tmp_path / "t.parquet")
    sizes = [new.metadata.row_group(at).num_rows for at in range(new.num_row_groups)]
    assert sum(sizes) == N
    assert max(sizes) == 4
    assert new.metadata.row_group(0).column(0).compression == "ZSTD"
    assert new.read().drop_columns(["a", "b", "c"]) == old.drop_columns(["a", "b", "c"])
    mark = {b"priorshift.adapted": ps.__version__.encode()}
    assert new.schema_arrow.metadata == old.schema.metadata | mark


# A full disk says so, at whichever write that happens, and nothing stays behind.

FULL = ["t.npy", "t.csv", "t.csv.gz", "t.parquet", "t.arrow", "t.npz"]


class FillingDisk(io.FileIO):
    """A file on a disk that takes `room` writes, all files together."""

    room = 0

    def write(self, block):
        FillingDisk.room -= 1
        if FillingDisk.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(block)


@pytest.fixture
def filling(monkeypatch):
    def opened(number, mode):
        return io.BufferedRandom(FillingDisk(number, "r+"), 256)

    for module in (_atomic, _resume):
        monkeypatch.setattr(module.os, "fdopen", opened)


def file_at(path):
    if path.suffix == ".npz":
        np.savez(path, y_proba=np.full((20, 2), 0.5))
    elif path.suffix == ".gz":
        lines = (f"{number},{1 - number}" for number in np.random.default_rng(0).random(80))
        path.write_bytes(gzip.compress("\n".join(["a,b", *lines]).encode()))
    else:
        return write(path)
    return open_predictions(path)


@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("name", FULL)
def test_every_write_may_be_the_one_that_fails(tmp_path, filling, name, resumed):
    file, output = file_at(tmp_path / name), tmp_path / f"new-{name}"
    before, failures = set(tmp_path.iterdir()), 0
    columns = file.names[:2] if file.names else None

    def attempt():
        target = resumable_file(output, "f") if resumed else atomic_file(output)
        with target as goal:
            file.rewrite(goal, columns, lambda values: values)

    while True:
        FillingDisk.room = failures
        try:
            attempt()
        except OSError as error:
            said = error.errno, error.filename
        else:
            break
        assert said == (errno.ENOSPC, os.fspath(output))
        assert set(tmp_path.iterdir()) == before
        failures += 1
    assert failures >= 2
    assert set(tmp_path.iterdir()) == {*before, output}
