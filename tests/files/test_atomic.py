"""Files appear whole or not at all."""

import errno
import os
import stat

import pytest

from priorshift.files import atomic_path, locked, write_text

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX locks")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_success_replaces_the_old_file(tmp_path):
    goal = tmp_path / "a.txt"
    goal.write_text("old")
    with atomic_path(goal) as temporary:
        temporary.write_text("new")
        assert goal.read_text() == "old"
        assert temporary.suffix == ".txt"
        assert temporary.parent == goal.parent
    assert goal.read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("before", ["old", None])
def test_failure_leaves_what_was_there_and_nothing_else(tmp_path, before):
    goal = tmp_path / "a.txt"
    if before:
        goal.write_text(before)

    def fail():
        with atomic_path(goal) as temporary:
            temporary.write_text("half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert names(tmp_path) == (["a.txt"] if before else [])
    assert before is None or goal.read_text() == before


def test_failure_before_anything_was_written(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_path(tmp_path / "a.txt"):
        pass
    assert names(tmp_path) == []


@posix
def test_what_a_killed_run_left_goes_with_the_next(tmp_path):
    others = [
        "a.txt.lock",
        ".a.txt",
        ".a.12345678.csv.lock",
        ".a.12345678.txt",
        ".a.notes.txt.lock",
    ]
    for name in (".a.0123abcd.txt.lock", ".a.0123abcd.txt", ".a.89abcdef.txt.lock", *others):
        (tmp_path / name).write_text("left")
    write_text(tmp_path / "a.txt", "new")
    assert names(tmp_path) == sorted(["a.txt", *others])


def test_what_another_run_is_writing_stays(tmp_path):
    with atomic_path(tmp_path / "a.txt") as one, atomic_path(tmp_path / "a.txt") as other:
        one.write_text("one")
        other.write_text("other")
        write_text(tmp_path / "a.txt", "third")
        assert one.read_text() == "one"
        assert other.read_text() == "other"
    assert names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "one"  # the last to end


@posix
def test_a_drive_without_locks_is_written_to_all_the_same(tmp_path, monkeypatch):
    import fcntl

    def refuse(*_):
        raise OSError(errno.ENOLCK, "no locks available")

    (tmp_path / ".a.0123abcd.txt.lock").write_text("")
    (tmp_path / ".a.0123abcd.txt").write_text("who knows whose")
    monkeypatch.setattr(fcntl, "flock", refuse)
    write_text(tmp_path / "a.txt", "new")
    assert {"a.txt", ".a.0123abcd.txt"} <= set(names(tmp_path))


@posix
def test_locks(tmp_path):
    path = tmp_path / "lock"
    with locked(path, "busy") as held:
        assert held
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
    with locked(path, "busy") as held:
        assert held
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


def test_a_device_is_written_to_directly():
    with atomic_path(os.devnull) as path:
        assert str(path) == os.devnull


def test_text_is_utf8_with_plain_line_ends(tmp_path):
    assert write_text(tmp_path / "a", "é\n") == tmp_path / "a"
    assert (tmp_path / "a").read_bytes() == b"\xc3\xa9\n"
