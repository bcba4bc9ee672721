"""Ours beside QuaPy, mlquantify and the usual recipes, on the same simulated shifts.

    python -m lab leaderboard [--every 5] [--methods NAME ...] [--data data]

Tasks are those of `lab.shifts.shifted_tasks` on the bundled outputs, on our own networks
and on the ordinary classifiers that `make data` builds, and the natural shifts that it builds;
`--every` takes only every n-th. Everybody is given the
same: validation with labels, target predictions, source priors. Adaptation is the same for all,
but our estimators use their own `adapt`. A method that refuses a task counts as no adaptation.
Peers run where they are installed: `make leaderboard` installs them.
"""

import time
import warnings
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from lab.natural import NATURAL, natural_tasks
from lab.peers import FEW, Contestant, others, ours
from lab.pools import POOLS, network_tasks, require_data, zoo_tasks
from lab.shifts import ShiftTask
from lab.show import markdown, parse, peak, told

OURS = (
    "auto",
    "mean",
    "em",
    "em-bcts",
    "map",
    "cm",
    "scm",
    "scm-l",
    "scm-m",
    "gls",
    "joint",
    "rlls",
)


class Result(NamedTuple):
    """One method on one task: prior error, gain in accuracy in points, seconds, share of memory."""

    task: ShiftTask
    who: Contestant
    l1_error: float
    gain: float
    seconds: float
    memory: float = np.nan
    error: str = ""


def main(arguments: list[str] | None = None) -> None:
    """Judge everybody, and print and write the page."""
    methods = {"nargs": "+", "default": OURS}
    options = parse(__doc__, arguments, every=5, methods=methods, data=POOLS)
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    require_data("leaderboard", options.data, "zoo", "natural")
    natural = natural_tasks(options.data / "natural")
    tasks = [*network_tasks(), *zoo_tasks(options.data), *natural][:: options.every]
    contestants = [*map(ours, options.methods), *others()]
    start, results, seen = time.perf_counter(), [], set()
    for task in told(tasks):
        able = [who for who in contestants if task.source_priors.size <= who.most_classes]
        results += [judge(task, who, task.family not in seen) for who in able]
        seen.add(task.family)
    print("", *page(results, len(tasks), time.perf_counter() - start), sep="\n\n")


def judge(task: ShiftTask, who: Contestant, with_memory: bool) -> Result:
    """Run one method on one task."""
    truth = np.bincount(task.y_target, minlength=task.source_priors.size) / task.y_target.size
    before = (task.y_proba_target.argmax(axis=1) == task.y_target).mean()
    start = time.process_time()  # of the processor: others on the machine do not count
    try:
        priors, adapted = who.call(task)
        if priors.shape != truth.shape or not np.isfinite(priors).all():
            raise ValueError("no finite priors")
    except Exception as error:  # a peer's failure is a result
        away = float(np.abs(task.source_priors - truth).sum())
        return Result(task, who, away, 0.0, np.nan, error=" ".join(str(error)[:80].split()))
    seconds = time.process_time() - start
    gain = 100 * float((adapted.argmax(axis=1) == task.y_target).mean() - before)
    size = task.y_proba_target.nbytes
    memory = peak(partial(who.call, task)) / size if with_memory else np.nan
    return Result(task, who, float(np.abs(priors - truth).sum()), gain, seconds, memory)


def page(results: list[Result], n_tasks: int, seconds: float) -> Iterator[str]:
    """Yield the parts of the page."""
    few = {r.task.name for r in results if r.task.source_priors.size <= FEW}
    families = list(dict.fromkeys(r.task.family for r in results))
    yield f"{n_tasks} tasks on {len(families)} classifiers, {seconds:.0f} s: {', '.join(families)}."
    many = [r for r in results if r.who.most_classes > FEW]
    natural = [r for r in many if r.task.shift.startswith(NATURAL)]
    simulated = [r for r in many if not r.task.shift.startswith(NATURAL)]
    for title, found in {"Simulated shifts": simulated, "Natural shifts": natural}.items():
        if found:
            n_found = len({r.task.name for r in found})
            yield f"**{title}: {n_found} tasks, all classes**\n\n{table(found)}"
    yield (
        f"**The {len(few)} tasks of at most {FEW} classes, with methods too slow for the others**"
        f"\n\n{table([r for r in results if r.task.name in few])}"
    )
    yield f"**Best on each classifier**\n\n{winners(results)}"
    if failures := {(r.who.maker, r.who.name, r.error) for r in results if r.error}:
        shown = sorted(f"- {maker} {name}: {error}" for maker, name, error in failures)
        yield "**Refusals and failures**\n\n" + "\n".join(shown)


COLUMNS = {
    "prior L1 error": (".3f", 1, lambda found: np.mean([r.l1_error for r in found])),
    "mean gain in accuracy, points": ("+.2f", -1, lambda found: np.mean([r.gain for r in found])),
    "median gain": ("+.2f", -1, lambda found: np.median([r.gain for r in found])),
    "worst task": ("+.2f", -1, lambda found: min(r.gain for r in found)),
    "median ms": (".1f", 1, lambda found: 1000 * np.nanmedian([r.seconds for r in found])),
    "peak memory / input": (".2f", 1, lambda found: np.nanmedian([r.memory for r in found])),
}
"""How each figure is shown, whether less (1) or more (-1) of it is better, and what it is."""


def figures(found: list[Result]) -> np.ndarray:
    """Return the figures of a method over tasks."""
    return np.array([of(found) for _, _, of in COLUMNS.values()])


def by_contestant(results: list[Result]) -> dict[tuple[str, str], list[Result]]:
    """Return the results of each method."""
    found: dict[tuple[str, str], list[Result]] = {}
    for r in results:
        found.setdefault((r.who.maker, r.who.name), []).append(r)
    return found


def table(results: list[Result]) -> str:
    """Show every method, the smallest prior error first; the best of a column in bold."""
    rows = {who: figures(found) for who, found in by_contestant(results).items()}
    signs = np.array([sign for _, sign, _ in COLUMNS.values()])
    best = np.nanmin(np.array(list(rows.values())) * signs, axis=0) * signs
    lines = []
    for who, values in sorted(rows.items(), key=lambda row: row[1][0]):
        cells = [f"{v:{form}}" for v, (form, _, _) in zip(values, COLUMNS.values(), strict=True)]
        bold = [f"**{c}**" if v == b else c for c, v, b in zip(cells, values, best, strict=True)]
        lines.append([*who, *bold])
    return markdown(["maker", "method", *COLUMNS], lines)


def winners(results: list[Result]) -> str:
    """Show who is best on each classifier, and the best of ours."""
    rows = []
    for family in dict.fromkeys(r.task.family for r in results):
        of_family = by_contestant([r for r in results if r.task.family == family])
        own = [who for who in of_family if who[0] == "priorshift"]
        cells = [family]
        for name in ("prior L1 error", "mean gain in accuracy, points"):
            form, sign, of = COLUMNS[name]
            values = {who: sign * of(found) for who, found in of_family.items()}
            first, of_ours = min(values, key=values.get), min(own, key=values.get)
            cells += [f"{' '.join(first)}: {sign * values[first]:{form}}"]
            cells += [f"{of_ours[1]}: {sign * values[of_ours]:{form}}"]
        rows.append(cells)
    header = ["classifier", "smallest prior error", "our smallest", "largest gain", "our largest"]
    return markdown(header, rows)
