"""How much every method gains under simulated prior shift, on real classifier outputs.

python -m benchmarks.quality [--part tasks held-out zoo zoo-plain rare small uci]
    [--methods auto,em,...] [--every N] [--family NAME] [--ablation]

tasks: deep networks and others on the bundled and the shared outputs. held-out: more of them,
looked at last. zoo: ordinary classifiers of tables. zoo-plain: the same without source priors, as
most people would call it. rare: a model trained on balanced data, simulated. small: Auto where
validation has few rows, simulated. uci: class shares by a published protocol. `--ablation` takes
Auto apart on the zoo instead.
Without ../shared/data only the bundled outputs, `rare` and `small` remain, and the output says so.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import priorshift as ps
from benchmarks import shifted
from benchmarks.ablation import ablation
from benchmarks.judging import FIXED, judge, report
from benchmarks.rare import rare_events
from benchmarks.shifted import all_tasks, held_out_tasks, zoo_tasks
from benchmarks.small import small_cells
from benchmarks.uci import published_protocol
from priorshift.compare import ShiftTask

REPEATS = 20
CELL_RUNS = 100
BAGS = 100
"""Runs of `rare`, of each cell of `small`, and bags of `uci`, over `--every`."""

Tasks = Callable[[], Iterator[ShiftTask]]


def main() -> None:
    options = parse()
    warnings.simplefilter("ignore", UserWarning)
    parts = ["ablation"] if options.ablation else options.part
    for part in parts:
        start = time.perf_counter()
        print(f"## {part}\n", flush=True)
        for text in run(part, options):
            print(f"{text}\n", flush=True)
        print(f"{time.perf_counter() - start:.0f} s\n", flush=True)


PARTS = ("tasks", "held-out", "zoo", "zoo-plain", "rare", "small", "uci")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", nargs="+", default=PARTS, choices=PARTS, help="by default all")
    parser.add_argument("--methods", help='comma-separated, or "all"; by default the usual ones')
    parser.add_argument("--every", type=int, default=1, help="only every n-th task, run and bag")
    parser.add_argument("--family", help="only one classifier")
    parser.add_argument("--ablation", action="store_true", help="take Auto apart, on the zoo")
    return parser.parse_args(arguments)


def run(part: str, options: argparse.Namespace) -> Iterator[str]:
    """Yield the tables of one part."""
    methods = named(options.methods)
    if part == "rare":
        yield rare_events(methods, max(1, REPEATS // options.every))
    elif part == "small":
        yield small_cells(max(1, CELL_RUNS // options.every))
    elif part == "tasks":
        if not shifted.DATA.is_dir():
            yield "../shared/data is absent: only the bundled Fashion-MNIST outputs were used."
        yield from on_tasks(part, methods, options)
    elif not shifted.DATA.is_dir():
        yield "../shared/data is absent: nothing was measured."
    elif part == "uci":
        n_bags = max(1, BAGS // options.every)
        yield published_protocol(shifted.DATA / "uci", methods, n_bags)
    elif part == "ablation":
        yield ablation(partial(chosen, zoo_tasks, options))
    else:
        yield from on_tasks(part, methods, options)


def named(methods: str | None) -> list[str]:
    if methods is None:
        return ["auto", *FIXED]
    names = ps.available_estimators() if methods == "all" else methods.split(",")
    return [name for name in names if name not in ("na", "em-labels")]


def on_tasks(part: str, methods: list[str], options: argparse.Namespace) -> Iterator[str]:
    tasks = {"tasks": all_tasks, "held-out": held_out_tasks}.get(part, zoo_tasks)
    found = judge(chosen(tasks, options), methods, plain=part == "zoo-plain")
    yield from report(found, methods)


def chosen(tasks: Tasks, options: argparse.Namespace) -> Iterator[ShiftTask]:
    """Yield every n-th task of the families that are wanted."""
    wanted = (task for task in tasks() if options.family in (None, task.family))
    return islice(wanted, 0, None, options.every)


if __name__ == "__main__":
    main()
