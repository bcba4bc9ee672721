"""Groups as columns of frames, as text and as HTML."""

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from priorshift.groups._result import GroupEstimates

MAX_ROWS = 10
"""Groups shown by a repr; beyond that those that moved most."""

HEADER = ("group", "rows", "weight", "moved", "most")


def long_columns(found: "GroupEstimates") -> dict[str, Any]:
    """Return one entry a group and class in every column."""
    G, K = found.priors.shape
    columns: dict[str, Any] = {
        "group": np.repeat(found.groups, K),
        "class": np.tile(found.classes, G),
        "n": np.repeat(found.n, K),
        "weight": np.repeat(found.weight, K),
        "source_prior": np.tile(found.source_priors, G),
        "prior": found.priors.ravel(),
        "ratio": found.ratio.ravel(),
    }
    if found.interval is not None:
        lower, upper = found.interval[..., 0], found.interval[..., 1]
        columns |= {"lower": lower.ravel(), "upper": upper.ravel()}
    return columns


def wide_columns(found: "GroupEstimates") -> dict[str, Any]:
    """Return one entry a group in every column, a column `prior:NAME` a class."""
    columns: dict[str, Any] = {
        "group": found.groups,
        "n": found.n,
        "weight": found.weight,
        "distance": found.distance,
        "status": found.status,
        "gap": found.gap,
    }
    parts = {"prior": found.priors}
    if found.interval is not None:
        parts |= {"lower": found.interval[..., 0], "upper": found.interval[..., 1]}
    for what, values in parts.items():
        names = (f"{what}:{name}" for name in found.classes.tolist())
        columns |= dict(zip(names, values.T, strict=True))
    return columns


def as_text(found: "GroupEstimates") -> str:
    """Show the groups that moved, and how far groups were pooled."""
    rows = [HEADER, *_rows(found)]
    width = max(len(row[0]) for row in rows)
    lines = [f"  {name:<{width}}  {n:>8}  {w:>6}  {d:>6}  {most}" for name, n, w, d, most in rows]
    return "\n".join([_head(found), *lines, *(f"  {note}" for note in _notes(found))])


def as_html(found: "GroupEstimates") -> str:
    """Show the same in a notebook."""
    head = "".join(f"<th>{name}</th>" for name in HEADER)
    cells = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in _rows(found)
    )
    notes = "".join(f"<p>{escape(note)}</p>" for note in _notes(found))
    return (
        f"<div><strong>{escape(_head(found))}</strong><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{cells}</tbody></table>{notes}</div>"
    )


def _head(found: "GroupEstimates") -> str:
    return (
        f"GroupEstimates(method={found.method!r}, n_groups={len(found)}, "
        f"n_classes={found.classes.size}, n_target={int(found.n.sum())})"
    )


def _rows(found: "GroupEstimates") -> list[tuple[str, str, str, str, str]]:
    away = found.priors - found.pooled.priors
    shown = found.movers() if len(found) > MAX_ROWS else np.arange(len(found))
    farthest = np.abs(away).argmax(axis=1)
    return [
        (
            str(found.groups[g]),
            str(found.n[g]),
            f"{found.weight[g]:.2f}",
            f"{found.distance[g]:.3f}",
            f"{found.classes[farthest[g]]} {100 * away[g, farthest[g]]:+.1f}",
        )
        for g in shown
    ]


def _notes(found: "GroupEstimates") -> list[str]:
    notes = [f"{pooling_in_words(found.pooling)}; moved: total variation from the pooled priors"]
    if len(found) > MAX_ROWS:
        notes.insert(0, f"... the {MAX_ROWS} of {len(found)} groups that moved most")
    kinds, counts = np.unique(found.status, return_counts=True)
    said = ", ".join(f"{n} {kind}" for kind, n in zip(kinds.tolist(), counts, strict=True))
    return [*notes, f"{said}; source priors: {found.pooled.source_priors_from}"]


def pooling_in_words(pooling: float) -> str:
    """Say how far groups were pooled."""
    if pooling == 0:
        return "not pooled"
    if np.isinf(pooling):
        return "pooled completely: groups do not differ beyond noise"
    rows = f"{pooling:,.0f}" if pooling >= 100 else f"{pooling:.3g}"
    return f"pooled as if {rows} more rows of every group followed the pooled priors"
