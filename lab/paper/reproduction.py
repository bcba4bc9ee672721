"""The paper's tables on stored outputs of real networks, and what becomes of its claims.

    python -m lab reproduction [--data ../shared/data] [--runs lab/outputs] [--only [NAME ...]]
        [--seeds 5] [--experiments tables supplement samples inconsistent convergence sensitivity]
        [--output FOLDER]

Everything has three columns: the paper's text, the code that its authors released, and certified.

`--runs` names a folder of npz files as `python -m lab benchmark` takes them; `--only` takes some
data sets or networks, and without names all networks of `--runs`. Where `../shared/data` is absent,
its part is left out, unless `--only` asks for it. Everything is printed as Markdown, and written
into the output folder together with every single result as CSV.
"""

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from lab.paper import experiments
from lab.paper.distributions import SUPPLEMENT
from lab.paper.families import FAMILIES, Family
from lab.paper.outputs import StoredOutputs
from lab.paper.tables import TABLES
from lab.pools import DATA, OUTPUTS, require_data
from lab.show import parse
from priorshift.files import write_text

EXPERIMENTS = ("tables", "supplement", "samples", "inconsistent", "convergence", "sensitivity")

FEW_CLASSES = 200
"""Classes up to which learning rates are varied: 1000 steps at 32 rates take long beyond."""


def main(arguments: list[str] | None = None) -> None:
    """Reproduce every family."""
    only = {"nargs": "*", "metavar": "NAME"}
    options = parse(
        __doc__,
        arguments,
        data=DATA,
        runs=OUTPUTS,
        only=only,
        seeds=5,
        experiments=EXPERIMENTS,
        output=Path("reproduction"),
    )
    networks = grouped(options.runs.rglob("*.npz"))
    known, named = {*FAMILIES, *networks}, set(options.only or ())
    if named - known:
        sys.exit(
            f"--only knows {', '.join(sorted(known))}, not {', '.join(sorted(named - known))}."
        )
    networks = {name: paths for name, paths in networks.items() if not named or name in named}
    families = [name for name in FAMILIES if options.only is None or name in named]
    if named:
        for name in families:
            require_data(name, options.data)
    elif families and not options.data.is_dir():
        print(f"{options.data} is absent: nothing but --runs is reproduced.", file=sys.stderr)
        families = []
    if not families and not networks:
        sys.exit(f"there is nothing to reproduce in {options.runs}: name outputs by --runs.")
    options.output.mkdir(parents=True, exist_ok=True)
    for name in families:
        family = FAMILIES[name]
        n_runs = min(options.seeds, family.most_seeds)
        outputs = list(family.load(options.data, n_runs))
        splits = family.share == 1.0
        if splits:  # of the outputs of one network
            outputs = [replace(one, network="the same") for one in outputs]
        reproduce(name, family, outputs, 1 if splits else n_runs, options)
    for name, paths in networks.items():
        outputs = [replace(StoredOutputs.load(path), name=name) for path in paths]
        target = "LT" if "-UNI" in name else "UNI"
        family = Family(f"{name} -> {target}", None, (target,), supplement=True)
        reproduce(name, family, outputs, options.seeds, options)


def grouped(paths: Iterable[Path]) -> dict[str, list[Path]]:
    """Group npz files; those whose names differ in a last `-number` only are runs of one row.

    Networks that learned from wrong labels are no part of the tables.
    """
    found: dict[str, list[Path]] = {}
    for path in sorted(paths):
        stem, _, run = path.stem.rpartition("-")
        if "-noise" not in path.stem:
            found.setdefault(stem if stem and run.isdigit() else path.stem, []).append(path)
    return found


def reproduce(
    name: str,
    family: Family,
    outputs: Sequence[StoredOutputs],
    n_seeds: int,
    options: argparse.Namespace,
) -> None:
    """Run the experiments of one data set, print them, and write them."""
    start = time.perf_counter()
    request = experiments.Request(
        outputs, options.output, family.targets, n_seeds, family.share, prefix=f"{name}-"
    )
    parts = [f"## {family.title}"]
    for experiment in options.experiments:
        if experiment == "tables":
            parts.append(experiments.tables(request, [t for t in TABLES if t != "methods"]))
        elif experiment == "supplement":
            if family.supplement:
                others = replace(request, targets=SUPPLEMENT, prefix=f"{name}-supplement-")
                parts.append(experiments.tables(others, ["methods"]))
        elif experiment != "sensitivity" or outputs[0].n_classes <= FEW_CLASSES:
            parts.append(experiments.EXPERIMENTS[experiment](request))
    n_runs = n_seeds * len(outputs) // len({one.name for one in outputs})
    parts.append(f"{n_runs} runs per row; {time.perf_counter() - start:.0f} s.")
    text = "\n\n".join(parts)
    write_text(options.output / f"{name}-{'-'.join(options.experiments)}.md", text + "\n")
    print(text, end="\n\n", flush=True)
