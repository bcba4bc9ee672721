"""Swap operators of the library one at a time, and count how many swaps its tests notice.

    python -m lab mutants [--rooms solvers counts] [--sample 40] [--seed 0] [--seconds 20]

A mutant is the library with one operator or comparison swapped: `+` for `-`, `<` for `>`, `and` for
`or`. It is killed if a test of its room that runs the line fails, and survives if none does.
`--sample` mutants per room are drawn, or all for 0. Tests run the fastest first, for up to
`--seconds` of what they usually take. Survivors are printed: some change nothing that can be seen,
and each of the others asks for a test.
"""

import ast
import contextlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from lab.show import markdown, parse

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "priorshift"

ROOMS = {
    "solvers": (("solvers",), ("tests/solvers", "tests/test_equivalences.py")),
    "counts": (
        ("counts.py", "estimators/data.py"),
        (
            "tests/test_counts.py",
            "tests/estimators/test_data.py",
            "tests/estimators/test_data_source.py",
            "tests/estimators/test_base_known_rates.py",
            "tests/estimators/test_confusion_likelihood.py",
        ),
    ),
    "verdict": (
        ("verdict.py",),
        ("tests/test_verdict.py", "tests/test_words.py", "tests/evidence/test_backtest.py"),
    ),
    "auto": (
        ("estimators/auto.py", "estimators/shares.py", "calibration/average.py"),
        (
            "tests/estimators/test_auto.py",
            "tests/estimators/test_shares.py",
            "tests/calibration/test_average.py",
        ),
    ),
    "adapt": (
        ("adapt/_adapt*.py", "adapt/_costs.py", "adapt/_uncertain.py"),
        ("tests/adapt", "tests/test_decisions.py"),
    ),
    "border": (("border",), ("tests/border", "tests/estimators")),
}
"""Each room: its files, and where its tests are."""

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}

LONGEST = 60
"""Seconds of its own work after which a mutant counts as hanging, and so as killed."""

BUSY = 30
"""How many times as long a mutant may take where the machine is busy with something else."""


class Mutant(NamedTuple):
    """A file with one operator swapped, and where: from the begin of its statement."""

    path: Path
    lines: range
    before: str
    after: str
    source: str


def main(arguments: list[str] | None = None) -> int:
    """Print the share of killed mutants of each room, and those that survive."""
    options = parse(__doc__, arguments, rooms=tuple(ROOMS), sample=40, seed=0, seconds=20.0)
    shares = []
    for room in options.rooms:
        drawn = draw(room, options.sample, options.seed)
        left = hunt(room, drawn, options.seconds)
        killed = len(drawn) - len(left)
        shares.append((room, len(drawn), killed, f"{killed / max(len(drawn), 1):.0%}"))
        print(f"\n{room}: {killed} of {len(drawn)} killed; these survive:", flush=True)
        for mutant in left:
            where = f"{mutant.path.relative_to(ROOT)}:{mutant.lines[-1]}"
            print(f"{where}\n  {mutant.before}\n  {mutant.after}", flush=True)
    print("\n" + markdown(("room", "drawn", "killed", "share"), shares))
    return 0


def draw(room: str, sample: int, seed: int) -> list[Mutant]:
    """Return some mutants of a room, or all for 0."""
    paths = {path for name in ROOMS[room][0] for path in _files(name)}
    every = [(path, at) for path in sorted(paths) for at in range(len(_swappable(_parsed(path))))]
    drawn = random.Random(seed).sample(every, min(sample, len(every))) if sample else every
    return [mutate(path, at) for path, at in drawn]


def _files(name: str) -> Iterator[Path]:
    yield from (SOURCE / name).glob("*.py") if (SOURCE / name).is_dir() else SOURCE.glob(name)


def mutate(path: Path, at: int) -> Mutant:
    """Return a file with one of its operators swapped."""
    tree = _parsed(path)
    node, which = _swappable(tree)[at]
    before = ast.unparse(node)
    if isinstance(node, ast.Compare):
        node.ops[which] = SWAPS[type(node.ops[which])]()
    else:
        node.op = SWAPS[type(node.op)]()
    begins = (
        each.lineno
        for each in ast.walk(tree)
        if isinstance(each, ast.stmt) and each.lineno <= node.lineno <= (each.end_lineno or 0)
    )
    lines = range(max(begins), node.lineno + 1)
    return Mutant(path, lines, before, ast.unparse(node), ast.unparse(tree))


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _swappable(tree: ast.AST) -> list[tuple[Any, int]]:
    """Return the expressions with an operator to swap, and which of their operators it is."""
    return [
        (node, which)
        for node in _runs(tree)
        for which, operator in enumerate(_operators(node))
        if type(operator) in SWAPS
    ]


def _operators(node: ast.AST) -> list[ast.AST]:
    """Return the operators of an expression."""
    if isinstance(node, ast.Compare):
        return node.ops
    return [node.op] if isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp) else []


def _runs(node: ast.AST) -> Iterator[ast.AST]:
    """Walk through all that computes: not annotations, raised errors, or `if TYPE_CHECKING`."""
    if isinstance(node, ast.Raise | ast.JoinedStr):
        return
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        if name == "value" and isinstance(node, ast.Assign) and _is_type(node):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _runs(child)


def _is_type(node: ast.Assign) -> bool:
    """Tell whether a name such as `Rows = A | B` stands for a type."""
    name = node.targets[0]
    return isinstance(name, ast.Name) and name.id[:1].isupper() and not name.id.isupper()


# Running tests


def hunt(room: str, drawn: list[Mutant], seconds: float) -> list[Mutant]:
    """Return the mutants that no test kills."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "priorshift"
        shutil.copytree(SOURCE, library, ignore=shutil.ignore_patterns("__pycache__"))
        covering = cover(room, library)
        if not drawn:
            return []
        left = []
        unchanged = drawn[0]._replace(source=ast.unparse(_parsed(drawn[0].path)))
        for mutant in (unchanged, *drawn):
            tests = choose(covering, mutant, seconds)
            place = library / mutant.path.relative_to(SOURCE)
            original = place.read_text(encoding="utf-8")
            place.write_text(mutant.source, encoding="utf-8")
            survived = not tests or run_tests(library, ["-x", *tests]) == 0
            place.write_text(original, encoding="utf-8")
            if mutant is unchanged and not survived:
                raise ValueError(f"tests of {room} fail without a change: {' '.join(tests)}")
            if survived and mutant is not unchanged:
                left.append(mutant)
    return left


class Covering(NamedTuple):
    """Which tests run a line, and how long each takes."""

    lines: dict[str, dict[str, list[str]]]
    seconds: dict[str, float]


def cover(room: str, library: Path) -> Covering:
    """Run the tests of a room once, and note which lines each of them runs."""
    sources, tests = ROOMS[room]
    chosen = {str(path) for name in sources for path in _files(name)}
    kept = library.parent / "covering.json"

    class Notes:
        """Tells coverage which test runs."""

        def __init__(self) -> None:
            from coverage import Coverage

            files = [str(library / Path(path).relative_to(SOURCE)) for path in chosen]
            self.coverage = Coverage(data_file=None, config_file=False, include=files)
            self.seconds: dict[str, float] = {}
            self.coverage.start()

        def pytest_runtest_setup(self, item) -> None:
            self.coverage.switch_context(item.nodeid)

        def pytest_runtest_logreport(self, report) -> None:
            self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration

        def pytest_sessionfinish(self) -> None:
            self.coverage.stop()
            data = self.coverage.get_data()
            lines = {path: data.contexts_by_lineno(path) for path in data.measured_files()}
            kept.write_text(json.dumps({"lines": lines, "seconds": self.seconds}))

    if run_tests(library, list(tests), plugin=Notes, longest=3600) != 0:
        raise ValueError(f"the tests of {room} do not pass: {' '.join(tests)}")
    return Covering(**json.loads(kept.read_text()))


def choose(covering: Covering, mutant: Mutant, seconds: float) -> list[str]:
    """Return the tests that run the line of a mutant, the fastest first."""
    of_file = next(
        (of for path, of in covering.lines.items() if path.endswith(_relative(mutant.path))), {}
    )
    names = {name for line in mutant.lines for name in of_file.get(str(line), ())}
    if names == {""}:  # it runs when its module is imported, for all of them
        names = set(covering.seconds)
    names.discard("")
    chosen, total = [], 0.0
    for name in sorted(names, key=lambda name: covering.seconds.get(name, 0.0)):
        total += covering.seconds.get(name, 0.0)
        if chosen and total > seconds:
            break
        chosen.append(name)
    return chosen


def _relative(path: Path) -> str:
    return str(Path("priorshift") / path.relative_to(SOURCE))


def run_tests(
    library: Path,
    tests: list[str],
    plugin: Callable[[], object] | None = None,
    longest: int = LONGEST,
) -> int:
    """Run tests on a copy of the library in a process of their own; return pytest's exit code.

    The process is a fork, which has imported what the library needs, but not the library.
    """
    import pytest

    for name in ("scipy.optimize", "scipy.stats", "sklearn.calibration"):
        import_module(name)
    process = os.fork()
    if not process:
        code = 3
        with contextlib.suppress(BaseException):
            resource.setrlimit(resource.RLIMIT_CPU, (longest, longest))
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            os.chdir(ROOT)
            sys.path.insert(0, str(library.parent))
            os.environ["PYTHONPATH"] = str(library.parent)
            for name in [name for name in sys.modules if name.split(".")[0] == "priorshift"]:
                del sys.modules[name]
            plugins = [] if plugin is None else [plugin()]
            options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
            code = int(pytest.main([*options, *tests], plugins=plugins))
        os._exit(code)
    end = time.monotonic() + BUSY * longest
    while True:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return -signal.SIGKILL
        time.sleep(0.02)
