"""Command lines from plain to hostile, run in this process on files in a folder of their own."""

import csv
import json
import os
import re
import tempfile
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from click.testing import CliRunner

from lab.fuzz import inputs
from lab.fuzz.inputs import Rng, chance, pick
from lab.fuzz.outcomes import BadAnswerError
from priorshift import Adapter, available_estimators
from priorshift.cli import main

EXIT_CODES = {0, 1, 2, 3}
DONE = {0, 3}
FOREIGN_WARNING = re.compile(
    r"Warning: (invalid value|divide by zero|overflow|underflow|Mean of empty|Degrees of|Input)"
)
METHODS = tuple(available_estimators())
GOALS = ("accuracy", "balanced_accuracy", "log_loss")
OTHERS = {"id", "label", "decided", "known", "site", "day"}
"""Columns that hold no predictions."""
SUFFIXES = (*(".csv",) * 3, *(".npz",) * 2, ".parquet", ".arrow", ".feather", ".npy")


@dataclass
class Scene:
    """A folder with validation and target, and the words that name them."""

    rng: Rng
    folder: Path
    words: list[str] = field(default_factory=list)
    outputs: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = self.rng
        self.hostility = pick(rng, (0.0, 0.0, 0.3, 1.0))
        self.K = pick(rng, (2, 2, 3, 3, 5))
        self.names = inputs.NAMES[self.one(("text",), ("numbers", "odd text"))](self.K)
        self.index, self.target_index = (self._draw_index() for _ in range(2))
        self.logits = chance(rng, 0.1)

    def _draw_index(self) -> np.ndarray:
        drawn = self.rng.integers(self.K, size=self.one((40, 120), (1, 5)))
        return drawn if self.bad(0.2) else np.concatenate([np.arange(self.K), drawn])

    def bad(self, probability: float) -> bool:
        """Tell whether something is to be wrong: in a friendly scene, never."""
        return chance(self.rng, self.hostility * probability)

    def one(self, good: tuple[Any, ...], wrong: tuple[Any, ...], how_often: float = 0.3) -> Any:
        """Take one of the good, or now and then of the others."""
        return pick(self.rng, wrong if self.bad(how_often) else good)

    def maybe(self, how_often: float, *words: str) -> list[str]:
        """Return words, or none."""
        return list(words) if chance(self.rng, how_often) else []

    def write(self, stem: str, index: np.ndarray, *, labelled: bool) -> Path:
        """Write predictions, good or bad, in one of the formats."""
        rng = self.rng
        P = inputs.predictions(rng, index, self.K)
        if self.logits:
            P = np.log(np.maximum(P, 1e-300))
        if self.bad(0.2):
            spoilt = pick(rng, inputs.CORRUPTIONS)(rng, P)
            if type(spoilt) is np.ndarray and spoilt.ndim == 2 and spoilt.dtype.kind == "f":
                P = spoilt
        path = self.folder / f"{stem}{pick(rng, SUFFIXES)}"
        columns = self.columns(P, index, labelled=labelled)
        write_table(path, P, columns, self)
        if labelled and path.suffix == ".npy":
            labels = self.folder / "labels.npy"
            np.save(labels, np.asarray(self.names)[index])
            self.words += ["--labels", str(labels)]
        if self.bad(0.15):
            damage(rng, path)
        return path

    def columns(self, P: np.ndarray, index: np.ndarray, *, labelled: bool) -> dict[str, list[Any]]:
        """Name the columns of a table, with labels, groups and times beside the predictions."""
        rng = self.rng
        names = [str(name) for name in self.names]
        if P.shape[1] != len(names):
            names = [names[k] if k < len(names) else f"more {k}" for k in range(P.shape[1])]
        names = [*reversed(names)] if chance(rng, 0.1) else names
        columns: dict[str, list[Any]] = {"id": [f"row {i}" for i in range(len(P))]}
        columns |= dict(zip(names, P.T.tolist(), strict=True))
        if labelled or chance(rng, 0.2):
            known = np.asarray(self.names)
            columns["label"] = [known[k].item() for k in index[: len(P)]]
            if len(columns["label"]) < len(P) or self.bad(0.1):
                columns["label"] = [pick(rng, ("nope", "", None))] * len(P)
        decided = self.rng.permutation(len(P)) < 0.2 * len(P)
        columns["decided"] = [
            str(self.names[self.rng.integers(self.K) if wrong else k])
            for k, wrong in zip(np.resize(index, len(P)), decided, strict=True)
        ]
        columns["known"] = [
            str(self.names[k]) if chance(rng, 0.3) else self.one(("",), ("nope", " "), 0.1)
            for k in np.resize(index, len(P))
        ]
        columns["site"] = [self.one(("a", "b"), ("", " ", "c")) for _ in range(len(P))]
        columns["day"] = [f"2026-01-{1 + i % 28:02d}" for i in range(len(P))]
        return columns

    def priors(self) -> str:
        """Write priors as words, or as a file."""
        rng = self.rng
        p = np.maximum(inputs.priors(rng, self.K), self.one((1e-3, 1e-9), (0.0,)))
        named = dict(zip(map(str, self.names), (p / p.sum()).tolist(), strict=True))
        words = ",".join(f"{name}={value:.12g}" for name, value in named.items())
        if self.bad(0.3):
            wrong = ("", "x", "=", "a=b", words[:-5], words + ",", "class 0=1", "nan=nan")
            return pick(rng, wrong)
        if not chance(rng, 0.3):
            return words
        path = self.folder / f"priors{self.one(('.csv', '.json'), ('.npy', '.txt', '.npz'))}"
        if path.suffix == ".npy":
            np.save(path, p)
        elif path.suffix == ".json":
            path.write_text(json.dumps(named))
        else:
            with path.open("w", encoding="utf-8", newline="") as stream:
                writer = csv.writer(stream)
                column = self.one(("source_prior", "prior"), ("x", "", "class"))
                writer.writerows([("class", column), *named.items()])
        return str(path)

    def costs(self) -> str:
        """Write what errors cost: a table, or pairs of classes as JSON."""
        rng, names = self.rng, [str(name) for name in self.names]
        path = self.folder / f"costs{self.one(('.csv', '.json'), ('.txt', '.npy'))}"
        if path.suffix == ".json":
            known = {names[0]: {names[-1]: self.one((10, 0.5, 0), (-1, "x", None))}}
            path.write_text(json.dumps(self.one((known,), ({}, [], {"nope": {"x": 1}}, 3))))
            return str(path)
        cell = (1, 2.5, 10)
        rows = [[n, *(0 if n == m else self.one(cell, (-1, "x", ""), 0.05) for m in names)]
                for n in names]  # fmt: skip
        with path.open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows([["", *names], *rows[: len(rows) - self.bad(0.1)]])
        if self.bad(0.1):
            damage(rng, path)
        return str(path)

    def labels_apart(self) -> list[str]:
        """Write labels of validation to a file of their own, in another order, and name its key."""
        path, known = self.folder / "apart.csv", np.asarray(self.names)
        order = self.rng.permutation(self.index.size)[: -1 if self.bad(0.3) else None]
        rows = [(f"row {i}", known[self.index[i]]) for i in order]
        with path.open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows([("id", "truth"), *rows])
        return ["--labels", str(path), *self.maybe(0.5, "--key", self.one(("id",), ("nope", "")))]

    def output(self, *suffixes: str) -> str:
        """Name a file to write: mostly a good one; now and then one that exists."""
        path = self.folder / f"output{self.one(suffixes, ('.txt', '', '.csv', '.xyz'))}"
        if self.bad(0.1):
            path = self.folder / "absent" / "output.csv"
        elif self.bad(0.1):
            path.mkdir(exist_ok=True)
        elif chance(self.rng, 0.15):
            path.write_text("what was there before")
        self.outputs.append(path)
        return str(path)


def write_table(path: Path, P: np.ndarray, columns: dict[str, list[Any]], scene: Scene) -> None:
    """Write columns, or the bare matrix where the format has no columns."""
    if path.suffix == ".npy":
        with np.errstate(all="ignore"):  # NaN has no integer, and 1e300 no small float
            np.save(path, P.astype(scene.one(("f8", "f4", ">f8"), ("f2", "O", "c16", "i1"))))
    elif path.suffix == ".npz":
        arrays = {"y_proba": P, "site": np.asarray(columns["site"], dtype="U8")}
        if "label" in columns:
            arrays["y"] = np.asarray([str(x) for x in columns["label"]])
        names = [n for n in columns if n not in OTHERS]
        if not scene.bad(0.5):
            arrays["classes"] = np.asarray(names)
        np.savez(path, **arrays)
    elif path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
    else:
        _write_arrow(path, columns)


def _write_arrow(path: Path, columns: dict[str, list[Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({name: pa.array(_alike(column)) for name, column in columns.items()})
    if path.suffix == ".parquet":
        pq.write_table(table, path)
        return
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def _alike(column: list[Any]) -> list[Any]:
    kinds = {type(value) for value in column if value is not None}
    return column if len(kinds) <= 1 else [None if v is None else str(v) for v in column]


def damage(rng: Rng, path: Path) -> None:
    """Cut a file, turn some of its bytes, or empty it."""
    whole = bytearray(path.read_bytes())
    if chance(rng, 0.4):
        whole = whole[: int(rng.integers(len(whole)))]
    elif chance(rng, 0.2):
        whole = bytearray()
    else:
        for _ in range(int(rng.integers(1, 6))):
            whole[rng.integers(len(whole))] = int(rng.integers(256))
    path.write_bytes(whole)


# What the words may be


def _data(scene: Scene, *, validation: float = 0.97) -> list[str]:
    rng = scene.rng
    words = []
    if chance(rng, validation):
        words += ["--validation", str(scene.write("validation", scene.index, labelled=True))]
    words += ["--target", str(scene.write("target", scene.target_index, labelled=False))]
    if scene.logits and not scene.bad(0.3):
        words.append("--logits")
    if chance(rng, 0.25):
        words += ["--source-priors", scene.priors()]
    elif chance(rng, 0.15):
        words += ["--source-label-priors", scene.priors()]
    if scene.bad(0.15):
        words += ["--label-column", pick(rng, ("label", "site", "nope", ""))]
    named = ",".join(map(str, scene.names))
    wrong = ("site", "nope", "", ",", f"{named},id")
    words += scene.maybe(0.1, "--class-columns", scene.one((named,), wrong))
    if scene.bad(0.1):
        words += ["--positive-class", pick(rng, (str(scene.names[0]), "nope"))]
    words += scene.maybe(0.1, "--drop-missing") + scene.maybe(0.05, "--any-size")
    if validation and chance(rng, 0.15):
        words += scene.labels_apart()
    return words + scene.maybe(0.05, "--renormalise")


def _doors(scene: Scene) -> list[str]:
    """Say that there are decisions, labels of the target, or costs."""
    words = scene.maybe(0.2, "--predicted-column", scene.one(("decided",), ("nope", "site", "id")))
    words += scene.maybe(0.3, "--target-label-column", scene.one(("known",), ("nope", "site")))
    return words + (["--costs", scene.costs()] if chance(scene.rng, 0.25) else [])


def _method(scene: Scene, names: tuple[str, ...] = METHODS, how_often: float = 0.85) -> list[str]:
    return scene.maybe(how_often, "--method", scene.one(names, ("nope", ""), 0.1))


def _level(scene: Scene, how_often: float = 0.3) -> list[str]:
    level = scene.one(("0.95", "0.5", "0.999"), ("0", "1", "nan", "x"))
    words = scene.maybe(how_often, "--confidence-level", level)
    kinds = ("auto", "asymptotic", "bootstrap", "bayesian")
    return words + (scene.maybe(0.4, "--interval-method", pick(scene.rng, kinds)) if words else [])


def _output(scene: Scene, how_often: float, *suffixes: str) -> list[str]:
    if not chance(scene.rng, how_often):
        return []
    return ["--output", "-" if chance(scene.rng, 0.05) else scene.output(*suffixes)]


def _csv_output(scene: Scene, how_often: float) -> list[str]:
    return _output(scene, how_often, ".json", ".csv") + scene.maybe(0.1, "--safe-csv")


def _like_target(words: list[str]) -> tuple[str, ...]:
    return tuple({Path(word).suffix for word in words if "target." in word})


def _estimate(scene: Scene) -> list[str]:
    words = _data(scene, validation=0.9) + _method(scene) + _level(scene)
    if chance(scene.rng, 0.2):
        path = scene.folder / "adapter.json"
        scene.outputs.append(path)
        words += ["--save-adapter", str(path)]
    words += scene.maybe(0.1, "--goal", scene.one(GOALS, ("x",)))
    return words + scene.maybe(0.5, "--json") + _csv_output(scene, 0.3)


def _assess(scene: Scene) -> list[str]:
    words = _data(scene) + _doors(scene) + _method(scene, ("ppi", *METHODS), how_often=0.3)
    words += scene.maybe(0.3, "--confidence-level", scene.one(("0.9", "0.5"), ("0", "x")))
    words += scene.maybe(0.2, "--history-column", scene.one(("site", "day"), ("nope", "id")))
    words += scene.maybe(0.2, "--assume-prior-shift")
    words += scene.maybe(0.1, "--goal", scene.one(GOALS, ("x",)))
    if chance(scene.rng, 0.2):
        path = scene.folder / "rows.csv"
        scene.outputs.append(path)
        words += ["--rows-to-label", str(path)]
        words += scene.maybe(0.5, "--n-labels", scene.one(("1", "40"), ("0", "x", "-3")))
    if chance(scene.rng, 0.15):
        path = scene.folder / "known.csv"
        text = "id,label\n" + "".join(
            f"row {i},{scene.names[k]}\n" for i, k in enumerate(scene.target_index[:20])
        )
        path.write_text(scene.one((text,), ("", "id\n", text[:-3], text + "row 0,x\n")))
        words += ["--target-labels", str(path)]
    return words + scene.maybe(0.5, "--json") + _csv_output(scene, 0.3)


def _adapt(scene: Scene) -> list[str]:
    words = _data(scene, validation=0.9) + _method(scene)
    words += scene.maybe(0.25, "--known-priors", scene.priors())
    words += scene.maybe(0.2, "--decision-column", scene.one(("chosen",), ("id", "", "label")))
    words += scene.maybe(0.1, "--overwrite") + scene.maybe(0.1, "--safe-csv")
    if chance(scene.rng, 0.15):
        path = scene.folder / "adapter.json"
        K = scene.K
        made = Adapter([str(name) for name in scene.names], np.full(K, 1 / K), np.full(K, 1 / K))
        path.write_text(scene.one((made.to_json(),), ("", "{}", made.to_json()[:-9])))
        words += ["--adapter", str(path)]
    return words + scene.maybe(0.4, "--json") + _output(scene, 0.95, *_like_target(words))


def _compare(scene: Scene) -> list[str]:
    words = _data(scene) + _method(scene, how_often=1) + _method(scene)
    return words + scene.maybe(0.5, "--json") + _csv_output(scene, 0.3)


def _backtest(scene: Scene) -> list[str]:
    scene.index = np.concatenate([scene.index] * int(scene.rng.integers(1, 9)))
    words = [str(scene.write("validation", scene.index, labelled=True))]
    words += ["--group-column", scene.one(("site", "day"), ("nope", "id"))]
    words += _method(scene, how_often=0.3) + scene.maybe(0.2, "--ordered")
    words += scene.maybe(0.2, "--goal", scene.one(GOALS, ("x",)))
    words += ["--logits"] if scene.logits else []
    return words + scene.maybe(0.4, "--json") + _csv_output(scene, 0.3)


def _test(scene: Scene) -> list[str]:
    words = [*_data(scene), "--resamples", scene.one(("99", "199"), ("1", "0", "x"))]
    words += scene.maybe(0.3, "--decision", scene.one(("soft", "hard"), ("x",)))
    words += scene.maybe(0.3, "--alpha", scene.one(("0.05", "0.5"), ("0", "2", "nan")))
    words += scene.maybe(0.3, "--fail-on-shift") + scene.maybe(0.5, "--json")
    words += scene.maybe(0.2, "--seed", scene.one(("0", "7"), ("-1", "x", str(10**40))))
    return words + _output(scene, 0.3, ".json")


def _report(scene: Scene) -> list[str]:
    words = _data(scene) + _method(scene) + _level(scene)
    words += scene.maybe(0.2, "--known-priors", scene.priors())
    words += scene.maybe(0.2, "--title", pick(scene.rng, ("", "<script>", "é\n", "x" * 300)))
    return [*words, *scene.maybe(0.3, "--json"), "--output", scene.output(".html", ".htm")]


def _groups(scene: Scene) -> list[str]:
    able = ("auto", "cm", "scm", "cm-l", "scm-l", "cm-m", "scm-m", "em", "map", "bbse", "bbse-s")
    words = _data(scene) + _method(scene, able)
    words += scene.maybe(0.3, "--confidence-level", "0.9")
    words += ["--group-column", scene.one(("site", "site", "day"), ("id", "nope", "label"))]
    words += scene.maybe(0.4, "--pooling", scene.one(("auto", "none", "5", "0"), ("-1", "x")))
    if chance(scene.rng, 0.3):
        path = scene.folder / f"adapted{pick(scene.rng, _like_target(words))}"
        scene.outputs.append(path)
        words += ["--adapt", str(path)]
    return words + scene.maybe(0.5, "--json") + _output(scene, 0.3, ".json", ".csv")


def _monitor(scene: Scene) -> list[str]:
    able = ("cm", "scm", "cm-l", "scm-l", "cm-m", "scm-m", "bbse", "bbse-s", "rlls")
    words = _data(scene) + _method(scene, able)
    periods = scene.one(("10", "50"), ("0", "x", "week", "value"))
    if chance(scene.rng, 0.5):
        words += ["--time-column", scene.one(("day",), ("site", "id", "nope"))]
        periods = scene.one(("day", "week", "value"), ("0", "x", "7"))
    words += ["--every", periods]
    words += scene.maybe(0.2, "--alarm-level", scene.one(("0.05", "0.9"), ("0", "x")))
    if chance(scene.rng, 0.4):
        state = scene.folder / "state.npz"
        if scene.bad(0.3):
            state.write_bytes(pick(scene.rng, (b"", b"PK\x03\x04", b"x" * 100)))
        words += ["--state", str(state), *scene.maybe(0.2, "--acknowledge")]
        scene.outputs.append(state)
    words += scene.maybe(0.3, "--fail-on-shift") + scene.maybe(0.5, "--json")
    return words + _output(scene, 0.1, ".html")


def _nonsense(scene: Scene) -> list[str]:
    words = ("--help", "--version", "--nope", "-", "", "--target", "x.csv", "--json", "é")
    return [pick(scene.rng, words) for _ in range(int(scene.rng.integers(4)))]


def _check(scene: Scene) -> list[str]:
    files = [word for word in _data(scene) if Path(word).exists()]
    return files + scene.maybe(0.3, "--json") + scene.maybe(0.1, "--renormalise")


def _plan(scene: Scene) -> list[str]:
    words = ["--width", scene.one(("0.04", "0.5", "0.001"), ("0", "1", "nan", "x"))]
    if chance(scene.rng, 0.5):
        words += ["--validation", str(scene.write("validation", scene.index, labelled=True))]
        words += ["--logits"] if scene.logits else []
    words += scene.maybe(0.3, "--priors", scene.priors())
    return words + scene.maybe(0.3, "--json")


def _prevalence(scene: Scene) -> list[str]:
    share = ("0.5", "0.9", "0.97", "1")
    words = ["--positives", scene.one(("0", "3", "50"), ("-1", "x", "1000"))]
    words += ["--n", scene.one(("50", "1000"), ("0", "x", "1"))]
    words += ["--sensitivity", scene.one(share, ("0", "0.1", "2", "nan"))]
    words += ["--specificity", scene.one(share, ("0", "0.1", "2", "nan"))]
    return words + scene.maybe(0.5, "--json") + _output(scene, 0.2, ".json", ".csv")


COMMANDS: dict[str, Callable[[Scene], list[str]]] = {
    "estimate": _estimate,
    "adapt": _adapt,
    "compare": _compare,
    "test": _test,
    "groups": _groups,
    "monitor": _monitor,
    "estimate again": _estimate,
    "adapt again": _adapt,
    "nonsense": _nonsense,
    "report": _report,
    "backtest": _backtest,
    "assess": _assess,
    "check": _check,
    "plan": _plan,
    "prevalence": _prevalence,
}


def run_command(name: str, rng: Rng, *, verbose: bool = False) -> str:
    """Run one command line; raise BadAnswerError for what should not have happened."""
    printed = {"NO_COLOR": "1", "COLUMNS": "200"}
    with tempfile.TemporaryDirectory() as text, mock.patch.dict(os.environ, printed):
        folder = Path(text)
        scene = Scene(rng, folder)
        commands = [each for each in main.list_commands(None) if each != "demo"]
        words = [pick(rng, [*commands, "nope"]) if name == "nonsense" else name.split()[0]]
        words += COMMANDS[name](scene)
        words += scene.words
        if scene.bad(0.05):
            words = words[: int(rng.integers(len(words) + 1))]
            if "report" in words[:1] and "--output" not in words:
                scene.outputs.append(folder / "report.html")
        if verbose:
            print("priorshift", *map(repr, words))
        before = _contents(folder)
        with chdir(folder):  # so that a file written by default is seen
            result = CliRunner().invoke(main, words)
        if verbose:
            print(f"exit {result.exit_code}\n{result.stdout[:2000]}\n{result.stderr[:4000]}")
        _require_good(result)
        _require_files(scene, before, _contents(folder), result.exit_code)
        _require_documents(scene, words, result)
    return "refused" if result.exit_code in (1, 2) else "answered"


def _require_good(result: Any) -> None:
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code not in EXIT_CODES:
        raise BadAnswerError(f"exit code {result.exit_code}")
    said = result.stdout + result.stderr
    for bad in ("Traceback", "should not have happened"):
        if bad in said:
            raise BadAnswerError(f"{bad!r} was printed: {said[-300:]}")
    if FOREIGN_WARNING.search(result.stderr):
        raise BadAnswerError(f"a warning that is not ours: {result.stderr[:300]}")
    told = result.stderr + result.stdout  # `check` prints problems with what it understood
    if result.exit_code in (1, 2) and not re.search(
        r'^(Error|Usage|Problem): |"problem', told, re.M
    ):
        raise BadAnswerError(f"no error was told: {result.stderr[-300:]}")


def _require_files(
    scene: Scene, before: dict[str, Any], after: dict[str, Any], exit_code: int
) -> None:
    """Inputs are as before; outputs are whole or as they were; nothing else is there."""
    outputs = {str(path.relative_to(scene.folder)) for path in scene.outputs}
    for name, content in before.items():
        if name not in outputs and after.get(name) != content:
            raise BadAnswerError(f"the input {name} was changed")
    strange = set(after) - set(before) - outputs
    if strange:
        raise BadAnswerError(f"files that nobody asked for: {sorted(strange)}")
    if exit_code in DONE:
        return
    for name in outputs - {"state.npz"}:  # it keeps what was told before a bad window
        if after.get(name) != before.get(name):
            raise BadAnswerError(f"exit code {exit_code}, yet {name} was written")


def _require_documents(scene: Scene, words: list[str], result: Any) -> None:
    """What was written can be read, and JSON has no NaN."""
    if result.exit_code not in DONE or {"--help", "-h", "--version"} & set(words):
        return
    if "--json" in words and "--output" not in words:
        for document in result.stdout.splitlines() if "monitor" in words else [result.stdout]:
            _read_json(document)  # monitor: one a line
    for path in scene.outputs:
        if not path.is_file() or str(path) not in words:  # a line may have been cut short
            continue
        if not path.stat().st_size:
            raise BadAnswerError(f"{path.name} is empty")
        if path.suffix == ".json":
            _read_json(path.read_text(encoding="utf-8"))
        elif path.suffix in (".html", ".htm") and "</html>" not in path.read_text("utf-8"):
            raise BadAnswerError(f"{path.name} is not whole")


def _read_json(text: str) -> Any:
    def refuse(constant: str) -> Any:
        raise BadAnswerError(f"JSON has {constant}")

    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise BadAnswerError(f"no JSON: {error}: {text[:200]!r}") from error


def _contents(folder: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }
