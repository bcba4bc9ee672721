"""The paper's claims as comparisons of methods, from the records of its tables."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from priorshift.reproduction import Record
from priorshift.reproduction.tables import heading

DUELS = {
    "2. Maximum likelihood repairs the inversion": (("cm-l", "cm"), ("scm-l", "scm")),
    "3. SCM-L is the best maximum likelihood": (("scm-l", "em"), ("scm-l", "cm-l")),
    "5. SCM-M beats MAP": (("scm-m", "map"),),
    "6. Priors rather than ratios": (("scm-l", "bbse"), ("scm-l", "bbse-s"), ("scm-l", "rlls")),
}
"""Claims of the paper's conclusions that say one method beats another."""

MAXIMISERS = ("em", "cm-l", "scm-l", "map", "cm-m", "scm-m")
"""Methods that maximise a likelihood, by the paper's solver or to a certificate."""

CALIBRATION = ("em", "scm-l", "scm-m", "oracle")
"""Methods that calibration is judged by."""


def duels_as_markdown(records: Sequence[Record], duels: Sequence[tuple[str, str]]) -> str:
    """Show mean paired differences in accuracy, with their standard errors, by setting."""
    names = [f"{heading(one)} - {heading(other)}" for one, other in duels]
    lines = [
        "| source -> target | BCTS | solver | " + " | ".join(names) + " |",
        "|---" * (3 + len(duels)) + "|",
    ]
    for (source, target, calibrated, solver), found in by_setting(records).items():
        if "scm-l" not in found:
            continue
        cells = [f"{source} -> {target}", "yes" if calibrated else "no", solver]
        cells += [difference(found[one], found[other]) for one, other in duels]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def verdicts_as_markdown(folder: Path) -> str:
    """Count over all tables in the folder how often each claim holds, beyond two standard errors.

    A setting is a classifier, a target and BCTS or none; those of the supplement count apart.
    """
    head = "| claim | solver | settings | holds | undecided | the other way | mean difference |"
    parts = []
    for title, wanted in {"Tables": False, "Supplement": True}.items():
        paths = [
            p for p in sorted(folder.glob("*-table*.csv")) if ("supplement" in p.name) == wanted
        ]
        settings = by_setting(read_records(paths))
        lines = [head, "|---" * 7 + "|"]
        for one, other in (duel for duels in DUELS.values() for duel in duels):
            for solver in ("paper", "certified"):
                found = np.array([
                    paired(runs[one], runs[other])
                    for (_, _, _, by), runs in settings.items()
                    if by == solver and one in runs and other in runs
                ]).reshape(-1, 2)  # fmt: skip
                won, lost = (found[:, 0] > 2 * found[:, 1]), (found[:, 0] < -2 * found[:, 1])
                counts = (len(found), won.sum(), len(found) - won.sum() - lost.sum(), lost.sum())
                cells = [f"{heading(one)} over {heading(other)}", solver, *map(str, counts)]
                mean = f"{found[:, 0].mean():+.2f}" if len(found) else ""
                lines.append("| " + " | ".join([*cells, mean]) + " |")
        parts.append(f"**{title}: how often a claim holds**\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def read_records(paths: Iterable[Path]) -> list[Record]:
    """Read records that `Table.to_csv` wrote, each once though several tables hold it."""
    found: dict[tuple, Record] = {}
    for path in paths:
        with path.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                record = Record(
                    *(row["source"], row["target"], row["calibrated"] == "True"),
                    *(row["solver"], row["method"], int(row["seed"]), float(row["accuracy"])),
                )
                found[key_of(record)] = record
    return list(found.values())


def calibration_as_markdown(records: Sequence[Record]) -> str:
    """Show what BCTS adds to the accuracy of each method."""
    lines = [
        "| source -> target | solver | " + " | ".join(map(heading, CALIBRATION)) + " |",
        "|---" * (2 + len(CALIBRATION)) + "|",
    ]
    settings = by_setting(records)
    for (source, target, calibrated, solver), found in settings.items():
        plain = settings.get((source, target, False, solver))
        if calibrated and plain and "scm-l" in found:
            cells = [difference(found[method], plain[method]) for method in CALIBRATION]
            lines.append(f"| {source} -> {target} | {solver} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def solvers_as_markdown(records: Sequence[Record]) -> str:
    """Show by method what certified answers change: accuracy, error of the priors, gap in nats."""
    settings = by_setting(records)
    rows: dict[tuple[str, bool, str], list[tuple[Record, Record]]] = {}
    for (source, target, calibrated, solver), found in settings.items():
        if solver != "paper":
            continue
        certified = settings[source, target, calibrated, "certified"]
        for method, runs in found.items():
            if method in MAXIMISERS:
                pairs = zip(runs, certified[method], strict=True)
                rows.setdefault((f"{source} -> {target}", calibrated, method), []).extend(pairs)
    lines = [
        "| source -> target | BCTS | method | gap of the paper's solver, nats "
        "| accuracy, certified - paper | L1 error, paper | L1 error, certified |",
        "|---|---|---|---|---|---|---|",
    ]
    for (where, calibrated, method), pairs in rows.items():
        papers, ours = ([pair[side] for pair in pairs] for side in (0, 1))
        gap = np.mean([r.gap for r in papers])
        errors = (f"{np.mean([r.l1_error for r in side]):.3f}" for side in (papers, ours))
        cells = (where, "yes" if calibrated else "no", heading(method), f"{gap:.2g}")
        lines.append("| " + " | ".join([*cells, difference(ours, papers), *errors]) + " |")
    return "\n".join(lines)


def by_setting(records: Sequence[Record]) -> dict[tuple, dict[str, list[Record]]]:
    """Return the runs of each method, by setting."""
    found: dict[tuple, dict[str, list[Record]]] = {}
    for r in records:
        setting = found.setdefault((r.source, r.target, r.calibrated, r.solver), {})
        setting.setdefault(r.method, []).append(r)
    return found


def difference(ones: Sequence[Record], others: Sequence[Record]) -> str:
    """Show the mean of paired differences in accuracy, with its standard error."""
    mean, error = paired(ones, others)
    return f"{mean:+.2f} ± {error:.2f}"


def paired(ones: Sequence[Record], others: Sequence[Record]) -> tuple[float, float]:
    """Return the mean of paired differences in accuracy, and its standard error."""
    by_seed = {r.seed: r.accuracy for r in others}
    found = np.array([r.accuracy - by_seed[r.seed] for r in ones])
    error = found.std(ddof=1) / np.sqrt(found.size) if found.size > 1 else np.nan
    return float(found.mean()), float(error)


def key_of(record: Record) -> tuple:
    """Return what tells a record from others."""
    return (
        *(record.source, record.target, record.calibrated),
        *(record.solver, record.method, record.seed),
    )
