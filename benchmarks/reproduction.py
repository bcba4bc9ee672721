"""The paper's tables on stored outputs of real networks, and what becomes of its claims.

python -m benchmarks.reproduction [--data ../shared/data] [--runs FOLDER] [--only [NAME ...]]
    [--seeds 5] [--experiments tables supplement samples inconsistent convergence sensitivity]
    [--output FOLDER]

Everything has three columns: the paper's text, the code that its authors released, and certified.

`--runs` names a folder of npz files as `priorshift benchmark` takes them, such as
`benchmarks/outputs`; `--only` without names leaves out `../shared/data`. Everything is printed as
Markdown, and written into the output folder together with every single result as CSV.
"""

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.claims import (
    DUELS,
    calibration_as_markdown,
    duels_as_markdown,
    few_as_markdown,
    key_of,
    solvers_as_markdown,
    verdicts_as_markdown,
)
from benchmarks.shared_outputs import DATA, FAMILIES, Family
from priorshift.files import write_text
from priorshift.reproduction import (
    SUPPLEMENT,
    TABLES,
    ResultTable,
    Sensitivity,
    Setting,
    Stage,
    StoredOutputs,
    run_convergence,
    run_inconsistent,
    run_samples,
    run_sensitivity,
    run_tables,
)
from priorshift.reproduction.figures import draw_convergence, draw_samples
from priorshift.reproduction.supplement import (
    Inconsistency,
    inconsistency_as_markdown,
    run_times_as_markdown,
    sensitivity_as_markdown,
)
from priorshift.reproduction.tables import as_csv, heading, markdown
from priorshift.reproduction.trials import COLUMNS

EXPERIMENTS = ("tables", "supplement", "samples", "inconsistent", "convergence", "sensitivity")

FEW_CLASSES = 200
"""Classes up to which learning rates are varied: 1000 steps at 32 rates take long beyond."""


def main() -> None:
    options = parse()
    options.output.mkdir(parents=True, exist_ok=True)
    families = [name for name in FAMILIES if options.only is None or name in options.only]
    if not options.data.is_dir():
        print(f"{options.data} is absent: nothing but --runs can be reproduced.", file=sys.stderr)
        families = []
    for name in families:
        family = FAMILIES[name]
        n_runs = min(options.seeds, family.most_seeds)
        outputs = list(family.load(options.data, n_runs))
        if family.splits:  # of the outputs of one network
            outputs = [replace(one, network="the same") for one in outputs]
        reproduce(name, family, outputs, 1 if family.splits else n_runs, options)
    for name, paths in options.networks.items():
        outputs = [replace(StoredOutputs.load(path), name=name) for path in paths]
        target = "LT" if "-UNI" in name else "UNI"
        family = Family(f"{name} -> {target}", "Trained here.", lambda *_: iter(()), (target,))
        family = replace(family, supplement=True)
        reproduce(name, family, outputs, options.seeds, options)
    verdicts = verdicts_as_markdown(options.output)
    write_text(options.output / "verdicts.md", verdicts + "\n")
    print(verdicts)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of stored outputs")
    parser.add_argument("--runs", type=Path, help="folder of npz files of networks trained here")
    parser.add_argument("--only", nargs="*", metavar="NAME", help=f"of {', '.join(FAMILIES)}")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--experiments", nargs="+", choices=EXPERIMENTS, default=EXPERIMENTS)
    parser.add_argument("--output", type=Path, default=Path("reproduction"))
    options = parser.parse_args()
    options.networks = grouped(options.runs.rglob("*.npz")) if options.runs else {}
    known = [*FAMILIES, *options.networks]
    if unknown := set(options.only or ()) - set(known):
        parser.error(f"--only knows {', '.join(known)}, not {', '.join(sorted(unknown))}.")
    if named := set(options.only or ()) & set(options.networks):
        options.networks = {
            name: paths for name, paths in options.networks.items() if name in named
        }
    return options


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
    asked = options.experiments
    parts = [f"## {family.title}", family.note]
    if "tables" in asked:
        given = {"targets": family.targets, "n_seeds": n_seeds, "share": family.share}
        names = [table for table in TABLES if table != "methods"]
        tables = run_tables(names, outputs, **given, progress=told)
        parts += list(as_parts(name, tables, options.output))
    if "supplement" in asked and family.supplement:
        given = {"targets": SUPPLEMENT, "n_seeds": n_seeds, "share": family.share}
        tables = run_tables(["methods"], outputs, **given, progress=told)
        parts += ["### Supplement: other targets, all methods"]
        parts += list(as_parts(f"{name}-supplement", tables, options.output))
    if "samples" in asked:
        parts += [samples(name, family, outputs, n_seeds, options.output)]
    if "inconsistent" in asked:
        given = {"targets": family.targets, "n_seeds": n_seeds, "share": family.share}
        found = run_inconsistent(outputs, **given, progress=told)
        write_text(options.output / f"{name}-inconsistent.csv", as_csv(Inconsistency, found))
        parts.append(f"**Negative estimates**\n\n{inconsistency_as_markdown(found)}")
    if "convergence" in asked:
        parts += [convergence(name, family, outputs[0], options.output)]
    if "sensitivity" in asked and outputs[0].n_classes <= FEW_CLASSES:
        given = {"target": family.targets[0], "n_seeds": n_seeds, "share": family.share}
        varied = run_sensitivity(outputs, **given, progress=told)
        write_text(options.output / f"{name}-sensitivity.csv", as_csv(Sensitivity, varied))
        parts.append(f"**What the text leaves open**\n\n{sensitivity_as_markdown(varied)}")
    n_runs = n_seeds * len(outputs) // len({one.name for one in outputs})
    parts.append(f"{n_runs} runs per row; {time.perf_counter() - start:.0f} s.")
    text = "\n\n".join(parts)
    write_text(options.output / f"{name}-{'-'.join(asked)}.md", text + "\n")
    print(text, end="\n\n", flush=True)


def as_parts(name: str, tables: dict[str, ResultTable], folder: Path) -> Iterator[str]:
    """Yield tables and the comparisons made from them; write every record."""
    for key, table in tables.items():
        write_text(folder / f"{name}-{key}.csv", table.to_csv())
        yield f"**{key}: {table.title}**\n\n{table.to_markdown()}"
    records = list({key_of(r): r for table in tables.values() for r in table.records}.values())
    methods = {r.method for r in records}
    for title, duels in DUELS.items():
        if any({one, other} <= methods for one, other in duels):
            yield f"**{title}**\n\n{duels_as_markdown(records, duels)}"
    yield f"**7. Gain by BCTS**\n\n{calibration_as_markdown(records)}"
    yield f"**How far each column goes**\n\n{solvers_as_markdown(records)}"


def samples(
    name: str, family: Family, outputs: Sequence[StoredOutputs], n_seeds: int, folder: Path
) -> str:
    """Run the sample-size experiment; write its figure."""
    tables = run_samples(
        outputs, target=family.targets[0], n_seeds=n_seeds, share=family.share, progress=told
    )
    draw_samples(tables).savefig(folder / f"{name}-samples.svg")
    lines = []
    for size, table in tables.items():
        write_text(folder / f"{name}-samples-{size}.csv", table.to_csv())
        head, rule, *rows = table.to_markdown().splitlines()
        lines += [f"| samples {head}", f"|---{rule}"] if not lines else []
        lines += [f"| {size} {row}" for row in rows]
    by_size = "\n".join(lines)
    claim = f"**4. EM for few samples**\n\n{few_as_markdown(tables)}"
    return f"**How many samples do I need?**\n\n{by_size}\n\n{claim}"


def convergence(name: str, family: Family, outputs: StoredOutputs, folder: Path) -> str:
    """Run the convergence experiment on one classifier; write its figure."""
    setting = Setting(outputs, family.targets[0], False, 0, family.share)
    stages, times = run_convergence(setting, n_repeats=3)
    draw_convergence(stages).savefig(folder / f"{name}-convergence.svg")
    write_text(folder / f"{name}-convergence.csv", as_csv(Stage, stages))
    head = ["method", "column", "steps", "seconds", "accuracy", "gap, nats"]
    rows = [
        (
            *(heading(s.method), COLUMNS.get(s.solver, s.solver), str(s.n_iter)),
            *(f"{s.seconds:.4f}", f"{s.accuracy:.2f}", "" if s.gap is None else f"{s.gap:.2g}"),
        )
        for s in stages
    ]
    times_and_steps = f"{run_times_as_markdown(times)}\n\n{markdown(head, rows)}"
    return f"**Run time, {outputs.name}**\n\n{times_and_steps}"


def told(settings: Sequence[Setting]) -> Iterator[Setting]:
    """Tell on stderr how far it is."""
    start = time.perf_counter()
    for at, setting in enumerate(settings):
        yield setting
        took = time.perf_counter() - start
        print(f"\r{setting.outputs.name}: {at + 1}/{len(settings)}, {took:.0f} s", end="",
              file=sys.stderr, flush=True)  # fmt: skip
    print(file=sys.stderr)


if __name__ == "__main__":
    main()
