"""priorshift adapt, killed in the middle and started again, writes what it would have written."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

import priorshift as ps
from priorshift.cli import _adapt
from priorshift.cli._adapt import fingerprint
from priorshift.cli._options import Request
from priorshift.files import _base, _resume

FORMATS = ["npy", "npz", "csv", "arrow", "feather", "parquet"]
posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")

KILLED = """
import json, os, signal, sys
import priorshift as ps
from priorshift.cli import _adapt, main
from priorshift.files import _base, _resume

_base.BLOCK_ROWS, _resume.EVERY_SECONDS, _adapt.RESUMABLE_BYTES = 50, 0.0, 0
adapt = ps.PriorEstimate.adapt
n_blocks = 0

def killed(*arguments, **options):
    global n_blocks
    n_blocks += "from_logits" in options  # blocks that are written, not those that are judged
    if n_blocks == 3:
        os.kill(os.getpid(), getattr(signal, os.environ["SIGNAL"]))
    return adapt(*arguments, **options)

ps.PriorEstimate.adapt = killed
codes = []
for words in json.loads(sys.argv[1]):
    child = os.fork()  # which has imported all that it needs
    if child == 0:
        main(words)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(codes)
"""


@pytest.fixture
def small(monkeypatch):
    """Take every file for a large one."""
    monkeypatch.setattr(_base, "BLOCK_ROWS", 50)
    monkeypatch.setattr(_resume, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(_adapt, "RESUMABLE_BYTES", 0)


def killed(*runs, name="SIGKILL"):
    """Run commands, each in a process that a signal ends after two blocks; return exit codes."""
    runs = json.dumps([[str(word) for word in words] for words in runs])
    words = [sys.executable, "-c", KILLED, runs]
    done = subprocess.run(words, env={**os.environ, "SIGNAL": name}, capture_output=True)
    return json.loads(done.stdout.splitlines()[-1])


@posix
@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_killed_runs_go_on_and_write_the_same_bytes(data, files, write, ok, tmp_path):
    named = ("adapt", "--validation", files[0], "--method", "em", "--json")
    runs = {
        suffix: (*named, "--target", write(f"t.{suffix}", data.y_proba), "--output")
        for suffix in FORMATS
    }
    new = {suffix: tmp_path / f"new.{suffix}" for suffix in FORMATS}
    codes = killed(*((*words, new[suffix]) for suffix, words in runs.items()))
    assert codes == [-signal.SIGKILL] * len(FORMATS)
    for suffix, words in runs.items():
        assert not new[suffix].exists()
        whole = tmp_path / f"whole.{suffix}"
        expected = json.loads(ok(*words, whole).stdout)
        result = ok(*words, new[suffix])
        assert "Going on after row 100, where an earlier run ended.\n" in result.stderr
        assert new[suffix].read_bytes() == whole.read_bytes()
        assert json.loads(result.stdout) == expected | {"output": str(new[suffix])}
    assert not list(tmp_path.glob(".*"))


@pytest.fixture
def interrupted(both, run, tmp_path, monkeypatch, small):
    """Interrupt adapting after two blocks; return the words that go on with it."""
    words = ("adapt", *both, "--method", "em", "--output", tmp_path / "new.csv")
    blocks = []

    def stop(*arguments, **options):
        blocks.extend(["from_logits"] if "from_logits" in options else [])  # those written
        if len(blocks) == 3:
            raise KeyboardInterrupt
        return adapt(*arguments, **options)

    adapt = ps.PriorEstimate.adapt
    with monkeypatch.context() as patch:
        patch.setattr(ps.PriorEstimate, "adapt", stop)
        assert run(*words).exit_code == 130
    return words


def test_the_priors_are_not_estimated_again(interrupted, ok, monkeypatch):
    monkeypatch.setattr("priorshift.cli._data.Data.estimate", None)
    assert "Going on after row 100" in ok(*interrupted).stderr


def test_rows_without_predictions_are_not_counted(data, files, write, ask, run, monkeypatch, small):
    y_proba = data.y_proba.astype(object)
    y_proba[:30] = ""
    target = write("holed.csv", y_proba)
    words = ("adapt", "--validation", files[0], "--target", target, "--drop-missing", "--output")
    whole = ask(*words, target.with_name("whole.csv"))
    n_blocks, adapt = [], ps.PriorEstimate.adapt

    def stop(*arguments, **options):
        n_blocks.append("from_logits" in options)
        if sum(n_blocks) == 3:
            raise KeyboardInterrupt
        return adapt(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(ps.PriorEstimate, "adapt", stop)
        assert run(*words, target.with_name("new.csv"), "--json").exit_code == 130
    resumed = ask(*words, target.with_name("new.csv"))
    assert resumed | {"output": None} == whole | {"output": None}


@pytest.mark.parametrize(
    "change", [("--method", "scm-l"), ("--source-priors", "ant=2,bee=1,cow=1"), ("touch",)]
)
def test_other_options_and_other_data_begin_anew(interrupted, files, ok, change):
    if change == ("touch",):
        os.utime(files[1], (1, 1))
        change = ()
    assert "Going on" not in ok(*interrupted, *change).stderr


def test_bad_data_leave_nothing_to_go_on_with(data, files, write, refuse, tmp_path, small):
    y_proba = data.y_proba.copy()
    y_proba[120] = 0.5
    target = write("t.csv", y_proba)
    before = set(tmp_path.iterdir())
    words = ("--validation", files[0], "--target", target, "--output", tmp_path / "o.csv")
    refuse(1, "adapt", *words, "--known-priors", "ant=0.2,bee=0.3,cow=0.5")
    assert set(tmp_path.iterdir()) == before


def test_small_files_are_written_at_once(both, ok, tmp_path, monkeypatch):
    monkeypatch.setattr("priorshift.cli._adapt.resumable_file", None)
    ok("adapt", *both, "--output", tmp_path / "new.csv")


def test_fingerprints_tell_work_apart(files):
    request = Request(target=files[1], validation=files[0])
    known = fingerprint(request, "em")
    assert fingerprint(request, "em") == known
    others = [
        fingerprint(request, "map"),
        fingerprint(replace(request, logits=True), "em"),
        fingerprint(replace(request, class_columns="a,b"), "em"),
        fingerprint(replace(request, target=files[0]), "em"),
    ]
    assert len({known, *others}) == 5
    files[1].write_text("changed")
    assert fingerprint(request, "em") != known
