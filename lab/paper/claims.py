"""The paper's claims as comparisons of methods, and all tables of the reproduction side by side.

    python -m lab summary reproduction

reads the CSV files that `python -m lab reproduction --output reproduction` wrote, and prints the
tables of `docs/reproduction.md`. Every network counts once: draws of its outputs are averaged
first, and BCTS on and off are two ways of treating one network. Where there are several networks of
one kind, standard errors are over networks, else over draws.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from lab.paper.tables import Record, ResultTable, by_setting, heading
from lab.paper.trials import COLUMNS, SOLVERS
from lab.show import markdown, mean_and_error, parse

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

SUPPLEMENT_DUELS = (("scm-l", "scm"), ("scm-l", "em"), ("scm-m", "map"))
"""What is compared on the supplement's targets."""

MAXIMISERS = ("em", "cm-l", "scm-l", "map", "scm-m")
"""Methods that maximise a likelihood, each column in its own way."""

CALIBRATION = ("em", "scm-l", "scm-m", "oracle")
"""Methods that calibration is judged by: claim 7."""

ACCURACIES = {
    "Table 1": ("na", "labels", "predictions", "retrained"),
    "Tables 2 and 3": ("na", "em", "cm-l", "scm-l", "map", "scm-m", "oracle"),
    "Table 4": ("scm-l", "rlls", "bbse", "bbse-s"),
}
"""Methods whose accuracy is shown. Those that estimate nothing have one value for all columns."""

NAMES = [COLUMNS.get(solver, solver) for solver in SOLVERS]
BOTH = [*NAMES, *(f"BCTS, {name}" for name in NAMES)]

Runs = Mapping[str, list[Record]]
Settings = dict[tuple[str, str, bool, str], dict[str, list[Record]]]
"""The runs of each method, by source, target, calibration and column."""


def read_records(paths: Iterable[Path]) -> list[Record]:
    """Read what `as_csv` wrote, each record once, though several tables hold it."""
    found = {}
    kinds = {"calibrated": "True".__eq__, "seed": int, "accuracy": float}
    kinds |= dict.fromkeys(("l1_error", "gap"), lambda cell: float(cell) if cell else None)
    for path in paths:
        with path.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                record = Record(**{key: kinds.get(key, str)(row[key]) for key in Record._fields})
                found[*record[:6], record.network] = record
    return list(found.values())


# Comparisons


def paired(ones: Sequence[Record], others: Sequence[Record]) -> dict[str, list[float]]:
    """Return the differences in accuracy draw by draw, for each network."""
    rivals = {(r.network, r.seed): r.accuracy for r in others}
    found: dict[str, list[float]] = {}
    for r in ones:
        found.setdefault(r.network, []).append(r.accuracy - rivals[r.network, r.seed])
    return found


def difference(ones: Sequence[Record], others: Sequence[Record]) -> str:
    """Show the mean of paired differences in accuracy, with its standard error.

    Over networks if there are several, else over the draws of the one.
    """
    networks = list(paired(ones, others).values())
    return mean_and_error([np.mean(one) for one in networks] if len(networks) > 1 else networks[0])


def duel(runs: Runs, one: str, other: str) -> str:
    """Show a difference, or nothing where one of the methods is missing."""
    return difference(runs[one], runs[other]) if one in runs and other in runs else ""


def said(one: str, other: str, word: str = "-") -> str:
    """Name a comparison."""
    return f"{heading(one)} {word} {heading(other)}"


def few_as_markdown(tables: Mapping[int, ResultTable]) -> str:
    """Show the duels of claim 4 by the number of samples and column."""
    rows = [
        [size, f"{source} -> {target}", COLUMNS.get(solver, solver)]
        + [duel(runs, *pair) for pair in FEW]
        for size, table in sorted(tables.items())
        for (source, target, _, solver), runs in by_setting(table.records).items()
    ]
    names = (said(*pair) for pair in FEW)
    return markdown(["samples", "source -> target", "column", *names], rows)


def solvers_as_markdown(settings: Settings) -> str:
    """Show by method what each column reaches: accuracy, error of the priors, gap in nats.

    Without BCTS, so that all columns estimate from the same outputs.
    """
    rows = []
    for source, target in tasks(settings):
        columns = [settings.get((source, target, False, solver), {}) for solver in SOLVERS]
        for method in MAXIMISERS:
            if all(method in runs for runs in columns):
                cells = [reached(runs[method]) for runs in columns]
                ours = columns[-1][method]
                behind = [difference(runs[method], ours) for runs in columns[:-1]]
                rows.append([f"{source} -> {target}", heading(method), *cells, *behind])
    header = ["source -> target", "method", *NAMES, *(f"{name} - certified" for name in NAMES[:-1])]
    return markdown(header, rows)


def reached(runs: Sequence[Record]) -> str:
    """Show means of accuracy, error of the priors and gap; gaps may have no bound."""
    gaps = [r.gap for r in runs if r.gap is not None]
    gap = f"{np.mean(gaps):.2g}" if len(gaps) == len(runs) else "no bound"
    errors = [r.l1_error for r in runs]
    return f"{np.mean([r.accuracy for r in runs]):.2f}, {np.mean(errors):.3f}, {gap}"


def claims(settings: Settings) -> Iterator[str]:
    """Yield all comparisons that some tables allow, each under its heading."""
    for title, duels in DUELS.items():
        for one, other in duels:
            if any(one in runs and other in runs for runs in settings.values()):
                yield f"## {title}: {said(one, other)}\n\n{differences(settings, one, other)}"
    yield f"## 7. Gain by BCTS\n\n{gains(settings)}"
    yield f"## How far each column goes: accuracy, L1, gap\n\n{solvers_as_markdown(settings)}"


# For how many networks a claim holds


def by_network(
    settings: Settings, one: str, other: str, calibrated: bool, solver: str
) -> np.ndarray:
    """Return mean and standard error over draws of a duel, a row per network and target."""
    found = []
    for key, runs in settings.items():
        if key[2:] == (calibrated, solver) and one in runs and other in runs:
            for draws in paired(runs[one], runs[other]).values():
                spread = np.std(draws, ddof=1) if len(draws) > 1 else np.nan
                found.append((np.mean(draws), spread / np.sqrt(len(draws))))
    return np.array(found).reshape(-1, 2)


def counted(found: np.ndarray) -> str:
    """Say how many rows are above 0, undecided and below, by two errors."""
    means, errors = found.T
    won, lost = (means > 2 * errors).sum(), (means < -2 * errors).sum()
    return f"{won}, {len(means) - won - lost}, {lost}"


# All tables side by side


def main(arguments: list[str] | None = None) -> None:
    """Print the tables of the documentation from a folder of results."""
    folder = Path(parse(__doc__, arguments, folder_of_results={}).folder_of_results)
    paths = sorted(folder.glob("*-table?.csv"))
    if not paths:
        raise ValueError(f"{folder} has no tables: `python -m lab reproduction` writes them.")
    settings = by_setting(read_records(paths))
    parts = [f"# {len(paths)} tables"]
    for title, methods in ACCURACIES.items():
        parts += [f"## Accuracy, {title}", accuracies(settings, methods)]
    parts += claims(settings)
    parts += ["## For how many networks a claim holds, is undecided, or is reversed"]
    parts += [networks_by_claim(settings)]
    others = by_setting(read_records(sorted(folder.glob("*-supplement-methods.csv"))))
    for one, other in SUPPLEMENT_DUELS:
        parts += [f"## Targets of the supplement: {said(one, other)}"]
        parts += [differences(others, one, other)]
    print("\n\n".join(parts))


def tasks(settings: Settings) -> list[tuple[str, str]]:
    """Return source and target, each once."""
    return list(dict.fromkeys(key[:2] for key in settings))


def accuracies(settings: Settings, methods: Sequence[str]) -> str:
    """Show mean accuracy, three numbers where the columns differ: text / released / certified."""
    rows = []
    for source, target, calibrated in dict.fromkeys(key[:3] for key in settings):
        columns = [settings.get((source, target, calibrated, solver), {}) for solver in SOLVERS]
        cells = []
        for method in methods:
            found = (runs[method] for runs in columns if method in runs)
            shown = [f"{np.mean([r.accuracy for r in runs]):.2f}" for runs in found]
            cells.append(shown[0] if len(set(shown)) == 1 else " / ".join(shown))
        if any(cells):
            rows.append([f"{source} -> {target}", "yes" if calibrated else "no", *cells])
    return markdown(["source -> target", "BCTS", *map(heading, methods)], rows)


def differences(settings: Settings, one: str, other: str) -> str:
    """Show paired differences with standard errors: over networks if there are several."""
    rows = []
    for source, target in tasks(settings):
        found = [settings.get((source, target, by, s), {}) for by in (False, True) for s in SOLVERS]
        cells = [duel(runs, one, other) for runs in found]
        if any(cells):
            networks = len({r.network for runs in found for r in runs.get(one, ())})
            rows.append([f"{source} -> {target}", networks, *cells])
    return markdown(["source -> target", "networks", *BOTH], rows)


def gains(settings: Settings) -> str:
    """Show what each column's BCTS adds to a method."""
    rows = []
    for source, target in tasks(settings):
        pairs = [
            tuple(settings.get((source, target, by, solver), {}) for by in (True, False))
            for solver in SOLVERS
        ]
        for method in CALIBRATION:
            if all(method in runs for pair in pairs for runs in pair):
                cells = [difference(after[method], before[method]) for after, before in pairs]
                rows.append([f"{source} -> {target}", heading(method), *cells])
    return markdown(["source -> target", "method", *NAMES], rows)


def networks_by_claim(settings: Settings) -> str:
    """Say for how many networks each claim holds, is undecided, or is reversed, by column."""
    rows = []
    for one, other in (pair for duels in DUELS.values() for pair in duels):
        found = [by_network(settings, one, other, by, s) for by in (False, True) for s in SOLVERS]
        cells = [counted(each) if len(each) else "" for each in found]
        if any(cells):
            rows.append([said(one, other, "over"), *cells])
    return markdown(["claim", *BOTH], rows)
