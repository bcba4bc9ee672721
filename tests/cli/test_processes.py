"""The command as a process: signals, pipes, terminals, the examples of its help."""

import csv
import json
import os
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import numpy as np
import pytest

import priorshift as ps
from priorshift.cli import main
from priorshift.cli._errors import unwind_when_terminated
from priorshift.files import _base

STYLE = re.compile(r"\x1b\[[0-9;]+m")
EXAMPLES = Path(__file__).parents[2] / "examples"
COMMAND = Path(sys.executable).with_name("priorshift")
posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals and terminals")

SLOW = """
import signal
import priorshift as ps
from priorshift.cli import main
from priorshift.files import _base

_base.BLOCK_ROWS = 50
adapt = ps.PriorEstimate.adapt
n_blocks = 0

def slow(*arguments, **options):
    global n_blocks
    n_blocks += 1
    if n_blocks == 3:
        print("now", flush=True)
        while True:
            signal.pause()
    return adapt(*arguments, **options)

ps.PriorEstimate.adapt = slow
main()
"""


@pytest.fixture
def folders(tmp_path):
    """Make a folder for the output, with an old one in it, and one for what is temporary."""
    there, temporary = tmp_path / "there", tmp_path / "tmp"
    there.mkdir()
    temporary.mkdir()
    (there / "o.csv").write_text("old")
    return there, temporary


def found_in(folders):
    """Return the names in both folders; the output must be the old one."""
    assert (folders[0] / "o.csv").read_text() == "old"
    return [sorted(path.name for path in folder.iterdir()) for folder in folders]


@posix
@pytest.mark.slow
def test_a_stopped_process_leaves_the_old_file(both, folders):
    words = [sys.executable, "-c", SLOW, "adapt", *both, "--output", folders[0] / "o.csv"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    with process:
        begun = process.stdout.readline()
        half_done = found_in(folders)[0]
        process.send_signal(signal.SIGTERM)
    assert begun == b"now\n"
    assert len(half_done) > 1
    assert process.returncode == 128 + signal.SIGTERM
    assert found_in(folders) == [["o.csv"], []]


@pytest.fixture
def heard():
    """Hear signals as in a terminal: nohup, and a shell's &, let what they start ignore them."""
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@posix
@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize(
    ("name", "code", "output"),
    [("SIGINT", 130, True), ("SIGTERM", 128 + 15, False), ("SIGHUP", 128 + 1, True)],
)
def test_a_stopped_run_leaves_nothing_behind(both, folders, run, monkeypatch, output, name, code):
    monkeypatch.setattr(_base, "BLOCK_ROWS", 50)
    monkeypatch.setattr(tempfile, "tempdir", str(folders[1]))
    adapt, during = ps.PriorEstimate.adapt, []

    def stopped(*arguments, **options):
        during.append(sum(map(len, found_in(folders))))
        if len(during) == 3:
            signal.raise_signal(getattr(signal, name))
        return adapt(*arguments, **options)

    monkeypatch.setattr(ps.PriorEstimate, "adapt", stopped)
    more = ("--output", folders[0] / "o.csv") if output else ()
    assert run("adapt", *both, *more).exit_code == code
    assert len(during) == 3
    assert (during[-1] > 1) == output  # something was half done; what is for stdout has no name
    assert found_in(folders) == [["o.csv"], []]


@posix
def test_what_nohup_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with unwind_when_terminated():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("words", [("estimate", "--json"), ("adapt",), ("--version",)])
def test_streams_may_be_closed(both, monkeypatch, words):
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    named = both if len(words[0]) < 9 else ()
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in (*words, *named)])
    assert end.value.code == 0
    assert sys.stdout is None


@posix
@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_help_for_a_full_disk():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([COMMAND, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "Error: No space left on device\n")


@posix
@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_failure_to_explain(data, files, write):
    target = write("t.csv", np.tile(data.y_proba, (30, 1)))
    words = [COMMAND, "adapt", "--validation", files[0], "--target", target]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline().strip() == b"ant,bee,cow"
        process.stdout.close()
        message = process.stderr.read()
    assert b"Traceback" not in message
    assert b"Exception ignored" not in message


def on_terminal(words, **environment):
    """Run with stdout and stderr on a terminal; return what it shows."""
    import pty

    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment = {**kept, "TERM": "xterm-256color", "COLUMNS": "100", **environment}
    process = subprocess.Popen(words, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:  # the other side is closed
        pass
    os.close(ours)
    assert process.wait() == 0, shown
    return shown.decode("utf-8")


@posix
@pytest.mark.slow
def test_terminals_get_progress_and_colours(both, tmp_path):
    shown = on_terminal([COMMAND, "adapt", *both, "--output", tmp_path / "o.csv"])
    assert "Adapting" in shown
    assert STYLE.search(shown)


@posix
@pytest.mark.slow
def test_terminals_get_plain_text_with_no_color(both):
    shown = on_terminal([COMMAND, "estimate", *both], NO_COLOR="1")
    assert "Priors by auto" in shown
    assert not STYLE.search(shown)


@pytest.mark.slow
def test_json_does_not_depend_on_the_locale(write, rng):
    path = write("v.csv", rng.dirichlet(np.ones(2), 8), ["né", "oui"] * 4, classes=["né", "oui"])
    words = [COMMAND, "estimate", "--validation", path, "--target", path, "--json"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(words, capture_output=True, env=environment, check=True)
    assert "né" in json.loads(done.stdout.decode("utf-8"))["priors"]


WITHOUT_EXTRAS = """
import sys
for name in ("matplotlib", "jinja2", "pyarrow", "pandas"):
    sys.modules[name] = None
from click.testing import CliRunner
from priorshift.cli import main
estimate = CliRunner().invoke(main, ["estimate", *sys.argv[1:], "--json"])
report = CliRunner().invoke(main, ["report", *sys.argv[1:]])
print(estimate.exit_code, report.exit_code, report.output)
"""


@pytest.mark.slow
def test_extras_are_asked_for_only_where_they_are_needed(both, tmp_path):
    words = [sys.executable, "-c", WITHOUT_EXTRAS, *both]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.startswith("0 1 Error: ")
    assert "pip install jinja2 matplotlib" in done.stdout


# The help


def examples(name):
    """Return the words of a command's examples, after that of the program."""
    head, *lines = main.get_command(None, name).epilog.strip("\b\n").splitlines()
    assert head == ("Examples:" if len(lines) > 1 else "Example:")
    assert lines
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "priorshift"
        yield words


@pytest.fixture(scope="module")
def demo_folder(tmp_path_factory):
    """Make a folder with some of the demo's data, by its own example in a process of its own."""
    folder = tmp_path_factory.mktemp("demo")
    subprocess.run([COMMAND, *next(examples("demo"))], cwd=folder, check=True, capture_output=True)
    for name in ("validation.csv", "target.csv"):
        header, *lines = (folder / name).read_text().splitlines(keepends=True)
        (folder / name).write_text("".join([header, *lines[::7]]))
    return folder


@pytest.mark.slow
def test_the_demo_writes_its_page(demo_folder):
    assert (demo_folder / "demo.html").stat().st_size > 10_000


def fill_in_labels(folder):
    """Do what the user is asked for: write the label of each row into todo.csv."""
    target, todo = (
        list(csv.DictReader((folder / name).read_text().splitlines()))
        for name in ("target.csv", "todo.csv")
    )
    for row in todo:
        row["label"] = target[int(row["row"]) - 1]["label"]
    with (folder / "todo.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, todo[0])
        writer.writeheader()
        writer.writerows(todo)


@pytest.mark.slow
@pytest.mark.usefixtures("blank_figures")  # the demo has drawn them
@pytest.mark.parametrize("name", sorted(set(main.list_commands(None)) - {"demo"}))
def test_every_example_of_the_help_runs(demo_folder, ok, monkeypatch, name):
    monkeypatch.chdir(demo_folder)
    shutil.copy(EXAMPLES / "by_age.csv", demo_folder)
    for words in examples(name):
        if "--target-labels" in words:
            fill_in_labels(demo_folder)
        ok(*words)
        if "--output" in words:
            output = Path(words[words.index("--output") + 1])
            assert output.is_dir() or output.stat().st_size > 1000


def test_every_command_explains_itself(run):
    shown = run("--help")
    assert shown.exit_code == 0
    begins = [
        shown.stdout.index(f"\n  {name} ") for name in ("assess", "estimate", "adapt", "demo")
    ]
    assert begins == sorted(begins)  # in the order of work, not of the alphabet
    assert "Exit codes: 0 done, 1 bad data, 2 bad usage, 3 a shift" in shown.stdout
    for name in main.list_commands(None):
        command = main.get_command(None, name)
        shown = run(name, "-h")
        assert shown.exit_code == 0
        assert command.help.split("\n\n")[0].count(".") == 1  # one sentence first
        assert all(part.help for part in command.params if isinstance(part, click.Option))
        assert re.search(rf"\n  Examples?:\n    priorshift {name} ", shown.stdout)


def test_the_version(run):
    from priorshift import __version__

    assert run("--version").stdout == f"priorshift, version {__version__}\n"


def test_the_package_runs_as_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["somewhere/__main__.py", "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("priorshift", run_name="__main__")
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("Usage: priorshift [OPTIONS] COMMAND")


INTERRUPTED = """
import os, runpy, signal, sys

class Finder:
    def find_spec(self, name, *_):
        if name == "numpy":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started this may ignore it
sys.meta_path.insert(0, Finder())
sys.argv = ["priorshift", "estimate", "--help"]
exec(sys.stdin.read())
"""


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.parametrize(
    "start",
    [
        "from priorshift.__main__ import main; main()",  # as the script does
        "runpy.run_module('priorshift', run_name='__main__')",
    ],
)
def test_ctrl_c_while_all_is_imported_ends_without_a_traceback(start):
    words = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(words, input=start, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Error: stopped.\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion(run, shell):
    shown = run(env={"_PRIORSHIFT_COMPLETE": f"{shell}_source"}, prog_name="priorshift")
    assert shown.exit_code == 0
    assert f"_PRIORSHIFT_COMPLETE={shell}_complete" in shown.stdout


@pytest.mark.parametrize(
    ("words", "at", "expected"),
    [
        ("priorshift es", 1, ["plain,estimate"]),
        (
            "priorshift estimate --method scm-",
            3,
            ["plain,scm-l", "plain,scm-m", "plain,scm-l-shrunk"],
        ),
        ("priorshift adapt --known", 2, ["plain,--known-priors"]),
    ],
)
def test_completion_knows_commands_options_and_methods(run, words, at, expected):
    environment = {
        "_PRIORSHIFT_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(at),
    }
    assert run(env=environment, prog_name="priorshift").stdout.split() == expected


def test_help_imports_nothing_that_takes_time():
    code = (
        "import sys\nfrom priorshift.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "slow = {'numpy', 'scipy', 'sklearn', 'rich', 'priorshift.border'} & set(sys.modules)\n"
        "assert not slow, slow"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "assess" in done.stdout


def test_commands_do_not_wait_for_pandas():
    code = (
        "import sys\nfrom priorshift.cli import main\nmain.get_command(None, 'assess')\n"
        "assert 'sklearn.base' in sys.modules\nassert 'pandas' not in sys.modules\nimport pandas"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


FIRST = """
import importlib, os, scipy.optimize, sklearn.base

for module in ("assessment", "cli._answers", "evidence", "monitor", "groups"):
    if not (child := os.fork()):
        importlib.import_module(f"priorshift.{module}")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, module
"""


@posix
def test_a_module_can_be_the_first_to_be_imported():
    """The package is lazy: a module that asks it for another one would meet itself half made."""
    quiet = "ignore:This process:DeprecationWarning"  # Python 3.12 warns of forks beside threads
    words = [sys.executable, "-W", quiet, "-c", FIRST]
    assert subprocess.run(words, check=False, capture_output=True).stderr == b""
