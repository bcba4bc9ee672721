"""Failures are one sentence on stderr, with the right exit code; --debug tells more."""

import json
import os
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import priorshift as ps
from priorshift.cli import _answers
from priorshift.cli._errors import OPTIONS
from priorshift.exceptions import argument, use_names
from priorshift.files import open_predictions
from priorshift.text import percent

pytestmark = pytest.mark.usefixtures("no_verdict")

COMMANDS = ["estimate", "adapt", "compare", "report"]


@pytest.mark.parametrize("command", COMMANDS)
def test_bad_data_end_with_1(command, data, files, write, refuse, tmp_path):
    bad = write("bad.csv", data.y_proba * 2)
    output = ("--output", tmp_path / "r.html") if command == "report" else ()
    line = refuse(1, command, "--validation", files[0], "--target", bad, *output)
    assert line.startswith(f"line 2 of {bad} sums to 2, not 1")
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_bad_usage_ends_with_2(command, refuse):
    assert "Missing option '--target'" in refuse(2, command)
    assert "'nowhere.csv' does not exist" in refuse(2, command, "--target", "nowhere.csv")
    assert "is a directory" in refuse(2, command, "--target", ".")
    assert "No such option" in refuse(2, command, "--nonsense")
    line = refuse(2, command, "--validation", "-", "--target", "-")
    assert line == "only one of --validation and --target can be stdin (-)."


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
@pytest.mark.parametrize("suffix", [".csv", ".npy", ".npz", ".parquet", ".arrow"])
def test_a_pipe_is_refused_and_not_waited_for(suffix, files, refuse, tmp_path):
    pipe = tmp_path / f"pipe{suffix}"
    os.mkfifo(pipe)
    for validation, target in ((files[0], pipe), (pipe, files[1])):
        line = refuse(1, "estimate", "--validation", validation, "--target", target)
        assert line.startswith(f"{pipe} is a pipe or a device")
    both = ("--validation", files[0], "--target", files[1])
    line = refuse(1, "monitor", *both, "--every", "50", "--state", pipe)
    assert line.startswith(f"{pipe} is a pipe or a device")
    line = refuse(1, "estimate", *both, "--labels", pipe)
    assert line.startswith(f"{pipe} is a pipe or a device")


@pytest.mark.skipif(os.name != "posix", reason="there is no /dev/fd")
@pytest.mark.parametrize("suffix", [".csv", ".npy", ".npz", ".parquet", ".arrow"])
def test_a_descriptor_or_a_device_may_have_any_name(suffix, files, data, write, ok, tmp_path):
    """As /dev/stdout has, be it a pipe or a file that the shell opened."""
    words = "--validation", files[0], "--target", write(f"t{suffix}", data.y_proba)
    ok("adapt", *words, "--output", tmp_path / f"o{suffix}")
    with (tmp_path / "shell").open("wb") as stream:
        stream.write(b"before ")
        stream.flush()
        ok("adapt", *words, "--output", f"/dev/fd/{stream.fileno()}")
    written = (tmp_path / "shell").read_bytes()
    assert written.startswith(b"before ")
    (tmp_path / f"again{suffix}").write_bytes(written.removeprefix(b"before "))
    whole, again = (open_predictions(tmp_path / f"{name}{suffix}") for name in ("o", "again"))
    np.testing.assert_array_equal(whole.values(None), again.values(None))
    ok("adapt", *words, "--output", os.devnull)


def test_an_unknown_method_is_bad_usage(both, refuse):
    line = refuse(2, "estimate", *both, "--method", "magic")
    assert "'magic' is not one of" in line
    assert "'scm-l'" in line


def test_messages_call_stdin_by_its_name(files, refuse):
    line = refuse(1, "estimate", "--validation", "-", "--target", files[1], input="")
    assert line == "stdin is empty; a CSV file begins with a header."
    text = "label,ant,bee,cow\nant,1,1,1\n"
    line = refuse(1, "estimate", "--validation", "-", "--target", files[1], input=text)
    assert line.startswith("line 2 of stdin sums to 3")
    text = "ant,bee,cow\n1,0,0\n"
    line = refuse(1, "estimate", "--validation", "-", "--target", files[1], input=text)
    assert line.startswith("stdin has no labels (column or key 'label')")
    text = "label,ant,bee,elk\nant,1,0,0\n"
    line = refuse(1, "estimate", "--validation", "-", "--target", files[1], input=text)
    assert line.startswith("the classes of stdin ('ant', 'bee', 'elk') are not those of")


@pytest.mark.parametrize("content", ["", "label,ant,bee,cow\n"])
def test_empty_tables(content, files, refuse, tmp_path):
    (tmp_path / "e.csv").write_text(content)
    line = refuse(1, "estimate", "--validation", files[0], "--target", tmp_path / "e.csv")
    assert "is empty" in line
    assert str(tmp_path / "e.csv") in line


def test_logits_that_are_not_announced(data, write, files, refuse):
    target = write("t.csv", np.log(data.y_proba))
    line = refuse(1, "estimate", "--validation", files[0], "--target", target)
    assert f"{target} has a negative value" in line
    assert "at line 2, column 0" in line
    assert "as in log-probabilities: add --logits. Taken" in line
    mixed = write("t.csv", np.log(data.y_proba) + 1.5)
    line = refuse(1, "estimate", "--validation", files[0], "--target", mixed)
    assert "Add --logits if these are logits." in line


def test_comparing_needs_validation(files, refuse):
    line = refuse(2, "compare", "--target", files[1], "--source-priors", "ant=1,bee=1,cow=1")
    assert line == "comparing methods needs --validation."


@pytest.mark.parametrize("command", ["estimate", "compare"])
@pytest.mark.parametrize("more", [("--output", "x.txt"), ("--output", "x.csv", "--json")])
def test_suffixes_are_judged_before_any_work(command, more, files, refuse):
    arguments = ("--validation", files[0], "--target", files[1], *more)
    assert "must end with .json" in refuse(2, command, *arguments)


@pytest.mark.parametrize("command", ["report", "demo"])
def test_a_report_needs_a_file(command, both, refuse, tmp_path):
    named = both if command == "report" else ()
    line = refuse(2, command, *named, "--output", "-")
    assert "name a file: this cannot go to stdout." in line
    line = refuse(2, command, *named, "--output", tmp_path / "target.csv")  # a slip of the finger
    assert f"{tmp_path / 'target.csv'} must end with .html" in line


def test_failures_to_write_name_what_was_asked_for(both, refuse):
    if Path("/dev/full").exists():
        line = refuse(1, "adapt", *both, "--output", "/dev/full")
        assert line == "/dev/full: No space left on device"
    if Path("/proc/self").exists():  # a folder in which nobody can write
        line = refuse(1, "adapt", *both, "--output", "/proc/o.csv")
        assert line == "/proc/o.csv: No such file or directory"


@pytest.mark.parametrize("suffix", ["npy", "feather", "parquet"])
def test_devices_take_every_format(data, files, write, ok, suffix):
    target = write(f"t.{suffix}", data.y_proba)
    ok("adapt", "--validation", files[0], "--target", target, "--output", os.devnull)


def test_columns_that_are_no_numbers(files, refuse, tmp_path):
    (tmp_path / "t.csv").write_text('ant,bee,cow\n"0,5","0,5","0,0"\n')
    line = refuse(1, "estimate", "--validation", files[0], "--target", tmp_path / "t.csv")
    assert f"are not those of {tmp_path / 't.csv'} (no numeric column)" in line


def test_columns_that_were_chosen_badly_are_not_called_different(both, refuse):
    line = refuse(1, "estimate", *both, "--class-columns", "ant,bee")
    assert "sums to" in line
    assert "are not those of" not in line


def test_messages_name_options_rather_than_arguments():
    with use_names(OPTIONS):
        assert argument("source_priors") == "--source-priors"
        assert argument("interval_method=bootstrap", "...") == "--interval-method bootstrap"
        assert argument("decision") == "decision"
    assert argument("source_priors") == "source_priors"


def test_advice_names_options(data, write, refuse, run):
    seen = data.y_val != "cow"
    validation = write("v.csv", data.y_proba_val[seen], data.y_val[seen])
    target = write("t.csv", data.y_proba)
    named = ("--validation", validation, "--target", target)
    assert "Give --source-priors." in run("estimate", *named).stderr
    line = refuse(1, "estimate", *named, "--method", "na", "--confidence-level", "0.9")
    assert line.endswith("leave out --confidence-level.")
    line = refuse(1, "estimate", *named, "--method", "cm-l", "--confidence-level", "0.9")
    assert "--interval-method bootstrap" in line
    advised = ("--confidence-level", "0.9", "--interval-method", "bootstrap", "--json")
    told = json.loads(run("estimate", *named, "--method", "cm-l", *advised).stdout)
    assert told["interval_method"] == "bootstrap"
    assert len(told["classes"]) == 3


def test_an_interval_method_needs_a_level(files, refuse):
    named = ("--validation", files[0], "--target", files[1])
    line = refuse(2, "estimate", *named, "--interval-method", "bootstrap")
    assert "--interval-method needs a --confidence-level." in line


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RuntimeError("boom"), "this should not have happened (RuntimeError: boom). Run it again"),
        (KeyError("k"), "this should not have happened (KeyError: 'k')"),
        (MemoryError(), "there is not enough memory."),
        (PermissionError(13, "Permission denied", "f.csv"), "f.csv: Permission denied"),
        (OSError("odd"), "odd"),
        (ImportError("get x: pip install x"), "get x: pip install x"),
    ],
)
def test_unexpected_errors_have_no_traceback(error, message, both, refuse, run, monkeypatch):
    def fail(request):
        raise error

    monkeypatch.setattr(_answers, "open_data", fail)
    assert refuse(1, "estimate", *both).startswith(message)
    result = run("estimate", *both, "--debug")
    assert result.exit_code == 1
    assert "Traceback (most recent call last)" in result.stderr
    assert message in result.stderr


def test_an_interrupt_ends_with_130(both, run, monkeypatch):
    def interrupt(request):
        raise KeyboardInterrupt

    monkeypatch.setattr(_answers, "open_data", interrupt)
    result = run("estimate", *both)
    assert result.exit_code == 130
    assert result.stderr.startswith("Error: stopped; no file was changed. Run the same command")


def test_warnings_are_told_once_and_plainly(both, ok, monkeypatch):
    real = _answers.open_data

    def warn(request):
        for _ in range(3):
            warnings.warn("mind the [gap]", ps.PriorShiftWarning, stacklevel=1)
        return real(request)

    monkeypatch.setattr(_answers, "open_data", warn)
    result = ok("estimate", *both, "--json")
    assert result.stderr == "Warning: mind the [gap]\n"
    assert json.loads(result.stdout)["command"] == "estimate"


def test_it_runs_in_another_thread(both, run):
    results = []
    thread = threading.Thread(target=lambda: results.append(run("estimate", *both)))
    thread.start()
    thread.join()
    assert results[0].exit_code == 0, results[0].stderr


def test_the_priors_are_shown_to_a_person(both, ok, data):
    result = ok("estimate", *both)
    est = ps.SCML().fit(data.y_proba_val, data.y_val, classes=data.classes)
    shift = est.estimate(data.y_proba)
    for name, prior in zip(shift.classes, shift.priors, strict=True):
        line = next(line for line in result.stdout.splitlines() if str(name) in line)
        assert percent(prior) in line
    assert "\x1b" not in result.stdout + result.stderr
    assert "certified: the objective is within" in result.stderr
    assert "200 target rows" in result.stderr


def test_many_classes_show_those_that_moved(write, ok, rng):
    y = np.repeat(np.arange(40), 5)
    y_proba = 0.5 * rng.dirichlet(np.ones(40), 200) + 0.5 * np.eye(40)[y]
    path = write("v.npz", y_proba, y, classes=None)
    result = ok("estimate", "--validation", path, "--target", path)
    assert "... the 25 of 40 classes that moved most" in result.stderr
    assert "condition number" not in result.stderr
    result = ok("estimate", "--validation", path, "--target", path, "--method", "scm")
    assert "condition number of the confusion matrix: " in result.stderr


# Names that would move the cursor or turn the text around

EVIL = "a\x1b[2Jnt\u202e\x9b"
SAFE = r"a\u001b[2Jnt\u202e\u009b"


def assert_fit_for_a_terminal(text):
    marks = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    bad = [c for c in text if c in marks or (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160]
    assert not bad, text


@pytest.fixture
def evil(data, write):
    classes = (EVIL, "bee", "cow")
    labels = np.where(data.y_val == "ant", EVIL, data.y_val)
    return (
        "--validation",
        write("v.csv", data.y_proba_val, labels, classes),
        "--target",
        write("t.csv", data.y_proba, classes=classes, **{f"x{EVIL}": [EVIL] * data.y.size}),
    )


@pytest.mark.parametrize(
    "words",
    [
        ("assess",),
        ("assess", "--json"),
        ("estimate", "--source-priors", f"{EVIL}=0.5,bee=0.3,cow=0.2"),
        ("estimate", "--source-priors", f"{EVIL}=0.5,bee=0.3"),
        ("estimate", "--source-priors", EVIL),
        ("estimate", "--label-column", EVIL),
        ("estimate", f"--{EVIL}"),
        ("estimate", "--method", EVIL),
        ("groups", "--group-column", f"x{EVIL}"),
        ("groups", "--group-column", f"y{EVIL}"),
        ("monitor", "--every", "100"),
        ("compare", "--method", "na", "--method", "scm-l"),
        ("test",),
    ],
    ids=lambda words: " ".join(words).encode("ascii", "backslashreplace").decode(),
)
def test_names_cannot_command_the_terminal(words, evil, run):
    result = run(*words[:1], *evil, *words[1:])
    assert_fit_for_a_terminal(result.stdout)
    assert_fit_for_a_terminal(result.stderr)


def test_escaped_names_are_still_told(evil, ok, ask, run, tmp_path):
    assert SAFE in ok("estimate", *evil).stdout
    assert SAFE in ok("check", evil[1], evil[3]).stdout
    assert EVIL in ask("estimate", *evil)["priors"]
    path = tmp_path / f"no{EVIL}.csv"
    result = run("estimate", "--target", path)
    assert result.exit_code == 2
    assert_fit_for_a_terminal(result.stderr)
    path.write_text("")
    result = run("check", path)
    assert result.exit_code == 1
    assert_fit_for_a_terminal(result.stderr)
    result = run(EVIL)
    assert result.exit_code == 2
    assert_fit_for_a_terminal(result.stderr)
    evil_output = tmp_path / f"out{EVIL}.csv"
    assert_fit_for_a_terminal(ok("adapt", *evil, "--output", evil_output).stderr)
    assert EVIL in evil_output.read_text(encoding="utf-8")
