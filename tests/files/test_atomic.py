"""Files appear whole or not at all."""

import errno
import os
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest

from priorshift.files import _atomic, atomic_file, locked, write_text

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX locks")


def hidden(folder):
    return [path for path in folder.iterdir() if path.name.startswith(".")]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_success_replaces_the_old_file(tmp_path):
    goal = tmp_path / "a.txt"
    goal.write_text("old")
    with atomic_file(goal) as stream:
        stream.write(b"new")
        stream.flush()
        assert goal.read_text() == "old"
        (temporary,) = hidden(tmp_path)
        assert temporary.read_text() == "new"
    assert goal.read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("before", ["old", None])
def test_failure_leaves_what_was_there_and_nothing_else(tmp_path, before):
    goal = tmp_path / "a.txt"
    if before:
        goal.write_text(before)

    def fail():
        with atomic_file(goal) as stream:
            stream.write(b"half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert names(tmp_path) == (["a.txt"] if before else [])
    assert before is None or goal.read_text() == before


@posix
def test_what_a_killed_run_left_goes_with_the_next(tmp_path):
    token = "0123456789abcdef" * 2
    others = ["a.txt.lock", ".a.txt", f".a.csv.{token}", f".a.txt.{token}.lock", ".a.txt.notes"]
    for name in (f".a.txt.{token}", *others):
        (tmp_path / name).write_text("left")
    write_text(tmp_path / "a.txt", "new")
    assert names(tmp_path) == sorted(["a.txt", *others])


@posix
def test_leftovers_of_others_are_left_alone(tmp_path, monkeypatch):
    left = tmp_path / (".a.txt." + "0" * 32)
    left.write_text("theirs")
    owner = left.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    write_text(tmp_path / "a.txt", "new")
    os.mkfifo(tmp_path / (".a.txt." + "1" * 32))
    monkeypatch.undo()
    write_text(tmp_path / "b.txt", "new")
    assert left.read_text() == "theirs"


def test_what_another_run_is_writing_stays(tmp_path):
    with atomic_file(tmp_path / "a.txt") as one, atomic_file(tmp_path / "a.txt") as other:
        one.write(b"one")
        other.write(b"other")
        write_text(tmp_path / "a.txt", "third")
        assert len(hidden(tmp_path)) == 2
    assert names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "one"  # the last to end


@posix
def test_a_drive_without_locks_is_written_to_all_the_same(tmp_path, monkeypatch):
    import fcntl

    def refuse(*_):
        raise OSError(errno.ENOLCK, "no locks available")

    left = ".a.txt." + "0" * 32
    (tmp_path / left).write_text("who knows whose")
    monkeypatch.setattr(fcntl, "flock", refuse)
    write_text(tmp_path / "a.txt", "new")
    assert names(tmp_path) == [left, "a.txt"]


@posix
def test_a_file_that_was_taken_for_a_leftover_is_created_anew(tmp_path, monkeypatch):
    import fcntl

    taken, flock = [], fcntl.flock

    def remove_first(number, how):
        taken.append(number)
        if len(taken) == 1:
            hidden(tmp_path)[0].unlink()
        flock(number, how)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    write_text(tmp_path / "a.txt", "new")
    assert len(taken) == 2
    assert (tmp_path / "a.txt").read_text() == "new"


@posix
def test_while_it_is_written_a_file_is_private_and_its_name_cannot_be_guessed(tmp_path):
    seen = set()
    for _ in range(3):
        with atomic_file(tmp_path / "a.txt") as stream:
            (temporary,) = hidden(tmp_path)
            assert stat.S_IMODE(temporary.stat().st_mode) == 0o600
            assert os.path.samestat(temporary.stat(), os.fstat(stream.fileno()))
            seen.add(temporary.name)
        assert names(tmp_path) == ["a.txt"]  # no lock either
    assert len({name.split(".")[-1] for name in seen}) == 3
    assert all(len(name.split(".")[-1]) == 32 for name in seen)


@posix
def test_a_link_at_the_name_of_the_temporary_file_is_not_followed(tmp_path, monkeypatch):
    """Even if the name were known: the file must be new."""
    victim = tmp_path / "victim"
    victim.write_text("dear")
    monkeypatch.setattr(_atomic.secrets, "token_hex", lambda n: "0" * (2 * n))
    (tmp_path / (".a.txt." + "0" * 32)).symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_text(tmp_path / "a.txt", "evil")
    assert victim.read_text() == "dear"
    assert not (tmp_path / "a.txt").exists()


@posix
def test_a_link_in_the_place_of_the_open_file_is_not_written_to(tmp_path):
    """Who may write to the folder can exchange the file after it was created."""
    victim = tmp_path / "victim"
    victim.write_text("dear")
    with atomic_file(tmp_path / "a.txt") as stream:
        (temporary,) = hidden(tmp_path)
        temporary.unlink()
        temporary.symlink_to(victim)
        stream.write(b"mine")
    assert victim.read_text() == "dear"


@posix
def test_a_link_of_another_user_is_refused(tmp_path, monkeypatch):
    victim, link = tmp_path / "victim", tmp_path / "a.txt"
    victim.write_text("dear")
    link.symlink_to(victim)
    os.chown(link, 12345, 12345, follow_symlinks=False) if os.geteuid() == 0 else (
        monkeypatch.setattr(os, "geteuid", lambda: link.lstat().st_uid + 1)
    )
    with pytest.raises(PermissionError, match="is a link of another user"):
        write_text(link, "evil")
    assert victim.read_text() == "dear"


@pytest.mark.parametrize("call", ["fsync", "replace", "fchmod", "open"])
def test_whichever_call_fails_the_old_file_stays_and_nothing_else(tmp_path, monkeypatch, call):
    """Fail the first call of each kind, then the second, until none is left to fail."""
    goal = tmp_path / "a.txt"
    goal.write_text("old")
    real, n = getattr(os, call), 0
    while True:
        n += 1
        left = [n]

        def failing(*arguments, left=left, **named):
            left[0] -= 1
            if left[0] == 0:
                raise OSError(errno.EIO, "broken")
            return real(*arguments, **named)

        with monkeypatch.context() as patch:
            patch.setattr(os, call, failing)
            failed = False
            try:
                write_text(goal, f"new {n}")
            except OSError:
                failed = True
        assert names(tmp_path) == ["a.txt"]
        assert not failed or goal.read_text() in ("old", f"new {n}")
        if left[0] > 0:
            break
    assert n > 1
    assert goal.read_text() == f"new {n}"


@posix
def test_locks(tmp_path):
    path = tmp_path / "lock"
    with locked(path, "busy"):
        with pytest.raises(BlockingIOError, match="busy"), locked(path, "busy"):
            pass
        assert path.exists()
    assert names(tmp_path) == []
    path.symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"), locked(path, "busy"):
        pass
    assert names(tmp_path) == ["lock"]


@posix
def test_a_lock_that_was_removed_while_it_was_taken_is_taken_anew(tmp_path, monkeypatch):
    import fcntl

    path, taken, flock = tmp_path / "lock", [], fcntl.flock

    def remove_first(number, how):
        taken.append(number)
        if len(taken) == 1:
            path.unlink()
        flock(number, how)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with locked(path, "busy"):
        assert path.exists()
    assert len(taken) == 2


def test_a_link_keeps_pointing_to_its_file(tmp_path):
    (tmp_path / "there").mkdir()
    goal, link = tmp_path / "there" / "real.txt", tmp_path / "link.txt"
    goal.write_text("old")
    link.symlink_to(goal)
    write_text(link, "new")
    assert link.is_symlink()
    assert goal.read_text() == "new"
    assert names(tmp_path / "there") == ["real.txt"]


def test_permissions_are_kept(tmp_path):
    goal = tmp_path / "a.txt"
    goal.write_text("old")
    goal.chmod(0o640)
    write_text(goal, "new")
    assert stat.S_IMODE(goal.stat().st_mode) == 0o640


def test_a_new_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "usual").write_text("")
    write_text(tmp_path / "new", "")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file"):
        write_text(tmp_path, "x")


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"b\.txt cannot be written: there is no folder"):
        write_text(tmp_path / "a" / "b.txt", "x")


def test_a_device_takes_any_format():
    with atomic_file(os.devnull) as stream:
        np.savez(stream, y_proba=np.eye(2))  # zip archives go back to their beginning
        assert stream.seek(0) == 0


@posix
def test_a_pipe_gets_everything_at_the_end_or_nothing(tmp_path):
    pipe, heard = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: heard.append(pipe.read_bytes()))
    reader.start()
    with atomic_file(pipe) as stream:
        stream.write(b"half and ")
        stream.write(b"whole")
    reader.join()
    assert heard == [b"half and whole"]


@posix
def test_stdout_is_written_to_whatever_it_is(tmp_path):
    script = "from priorshift.files import write_text; write_text('/dev/stdout', 'said')"
    command = [sys.executable, "-c", script]
    with (tmp_path / "a.txt").open("wb") as stream:
        subprocess.run(command, check=True, stdout=stream)
    assert (tmp_path / "a.txt").read_bytes() == b"said"
    assert names(tmp_path) == ["a.txt"]


def test_a_long_name_leaves_room_for_that_of_the_temporary_file(tmp_path):
    write_text(tmp_path / ("é" * 120), "new")
    assert names(tmp_path) == ["é" * 120]


def test_text_is_utf8_with_plain_line_ends(tmp_path):
    assert write_text(tmp_path / "a", "é\n") == tmp_path / "a"
    assert (tmp_path / "a").read_bytes() == b"\xc3\xa9\n"
