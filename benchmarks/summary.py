"""All tables of the reproduction side by side: a row per task, a column per way to run a method.

python -m benchmarks.summary reproduction

Reads the CSV files that `python -m benchmarks.reproduction --output reproduction` wrote, and prints
the tables of `docs/reproduction.md` as Markdown.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.claims import DUELS, by_network, by_setting, counted, difference, read_records
from priorshift.reproduction.tables import heading, markdown
from priorshift.reproduction.trials import COLUMNS, SOLVERS

ACCURACIES = {
    "Table 1": ("na", "labels", "predictions", "retrained"),
    "Tables 2 and 3": ("na", "em", "cm-l", "scm-l", "map", "scm-m", "oracle"),
    "Table 4": ("scm-l", "rlls", "bbse", "bbse-s"),
}
"""Methods whose accuracy is shown. Those that estimate nothing have one value for all columns."""

CALIBRATED = ("em", "map", "scm-l", "scm-m", "oracle")
"""Methods whose gain by BCTS is shown."""

SUPPLEMENT_DUELS = (("scm-l", "scm"), ("scm-l", "em"), ("scm-m", "map"))
"""What is compared on the supplement's targets."""

NAMES = [COLUMNS.get(solver, solver) for solver in SOLVERS]


def main() -> None:
    options = parse()
    paths = sorted(options.folder.glob("*-table?.csv"))
    settings = by_setting(read_records(paths))
    parts = [f"# {len(paths)} tables"]
    for title, methods in ACCURACIES.items():
        parts += [f"## Accuracy, {title}", accuracies(settings, methods)]
    for title, duels in DUELS.items():
        for duel in duels:
            parts += [f"## {title}: {heading(duel[0])} - {heading(duel[1])}"]
            parts += [differences(settings, duel)]
    for method in CALIBRATED:
        parts += [f"## 7. Gain by BCTS: {heading(method)}", gains(settings, method)]
    parts += ["## For how many networks a claim holds, is undecided, or is reversed"]
    parts += [verdicts(settings)]
    others = by_setting(read_records(sorted(options.folder.glob("*-supplement-methods.csv"))))
    for one, other in SUPPLEMENT_DUELS:
        parts += [f"## Targets of the supplement: {heading(one)} - {heading(other)}"]
        parts += [differences(others, (one, other))]
    print("\n\n".join(parts))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="what benchmarks.reproduction wrote")
    return parser.parse_args()


def places(settings: dict) -> Iterator[tuple[str, str, bool]]:
    """Yield source, target and calibration, each once."""
    yield from dict.fromkeys(key[:3] for key in settings)


def accuracies(settings: dict, methods: Sequence[str]) -> str:
    """Show mean accuracy, three numbers where the columns differ: text / released / certified."""
    rows = []
    for place in places(settings):
        found = [settings.get((*place, solver), {}) for solver in SOLVERS]
        cells = []
        for method in methods:
            means = [np.mean([r.accuracy for r in one[method]]) for one in found if method in one]
            shown = [f"{mean:.2f}" for mean in means]
            cells.append(shown[0] if len(set(shown)) == 1 else " / ".join(shown))
        if any(cells):
            rows.append([*named(place), *cells])
    return markdown(["source -> target", "BCTS", *map(heading, methods)], rows)


def differences(settings: dict, duel: tuple[str, str]) -> str:
    """Show paired differences with standard errors: over networks if there are several."""
    one, other = duel

    def cell(runs: dict) -> str:
        return difference(runs[one], runs[other]) if one in runs and other in runs else ""

    rows = []
    for source, target in tasks(settings):
        found = [settings.get((source, target, by, s), {}) for by in (False, True) for s in SOLVERS]
        cells = [cell(runs) for runs in found]
        if any(cells):
            networks = len({r.network for runs in found for r in runs.get(one, ())})
            rows.append([f"{source} -> {target}", str(networks), *cells])
    return markdown(["source -> target", "networks", *NAMES, *(f"BCTS, {n}" for n in NAMES)], rows)


def gains(settings: dict, method: str) -> str:
    """Show what each column's BCTS adds to a method."""
    rows = []
    for source, target in tasks(settings):
        pairs = [
            tuple(settings.get((source, target, by, solver), {}) for by in (True, False))
            for solver in SOLVERS
        ]
        if all(method in runs for pair in pairs for runs in pair):
            cells = [difference(after[method], before[method]) for after, before in pairs]
            rows.append([f"{source} -> {target}", *cells])
    return markdown(["source -> target", *NAMES], rows)


def verdicts(settings: dict) -> str:
    """Count networks by claim and column: holds, undecided, the other way, by two errors."""
    rows = []
    for one, other in (duel for duels in DUELS.values() for duel in duels):
        cells = []
        for calibrated in (False, True):
            for solver in SOLVERS:
                found = by_network(settings, one, other, calibrated, solver)
                cells.append(", ".join(counted(found)[1:4]) if len(found) else "")
        if any(cells):
            rows.append([f"{heading(one)} over {heading(other)}", *cells])
    return markdown(["claim", *NAMES, *(f"BCTS, {n}" for n in NAMES)], rows)


def tasks(settings: dict) -> Iterator[tuple[str, str]]:
    """Yield source and target, each once."""
    yield from dict.fromkeys(key[:2] for key in settings)


def named(place: tuple[str, str, bool]) -> list[str]:
    source, target, calibrated = place
    return [f"{source} -> {target}", "yes" if calibrated else "no"]


if __name__ == "__main__":
    main()
