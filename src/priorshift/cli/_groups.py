"""priorshift groups."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from priorshift._typing import Labels
from priorshift.assessment import Assessment
from priorshift.border import draw_rows
from priorshift.cli import _options as options
from priorshift.cli._adapt import write_copy
from priorshift.cli._console import busy, hand_out, note, say, show_table
from priorshift.cli._data import CONFIDENCE_LEVEL, Data, open_data, read_group_column
from priorshift.cli._errors import command
from priorshift.evidence import ungated
from priorshift.files import Partial, atomic_file
from priorshift.groups import GroupEstimates, estimate_groups, pooling_in_words, wide_columns
from priorshift.text import at_level, movers, percent
from priorshift.verdict import Verdict

SHOWN_GROUPS = 25
"""Groups a terminal shows; beyond that the ones that moved most."""

SHOWN_CLASSES = 6
"""Classes a terminal shows of each group: those that move most between groups."""

Verdicts = list[Verdict | None]
"""Of each group; None where there is none."""


def _show(
    found: GroupEstimates, whole: Assessment | None, verdicts: Verdicts, group_column: str
) -> None:
    """Print one line per group: those that moved most where there are many."""
    order, title = np.arange(len(found)), f"Priors by {found.method}, by {group_column}"
    if order.size > SHOWN_GROUPS:
        order = movers(found.distance, SHOWN_GROUPS)
        title += f": the {SHOWN_GROUPS} of {len(found)} groups that moved most"
    spread = np.abs(found.priors - found.pooled.priors).mean(axis=0)
    most = np.sort(movers(spread, SHOWN_CLASSES))
    if most.size < found.classes.size:
        title += f", and the {SHOWN_CLASSES} classes that vary most"
    rows = []
    for g in order:
        shares = [percent(share) for share in found.priors[g, most]]
        if found.interval is not None:
            bounds = (" to ".join(map(percent, each)) for each in found.interval[g, most])
            shares = [f"{share} ({each})" for share, each in zip(shares, bounds, strict=True)]
        moved = f"{found.weight[g]:.2f}", percent(found.distance[g])
        rows.append([str(found.groups[g]), str(found.n[g]), verdicts[g] or "-", *moved, *shares])
    for name, n, priors in (
        ("(pooled)", str(found.n.sum()), found.pooled.priors),
        ("(source)", "", found.source_priors),
    ):
        rows.append([name, n, "", "", "", *map(percent, priors[most])])
    header = [group_column, "rows", "verdict", "weight", "moved", *map(str, found.classes[most])]
    show_table(title, header, rows)
    if whole is not None:
        say(f"All groups together: {whole.sentence}")
    note(
        "verdict: whether to adapt the group to its own priors; weight: how far it keeps its own "
        "estimate; moved: distance from the pooled priors."
    )
    if found.interval is not None and found.confidence_level is not None:
        note(f"In parentheses: {at_level(found.confidence_level)}s.")
    note(f"{pooling_in_words(found.pooling).capitalize()}.")


def _as_dict(found: GroupEstimates, verdicts: Verdicts, group_column: str) -> dict[str, Any]:
    """Return plain values for JSON."""
    names, entries = found.classes.tolist(), []
    for g, verdict in enumerate(verdicts):
        entry = {
            "group": str(found.groups[g]),
            "n": int(found.n[g]),
            "verdict": verdict,
            "weight": float(found.weight[g]),
            "status": str(found.status[g]),
            "gap": None if np.isinf(found.gap[g]) else float(found.gap[g]),
            "priors": dict(zip(names, found.priors[g].tolist(), strict=True)),
        }
        if found.interval is not None:
            entry["interval"] = dict(zip(names, found.interval[g].tolist(), strict=True))
        entries.append(entry)
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


@command("groups validation.csv target.csv --group-column part")
@options.data_options(validation="EM and MAP can do without.")
@click.option(
    "--group-column",
    required=True,
    metavar="NAME",
    help="Column, or array of an npz, with the group of each target row.",
)
@options.method_option(lambda traits: traits.target_labels != "required")
@options.pooling_option
@options.confidence_option
@click.option(
    "--adapt",
    "adapted",
    type=options.OutputPath(),
    help="Also write the target with each row adapted to its group, in the target's format.",
)
@options.overwrite_option
@options.answer_options
def groups(
    group_column: str,
    method: str,
    pooling: Any,
    confidence_level: float | None,
    adapted: Path | None,
    overwrite: bool,
    output: Path | None,
    as_json: bool,
    **named: Any,
) -> None:
    """Estimate the class priors of each group of target rows; small groups are pooled."""
    request = options.request_of(**named, not_classes=(group_column,))
    if adapted is not None:
        options.check_copy(request, adapted, "--adapt", overwrite=overwrite)
    data = open_data(request)
    labels = read_group_column(data.target, group_column, "--group-column")
    with busy(f"Estimating by {method}"):
        estimator = data.fit(method)
        # counts are taken of large files block by block
        rows = data.rows if estimator.counts_suffice else replace(data, in_memory=True).rows
        estimate = partial(estimate_groups, estimator, rows, labels, pooling=pooling)
        found = estimate(confidence_level=confidence_level)
    with busy("Assessing"):
        whole = data.assess(estimator)
        verdicts = _judge(data, found, labels, whole, estimate)
    if adapted is not None:
        with atomic_file(adapted) as stream:
            to = Partial(stream)
            n_rows, n_changed = write_copy(data, to, found.adapt, {}, groups=labels)
    contents = _as_dict(found, verdicts, group_column)
    if adapted is not None:
        contents |= {"adapted": str(adapted), "n_rows": n_rows, "n_changed": n_changed}
    columns = wide_columns(found) | {"verdict": [verdict or "" for verdict in verdicts]}
    columns["gap"] = ["" if np.isinf(gap) else gap for gap in columns["gap"]]
    show = partial(_show, found, whole, verdicts, group_column)
    hand_out(contents, columns, show, output, as_json, whole, data.target)
    if adapted is not None:
        note(f"Wrote {adapted}: {n_changed:,} of {n_rows:,} decisions changed.")
        if others := sum(one in ("leave", "unclear") for one in verdicts):
            note(
                f"Each group is adapted to its own priors, also {others} not judged to gain by it."
            )


def _judge(
    data: Data,
    found: GroupEstimates,
    labels: Labels,
    whole: Assessment | None,
    estimate: Callable[..., GroupEstimates],
) -> Verdicts:
    """Return what to do about each group; those that moved most come first."""
    verdicts = data.verdicts()
    if whole is None or verdicts is None:
        return [None] * len(found)
    if len(found) == 1:
        return [whole.verdict]
    decided = found.whole.decision
    if decided is not None and decided["unknown_classes"]:
        return ["unclear"] * len(found)
    if found.interval is None:
        with suppress(ValueError):  # standard errors, where the method has any
            found = estimate(confidence_level=CONFIDENCE_LEVEL)
    index, y = draw_rows(labels.size, found.classes.size), data.target_labels
    y_proba = data.rows.take(index)
    codes = np.unique(labels, return_inverse=True)[1][index]
    by_group = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[by_group], np.arange(len(found) + 1))
    said: Verdicts = [None] * len(found)
    for g in movers(found.distance).tolist():
        at = by_group[ends[g] : ends[g + 1]]
        # what a method decided is about all rows
        of_group = ungated(replace(found[found.groups[g]], decision=None))
        said[g] = verdicts.on(of_group, y_proba.take(at), None if y is None else y[index[at]])
    if not all(said):
        note(
            f"{sum(one is not None for one in said)} of {len(found)} groups have a verdict, those "
            "that moved most: more would take too long."
        )
    return said
