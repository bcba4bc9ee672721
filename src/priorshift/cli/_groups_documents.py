"""What groups hands out: a table for a person, a line of CSV a group, and plain values for JSON."""

from typing import Any

import numpy as np

from priorshift.cli._console import note, show_table
from priorshift.groups import GroupEstimates, pooling_in_words, wide_columns
from priorshift.text import csv_table, movers

SHOWN_GROUPS = 25
"""Groups a terminal shows; beyond that the ones that moved most."""

SHOWN_CLASSES = 6
"""Classes a terminal shows of each group: those that move most between groups."""


def show_groups(found: GroupEstimates, group_column: str) -> None:
    """Print one line a group: those that moved most where there are many."""
    order = np.arange(len(found))
    title = f"Priors in % by {found.method}, by {group_column}"
    if order.size > SHOWN_GROUPS:
        order = found.movers(SHOWN_GROUPS)
        title += f": the {SHOWN_GROUPS} of {len(found)} groups that moved most"
    spread = np.abs(found.priors - found.pooled.priors).mean(axis=0)
    most = np.sort(movers(spread, SHOWN_CLASSES))
    if most.size < found.classes.size:
        title += f", and the {SHOWN_CLASSES} classes that vary most"
    header = (group_column, "rows", "weight", "moved", *(str(found.classes[k]) for k in most))
    rows = [
        (
            str(found.groups[g]),
            str(found.n[g]),
            f"{found.weight[g]:.2f}",
            f"{100 * found.distance[g]:.1f}",
            *(f"{100 * found.priors[g, k]:.1f}" for k in most),
        )
        for g in order
    ]
    pooled = ("(pooled)", str(found.n.sum()), "", "", *_percents(found.pooled.priors[most]))
    source = ("(source)", "", "", "", *_percents(found.source_priors[most]))
    show_table(title, header, [*rows, pooled, source])
    note(f"{pooling_in_words(found.pooling).capitalize()}.")
    statuses, counts = np.unique(found.status, return_counts=True)
    parts = (f"{n} {status}" for status, n in zip(statuses.tolist(), counts, strict=True))
    note(f"{', '.join(parts)}; source priors: {found.pooled.source_priors_from}.")


def groups_as_csv(found: GroupEstimates) -> str:
    """Return one line a group."""
    columns = wide_columns(found)
    rows = list(zip(*(column.tolist() for column in columns.values()), strict=True))
    blank = [tuple("" if cell == np.inf else cell for cell in row) for row in rows]  # no bound
    return csv_table(tuple(columns), blank)


def groups_as_dict(found: GroupEstimates, group_column: str) -> dict[str, Any]:
    """Return plain values for JSON."""
    names = found.classes.tolist()
    gaps = [None if np.isinf(gap) else gap for gap in found.gap.tolist()]
    columns: dict[str, Any] = {
        "group": found.groups.astype(str),
        "n": found.n,
        "weight": found.weight,
        "status": found.status,
        "gap": gaps,
        "priors": [dict(zip(names, row, strict=True)) for row in found.priors.tolist()],
    }
    if found.interval is not None:
        bounds = found.interval.tolist()
        columns["interval"] = [dict(zip(names, row, strict=True)) for row in bounds]
    lists = [np.asarray(c).tolist() if isinstance(c, np.ndarray) else c for c in columns.values()]
    entries = [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]
    return {
        "method": found.method,
        "group_column": group_column,
        "classes": names,
        "pooling": None if np.isinf(found.pooling) else found.pooling,
        "confidence_level": found.confidence_level,
        "whole": found.whole.to_dict(),
        "pooled": dict(zip(names, found.pooled.priors.tolist(), strict=True)),
        "groups": entries,
    }


def _percents(values: Any) -> list[str]:
    return [f"{100 * value:.1f}" for value in values.tolist()]
