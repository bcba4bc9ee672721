"""The paper's claims as comparisons of methods, from the records of its tables, column by column.

Every network counts once: draws of its outputs are averaged first, and BCTS on and off are two
ways of treating one network. Where there are several networks of one kind, standard errors are over
networks, else over draws.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from priorshift.reproduction import Record, ResultTable
from priorshift.reproduction.tables import heading, markdown
from priorshift.reproduction.trials import COLUMNS, SOLVERS

DUELS = {
    "1. Adapting beats re-training": (("predictions", "retrained"), ("predictions", "labels")),
    "2. Maximum likelihood repairs the inversion": (
        *(("cm-l", "cm"), ("scm-l", "scm")),
        *(("cm-l", "na"), ("scm-l", "na")),
    ),
    "3. SCM-L is the best maximum likelihood": (("scm-l", "em"), ("scm-l", "cm-l")),
    "5. SCM-M beats MAP": (("scm-m", "map"),),
    "6. Priors rather than ratios": (("scm-l", "bbse"), ("scm-l", "bbse-s"), ("scm-l", "rlls")),
}
"""Claims of the paper's conclusions that say one method beats another, or that it helps at all."""

FEW = (("em", "scm-l"), ("em", "na"), ("scm-l", "na"))
"""Claim 4, by the number of samples: EM for few, nothing for very few."""

MAXIMISERS = ("em", "cm-l", "scm-l", "map", "cm-m", "scm-m")
"""Methods that maximise a likelihood, each column in its own way."""

CALIBRATION = ("em", "map", "scm-l", "scm-m", "oracle")
"""Methods that calibration is judged by: claim 7."""

Settings = dict[tuple[str, str, bool, str], dict[str, list[Record]]]


def duels_as_markdown(records: Sequence[Record], duels: Sequence[tuple[str, str]]) -> str:
    """Show mean paired differences in accuracy, with their standard errors, by setting."""
    rows = []
    for (source, target, calibrated, solver), found in by_setting(records).items():
        fought = [one in found and other in found for one, other in duels]
        if any(fought):
            networks = len({r.network for r in found[duels[fought.index(True)][0]]})
            cells = [difference(found[one], found[other]) if both else ""
                     for (one, other), both in zip(duels, fought, strict=True)]  # fmt: skip
            rows.append([*place(source, target, calibrated, solver), str(networks), *cells])
    names = [f"{heading(one)} - {heading(other)}" for one, other in duels]
    return markdown(["source -> target", "BCTS", "column", "networks", *names], rows)


def few_as_markdown(tables: Mapping[int, ResultTable]) -> str:
    """Show the duels of claim 4 by the number of samples and column."""
    rows = []
    for size, table in sorted(tables.items()):
        for (source, target, _, solver), found in by_setting(table.records).items():
            cells = [difference(found[one], found[other]) for one, other in FEW]
            rows.append([str(size), f"{source} -> {target}", COLUMNS.get(solver, solver), *cells])
    names = [f"{heading(one)} - {heading(other)}" for one, other in FEW]
    return markdown(["samples", "source -> target", "column", *names], rows)


def verdicts_as_markdown(folder: Path) -> str:
    """Count over all tables in the folder for how many networks a claim holds.

    It holds where the mean over a network's draws is beyond two standard errors. A network counts
    once per target, with and without BCTS apart; the targets of the supplement count apart, too.
    """
    head = ["claim", "column", "BCTS", "networks", "holds", "undecided", "the other way",
            "mean difference"]  # fmt: skip
    parts = []
    for title, wanted in {"Tables": False, "Supplement": True}.items():
        paths = [p for p in sorted(folder.glob("*.csv")) if _is_table(p, wanted)]
        settings = by_setting(read_records(paths))
        rows = []
        for one, other in (duel for duels in DUELS.values() for duel in duels):
            for calibrated in (False, True):
                for solver in SOLVERS:
                    found = by_network(settings, one, other, calibrated, solver)
                    if len(found):
                        duel = f"{heading(one)} over {heading(other)}"
                        by = COLUMNS.get(solver, solver)
                        rows.append([duel, by, "yes" if calibrated else "no", *counted(found)])
        parts.append(f"**{title}: for how many networks a claim holds**\n\n{markdown(head, rows)}")
    return "\n\n".join(parts)


def _is_table(path: Path, supplement: bool) -> bool:
    """Tell whether a file holds records of the tables, or of those of the supplement."""
    key = path.stem.rpartition("-")[2]
    return (key.startswith("table") or key == "methods") and (
        "supplement" in path.stem
    ) == supplement


def by_network(
    settings: Settings, one: str, other: str, calibrated: bool, solver: str
) -> np.ndarray:
    """Return mean and standard error over draws of a duel, a row per network and target."""
    found = []
    for (_, _, by_bcts, by), runs in settings.items():
        if (by_bcts, by) == (calibrated, solver) and one in runs and other in runs:
            networks = paired(runs[one], runs[other]).values()
            found += [(np.mean(draws), standard_error(draws)) for draws in networks]
    return np.array(found).reshape(-1, 2)


def counted(found: np.ndarray) -> list[str]:
    """Say how many rows are above 0, undecided and below, and their mean."""
    means, errors = found.T
    won, lost = (means > 2 * errors).sum(), (means < -2 * errors).sum()
    counts = (len(means), won, len(means) - won - lost, lost)
    return [*map(str, counts), f"{means.mean():+.2f}"]


def read_records(paths: Iterable[Path]) -> list[Record]:
    """Read records that `ResultTable.to_csv` wrote, each once though several tables hold it."""
    found: dict[tuple, Record] = {}
    for path in paths:
        with path.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                record = Record(
                    *(row["source"], row["target"], row["calibrated"] == "True"),
                    *(row["solver"], row["method"], int(row["seed"]), float(row["accuracy"])),
                    network=row["network"],
                )
                found[key_of(record)] = record
    return list(found.values())


def calibration_as_markdown(records: Sequence[Record]) -> str:
    """Show what the BCTS of each column adds to the accuracy of each method."""
    settings, rows = by_setting(records), []
    for (source, target, calibrated, solver), found in settings.items():
        plain = settings.get((source, target, False, solver))
        if calibrated and plain and "scm-l" in found:
            cells = [difference(found[method], plain[method]) for method in CALIBRATION]
            rows.append([f"{source} -> {target}", COLUMNS.get(solver, solver), *cells])
    return markdown(["source -> target", "column", *map(heading, CALIBRATION)], rows)


def solvers_as_markdown(records: Sequence[Record]) -> str:
    """Show by method what each column reaches: accuracy, error of the priors, gap in nats.

    Without BCTS, so that all columns estimate from the same outputs.
    """
    settings, rows = by_setting(records), []
    for source, target in dict.fromkeys((r.source, r.target) for r in records):
        columns = [settings.get((source, target, False, solver), {}) for solver in SOLVERS]
        for method in MAXIMISERS:
            if all(method in found for found in columns):
                cells = [reached(found[method]) for found in columns]
                ours = columns[-1][method]
                behind = [difference(found[method], ours) for found in columns[:-1]]
                rows.append([f"{source} -> {target}", heading(method), *cells, *behind])
    names = [COLUMNS.get(solver, solver) for solver in SOLVERS]
    head = ["source -> target", "method", *(f"{n}: accuracy, L1, gap" for n in names)]
    return markdown([*head, *(f"{n} - certified" for n in names[:-1])], rows)


def reached(runs: Sequence[Record]) -> str:
    """Show means of accuracy, error of the priors and gap; gaps may have no bound."""
    gaps = [r.gap for r in runs if r.gap is not None]
    gap = f"{np.mean(gaps):.2g}" if len(gaps) == len(runs) else "no bound"
    errors = [r.l1_error for r in runs]
    return f"{np.mean([r.accuracy for r in runs]):.2f}, {np.mean(errors):.3f}, {gap}"


def by_setting(records: Iterable[Record]) -> Settings:
    """Return the runs of each method, by setting."""
    found: Settings = {}
    for r in records:
        setting = found.setdefault((r.source, r.target, r.calibrated, r.solver), {})
        setting.setdefault(r.method, []).append(r)
    return found


def place(source: str, target: str, calibrated: bool, solver: str) -> list[str]:
    """Return the cells that say where a row belongs."""
    return [f"{source} -> {target}", "yes" if calibrated else "no", COLUMNS.get(solver, solver)]


def difference(ones: Sequence[Record], others: Sequence[Record]) -> str:
    """Show the mean of paired differences in accuracy, with its standard error.

    Over networks if there are several, else over the draws of the one.
    """
    networks = list(paired(ones, others).values())
    found = [np.mean(one) for one in networks] if len(networks) > 1 else networks[0]
    return f"{np.mean(found):+.2f} ± {standard_error(found):.2f}"


def paired(ones: Sequence[Record], others: Sequence[Record]) -> dict[str, list[float]]:
    """Return the differences in accuracy draw by draw, for each network."""
    rivals = {(r.network, r.seed): r.accuracy for r in others}
    found: dict[str, list[float]] = {}
    for r in ones:
        found.setdefault(r.network, []).append(r.accuracy - rivals[r.network, r.seed])
    return found


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of a mean; none can be told from one value."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


def key_of(record: Record) -> tuple:
    """Return what tells a record from others."""
    return (
        *(record.source, record.target, record.calibrated, record.network),
        *(record.solver, record.method, record.seed),
    )
