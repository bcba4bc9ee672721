"""Ours beside QuaPy, mlquantify and the usual recipes, on the same simulated shifts.

python -m benchmarks.leaderboard [--every 5] [--methods NAME ...] [--output leaderboard]

Tasks are those of `priorshift.compare.shifted_tasks` on the bundled Fashion-MNIST outputs and,
where it is present, on ../shared/data. Everybody is given the same: validation with labels, target
predictions, source priors. Adaptation is the same for all, but our estimators use their own
`adapt`. A method that refuses a task counts as no adaptation. Peers run where they are installed:
`make leaderboard` installs them.
"""

import argparse
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

import priorshift as ps
from benchmarks.contestants import FEW, Contestant, ours, peers, recipes
from benchmarks.shifted import DATA, HELD_OUT, all_tasks, held_out_tasks
from priorshift.compare import ShiftTask
from priorshift.files import write_text

OURS = ("auto", "em", "em-bcts", "map", "cm", "scm", "scm-l", "scm-m", "gls", "joint", "rlls")


@dataclass(frozen=True)
class Result:
    """One method on one task: prior error, gain in accuracy in points, seconds, share of memory."""

    task: ShiftTask
    contestant: Contestant
    l1_error: float
    gain: float
    seconds: float
    memory: float | None
    error: str | None = None


def main() -> None:
    options = parse()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    tasks = [*all_tasks(), *held_out_tasks()][:: options.every]
    contestants = [*ours(options.methods), *recipes(), *peers()]
    start = time.perf_counter()
    results = []
    seen: set[str] = set()
    for at, task in enumerate(tasks):
        first = task.family not in seen
        seen.add(task.family)
        able = [c for c in contestants if task.source_priors.size <= c.most_classes]
        results += [judge(task, contestant, first) for contestant in able]
        took = time.perf_counter() - start
        print(f"\r{at + 1}/{len(tasks)} tasks, {took:.0f} s", end="", file=sys.stderr, flush=True)
    text = "\n\n".join(page(results, len(tasks), time.perf_counter() - start))
    print(f"\n{text}")
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        write_text(options.output / "leaderboard.md", text + "\n")
        write_text(options.output / "leaderboard.csv", as_csv(results))
        draw(results).savefig(options.output / "leaderboard.svg")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=5, help="only every n-th task")
    parser.add_argument("--methods", nargs="+", default=OURS, choices=ps.available_estimators())
    parser.add_argument("--output", type=Path, help="folder for table, CSV and plot")
    return parser.parse_args()


# Judging


def judge(task: ShiftTask, contestant: Contestant, with_memory: bool) -> Result:
    """Run one method on one task."""
    K = task.source_priors.size
    truth = np.bincount(task.y_target, minlength=K) / task.y_target.size
    before = (task.y_proba_target.argmax(axis=1) == task.y_target).mean()
    start = time.perf_counter()
    try:
        priors, adapted = contestant.call(task)
    except Exception as error:  # a peer's failure is a result
        away = float(np.abs(task.source_priors - truth).sum())
        return Result(task, contestant, away, 0.0, np.nan, None, str(error)[:80])
    seconds = time.perf_counter() - start
    after = (adapted.argmax(axis=1) == task.y_target).mean()
    memory = None
    if with_memory:
        memory = peak(partial(contestant.call, task)) / task.y_proba_target.nbytes
    gain = 100 * float(after - before)
    error = float(np.abs(priors - truth).sum())
    return Result(task, contestant, error, gain, seconds, memory)


def peak(call: Callable[[], object]) -> int:
    """Return the most memory that a call holds at once, in bytes."""
    tracemalloc.start()
    call()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


# Showing


def page(results: list[Result], n_tasks: int, seconds: float) -> Iterator[str]:
    few = {r.task.name for r in results if r.task.source_priors.size <= FEW}
    families = list(dict.fromkeys(r.task.family for r in results))
    if not DATA.is_dir():
        yield "../shared/data is absent: only the bundled Fashion-MNIST outputs were used."
    yield f"{n_tasks} tasks on {len(families)} classifiers, {seconds:.0f} s: {', '.join(families)}."
    many = [r for r in results if r.contestant.most_classes > FEW]
    for title, held in {
        "Classifiers by which our defaults were chosen": False,
        "Classifiers held out from that": True,
    }.items():
        found = [r for r in many if (r.task.family in HELD_OUT) == held]
        if found:
            n_found = len({r.task.name for r in found})
            yield f"**{title}: {n_found} tasks, all classes**\n\n{table(found)}"
    yield (
        f"**The {len(few)} tasks of at most {FEW} classes, with methods too slow for the others**"
        f"\n\n{table([r for r in results if r.task.name in few])}"
    )
    yield f"**Best on each classifier**\n\n{winners(results)}"
    if failures := {(r.contestant.maker, r.contestant.name, r.error) for r in results if r.error}:
        shown = sorted(f"- {maker} {name}: {error}" for maker, name, error in failures)
        yield "**Refusals and failures**\n\n" + "\n".join(shown)


def by_contestant(results: list[Result]) -> dict[tuple[str, str], list[Result]]:
    found: dict[tuple[str, str], list[Result]] = {}
    for r in results:
        found.setdefault((r.contestant.maker, r.contestant.name), []).append(r)
    return found


def table(results: list[Result]) -> str:
    """Show every method, the smallest prior error first; the best of a column in bold."""
    rows = {who: figures(found) for who, found in by_contestant(results).items()}
    signs = np.array([1, -1, -1, -1, 1, 1])
    best = np.nanmin(np.array(list(rows.values())) * signs, axis=0) * signs
    formats = ("{:.3f}", "{:+.2f}", "{:+.2f}", "{:+.2f}", "{:.1f}", "{:.2f}")
    lines = [
        "| maker | method | prior L1 error | mean gain in accuracy, points | median gain "
        "| worst task | median ms | peak memory / input |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (maker, name), values in sorted(rows.items(), key=lambda row: row[1][0]):
        cells = [form.format(value) for form, value in zip(formats, values, strict=True)]
        bold = [f"**{c}**" if v == b else c for c, v, b in zip(cells, values, best, strict=True)]
        lines.append("| " + " | ".join([maker, name, *bold]) + " |")
    return "\n".join(lines)


def figures(found: list[Result]) -> tuple[float, ...]:
    gains = [r.gain for r in found]
    memories = [r.memory for r in found if r.memory is not None]
    return (
        float(np.mean([r.l1_error for r in found])),
        float(np.mean(gains)),
        float(np.median(gains)),
        float(np.min(gains)),
        1000 * float(np.nanmedian([r.seconds for r in found])),
        float(np.median(memories)) if memories else np.nan,
    )


def winners(results: list[Result]) -> str:
    """Show who is best on each classifier, and the best that is not ours."""
    lines = [
        "| classifier | smallest prior error | our smallest | largest gain | our largest |",
        "|---|---|---|---|---|",
    ]
    for family in dict.fromkeys(r.task.family for r in results):
        of_family = by_contestant([r for r in results if r.task.family == family])
        errors = {who: np.mean([r.l1_error for r in found]) for who, found in of_family.items()}
        gains = {who: np.mean([r.gain for r in found]) for who, found in of_family.items()}
        own = [who for who in errors if who[0] == "priorshift"]
        first, best = min(errors, key=errors.get), max(gains, key=gains.get)
        ours_first, ours_best = min(own, key=errors.get), max(own, key=gains.get)
        cells = [
            family,
            f"{' '.join(first)}: {errors[first]:.3f}",
            f"{ours_first[1]}: {errors[ours_first]:.3f}",
            f"{' '.join(best)}: {gains[best]:+.2f}",
            f"{ours_best[1]}: {gains[ours_best]:+.2f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def as_csv(results: list[Result]) -> str:
    lines = ["task,maker,method,l1_error,gain,seconds,memory,error"]
    for r in results:
        who = f'{r.contestant.maker},"{r.contestant.name}"'
        memory = "" if r.memory is None else r.memory
        error = (r.error or "").replace('"', "'").replace("\n", " ")
        lines.append(f'{r.task.name},{who},{r.l1_error},{r.gain},{r.seconds},{memory},"{error}"')
    return "\n".join(lines) + "\n"


def draw(results: list[Result]):
    """Draw prior error, gain and time, one row per method that ran on all tasks."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.rcdefaults()  # QuaPy sets fonts of its own
    colours = {"priorshift": "#1F86C7", "recipe": "#7F7F7F"}
    many = [r for r in results if r.contestant.most_classes > FEW]
    rows = sorted(by_contestant(many).items(), key=lambda row: figures(row[1])[0], reverse=True)
    names = [name if who in colours else f"{who.split()[0]} {name}" for (who, name), _ in rows]
    found = np.array([figures(runs) for _, runs in rows])
    figure, axes = plt.subplots(1, 3, figsize=(9.2, 4.8), sharey=True, layout="constrained")
    panels = {"prior L1 error": 0, "median gain in accuracy, points": 2, "median ms": 4}
    for ax, (label, column) in zip(axes, panels.items(), strict=True):
        for at, ((maker, _), _) in enumerate(rows):
            marker = {"priorshift": "o", "recipe": "^"}.get(maker, "s")
            ax.plot(found[at, column], at, marker, color=colours.get(maker, "#D55E00"))
        ax.set_xlabel(label)
        ax.grid(axis="y", color="#7F7F7F", alpha=0.3)
    axes[0].set_yticks(range(len(rows)), names)
    axes[2].set_xscale("log")
    figure.suptitle(
        "Blue circles: priorshift, orange squares: peers, grey triangles: usual recipes",
        fontsize="medium",
    )
    return figure


if __name__ == "__main__":
    main()
