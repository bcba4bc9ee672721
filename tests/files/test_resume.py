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
    START,
    Mark,
    _arrow,
    _atomic,
    _base,
    _resume,
    atomic_file,
    open_predictions,
    remove_partial,
    resumable_file,
)

N = 23
VALUES = np.random.default_rng(0).dirichlet(np.ones(3), N)
EVERY = ["t.npy", "t.csv", "bom.csv", "t.parquet", "file.arrow", "stream.arrow", "t.feather"]


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
    elif path.suffix == ".csv":
        lines = ["id,a,b,c", *(f'"é {i}",{a},{b},{c}' for i, (a, b, c) in enumerate(VALUES))]
        mark = "\ufeff" if path.name == "bom.csv" else ""
        path.write_text(mark + "\r\n".join(lines) + "\r\n", encoding="utf-8", newline="")
    elif path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=10, compression="zstd")
    elif path.suffix == ".feather":
        feather.write_feather(table, path, chunksize=9)
    else:
        new = pa.ipc.new_stream if path.name.startswith("stream") else pa.ipc.new_file
        with new(str(path), table.schema) as writer:
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
        file.rewrite(
            partial, ("a", "b", "c"), turn, lambda rows: None, lambda: {"so far": len(done)}
        )
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
        file.rewrite(stream, ("a", "b", "c"), lambda v: v[:, [1, 2, 0]], lambda rows: None)
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
    folder = tmp_path / f".new-{name}.partial"
    with (folder / "data").open("ab") as stream:
        stream.write(b"\x00garbage" * 9)
    run(file, output)
    assert output.read_bytes() == (tmp_path / f"whole-{name}").read_bytes()


@pytest.mark.parametrize("name", EVERY)
def test_other_work_begins_anew(tmp_path, name):
    file = write(tmp_path / name)
    output = tmp_path / f"new-{name}"
    with pytest.raises(Killed):
        run(file, output, last=12)
    assert run(file, output, "other") == N


@pytest.mark.parametrize("harm", ["no data", "short data", "no journal", "a broken journal"])
@pytest.mark.parametrize("name", EVERY[::3])
def test_what_cannot_be_continued_is_begun_anew(tmp_path, name, harm):
    file = write(tmp_path / name)
    output = tmp_path / f"new-{name}"
    with pytest.raises(Killed):
        run(file, output, last=12)
    folder = tmp_path / f".new-{name}.partial"
    journal, data = folder / "journal.json", folder / "data"
    if harm == "no data":
        data.unlink()
    elif harm == "short data":
        os.truncate(data, 5)
    elif harm == "no journal":
        journal.unlink()
    else:
        journal.write_text('{"fingerprint": "same", "mark"')
    assert run(file, output) == N


JOINED = ["t.parquet", "file.arrow", "stream.arrow", "t.feather"]


@pytest.mark.parametrize("name", JOINED)
def test_a_run_killed_while_it_joins_the_parts_loses_nothing(tmp_path, name, monkeypatch):
    file = write(tmp_path / name)
    run(file, tmp_path / f"whole-{name}")
    output = tmp_path / f"new-{name}"
    with pytest.raises(Killed):
        run(file, output, last=12)
    with monkeypatch.context() as patch:
        patch.setattr(_arrow, "_batches_of_parts", killed_in_the_middle)
        with pytest.raises(Killed):
            run(file, output)
    assert (tmp_path / f".new-{name}.partial" / "joined").exists()
    assert not output.exists()
    assert run(file, output) == 0  # all that is left to do is to join
    assert output.read_bytes() == (tmp_path / f"whole-{name}").read_bytes()


def killed_in_the_middle(*arguments):
    yield next(batches_of_parts(*arguments))
    raise Killed


batches_of_parts = _arrow._batches_of_parts


@pytest.mark.parametrize("name", JOINED)
def test_a_run_killed_after_it_has_joined_the_parts_loses_nothing(tmp_path, name):
    file = write(tmp_path / name)
    run(file, tmp_path / f"whole-{name}")
    output = tmp_path / f"new-{name}"
    with pytest.raises(Killed):
        run(file, output, killed_at_the_end=True)
    assert not output.exists()
    assert run(file, output) == 0
    assert output.read_bytes() == (tmp_path / f"whole-{name}").read_bytes()


@pytest.mark.parametrize("name", JOINED)
def test_a_part_that_the_journal_does_not_know_is_not_used(tmp_path, name, monkeypatch):
    """A run continues, and is killed before its first entry: it leaves a part, but no mark."""
    file = write(tmp_path / name)
    run(file, tmp_path / f"whole-{name}")
    output = tmp_path / f"new-{name}"
    with pytest.raises(Killed):
        run(file, output, last=8)
    with monkeypatch.context() as patch:
        patch.setattr(_resume.Partial, "save", lambda *_: None)
        with pytest.raises(Killed):
            run(file, output, last=4)
    assert run(file, output) == N - 8
    assert output.read_bytes() == (tmp_path / f"whole-{name}").read_bytes()


def begin_and_raise(goal, error):
    with resumable_file(goal, "f") as partial:
        partial.stream.write(b"half")
        partial.save(lambda: Mark(1, 4), dict)
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
        assert (partial.begin, partial.kept) == (Mark(1, 4), {})
        partial.stream.write(b" and whole")
    assert goal.read_text() == "half and whole"
    assert list(tmp_path.iterdir()) == [goal]


def test_the_journal_is_not_written_more_often_than_the_clock_says(tmp_path, monkeypatch):
    monkeypatch.setattr(_resume, "EVERY_SECONDS", 3600.0)
    kept = []
    with resumable_file(tmp_path / "a.csv", "f") as partial:
        partial.stream.write(b"half")
        for now in (0.0, 3599.0, 3600.0, 7199.0):  # a machine's clock may begin at 0
            monkeypatch.setattr(_resume.time, "monotonic", lambda now=now: now)
            partial.save(lambda: Mark(1, 4), lambda now=now: kept.append(now) or {})
    assert kept == [0.0, 3600.0]


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX locks")
def test_two_runs_do_not_write_the_same_file(tmp_path):
    goal = tmp_path / "a.csv"
    with resumable_file(goal, "f") as partial:
        partial.stream.write(b"one")
        other = resumable_file(goal, "f")
        with pytest.raises(BlockingIOError, match="another run is writing"):
            other.__enter__()
    assert goal.read_text() == "one"


posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX users and modes")


@posix
@pytest.mark.parametrize("kind", ["link", "file", "another user"])
def test_a_folder_that_is_not_ours_is_refused_and_left_alone(tmp_path, monkeypatch, kind):
    goal, folder, victim = tmp_path / "a.csv", tmp_path / ".a.csv.partial", tmp_path / "victim"
    victim.mkdir()
    (victim / "data.csv").write_text("dear")
    if kind == "link":
        folder.symlink_to(victim)
    elif kind == "file":
        folder.write_text("")
    else:
        folder.mkdir(mode=0o700)
        monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(ValueError, match="a link, a file or another user's"):
        resumable_file(goal, "f").__enter__()
    assert folder.is_symlink() or folder.exists()
    assert (victim / "data.csv").read_text() == "dear"
    remove_partial(goal)
    assert folder.is_symlink() or folder.exists()
    assert (victim / "data.csv").read_text() == "dear"


@posix
def test_another_folder_in_the_place_of_ours_is_not_written_to(tmp_path):
    """In a folder that others may write to, they can rename what they cannot open."""
    goal, folder, stolen = tmp_path / "a.csv", tmp_path / ".a.csv.partial", tmp_path / "stolen"
    victim = tmp_path / "victim"
    victim.write_text("dear")
    with resumable_file(goal, "f") as partial:
        folder.rename(stolen)
        folder.mkdir()
        for name in ("data", "joined", "journal.json", "journal.new"):
            (folder / name).symlink_to(victim)
        partial.stream.write(b"whole")
        partial.save(lambda: Mark(1, 5), dict)
        with partial.joined() as stream:
            stream.write(b"joined")
    assert victim.read_text() == "dear"
    assert goal.read_text() == "joined"
    assert not goal.is_symlink()


@posix
def test_links_within_the_folder_are_not_followed(tmp_path):
    goal, victim = tmp_path / "a.csv", tmp_path / "victim"
    victim.write_text("dear")
    (tmp_path / ".a.csv.partial").mkdir(mode=0o700)
    (tmp_path / ".a.csv.partial" / "data").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        resumable_file(goal, "f").__enter__()
    assert victim.read_text() == "dear"


@posix
def test_what_others_may_have_written_is_not_continued(tmp_path):
    goal, folder = tmp_path / "a.csv", tmp_path / ".a.csv.partial"
    for mode, begin in ((0o755, Mark(1, 4)), (0o777, START)):
        with pytest.raises(KeyboardInterrupt):
            begin_and_raise(goal, KeyboardInterrupt)
        assert folder.stat().st_mode & 0o777 == 0o700
        folder.chmod(mode)
        assert interrupted(goal).begin == begin
        assert folder.stat().st_mode & 0o777 == 0o700


def test_a_journal_that_was_changed_is_not_believed(tmp_path):
    goal, journal = tmp_path / "a.csv", tmp_path / ".a.csv.partial" / "journal.json"
    with pytest.raises(KeyboardInterrupt):
        begin_and_raise(goal, KeyboardInterrupt)
    entry = json.loads(journal.read_text())
    changes = [
        {"mark": {"rows": 2, "n_bytes": 4, "parts": []}},
        {"kept": {"estimate": 1}},
        {"checksum": "0"},
    ]
    for text in (
        *(json.dumps(entry | change) for change in changes),
        "[]",
        "1",
        "null",
        "[" * 9999,
    ):
        (journal.parent / "data").write_text("half")
        journal.write_text(text)
        partial = interrupted(goal)
        assert (partial.begin, partial.kept) == (START, None)


def test_what_will_not_be_continued_is_removed(tmp_path):
    goal = tmp_path / "a.csv"
    with pytest.raises(KeyboardInterrupt):
        begin_and_raise(goal, KeyboardInterrupt)
    remove_partial(goal)
    assert not list(tmp_path.iterdir())
    remove_partial(goal)
    assert not list(tmp_path.iterdir())


def test_permissions_stay(tmp_path):
    goal = tmp_path / "a.csv"
    goal.write_text("old")
    goal.chmod(0o640)
    with resumable_file(goal, "f") as partial:
        assert partial.begin == START
        partial.stream.write(b"new")
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
        lines = (f"{number},{1 - number}" for number in np.random.default_rng(0).random(400))
        path.write_bytes(gzip.compress("\n".join(["a,b", *lines]).encode()))
    else:
        return write(path)
    return open_predictions(path)


@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("name", FULL)
def test_every_write_may_be_the_one_that_fails(tmp_path, filling, name, resumed):
    file, output = file_at(tmp_path / name), tmp_path / f"new-{name}"
    if resumed and not file.resumable:
        pytest.skip("such a file is not continued")
    before, failures = set(tmp_path.iterdir()), 0
    columns = file.names[:2] if file.names else None

    def attempt():
        target = resumable_file(output, "f") if resumed else atomic_file(output)
        with target as goal:
            file.rewrite(goal, columns, lambda values: values, lambda rows: None)

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
