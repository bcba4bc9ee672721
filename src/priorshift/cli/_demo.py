"""priorshift demo."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from priorshift._typing import Floats, Labels, Vector
from priorshift.assessment import Assessment, assess
from priorshift.cli._console import busy, document, emit, note, say, show_comparison, tell
from priorshift.cli._errors import command
from priorshift.cli._options import json_option, output_option
from priorshift.compare import Comparison, compare
from priorshift.datasets import load_fashion_lt
from priorshift.files import write_text
from priorshift.report import require_packages
from priorshift.text import csv_table, movers, short_percent, shorten

FILES = ("validation.csv", "target.csv", "source_priors.csv")
TITLE = "Fashion-MNIST: trained on summer's clothes, used in winter"


SHOWN = {"auto": "a", "em": "e", "scm-l": "s"}
"""Methods of the picture, and their marks."""


@command("demo --output demo.html --save-data .")
@click.option("--all", "every", is_flag=True, help="Compare all methods, and score them by labels.")
@output_option("Write the HTML report to this file.", ".html", ".htm")
@click.option(
    "--save-data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the data in this folder as validation.csv, target.csv and source_priors.csv, for "
    "the examples of the other commands.",
)
@json_option
def demo(every: bool, output: Path | None, save_data: Path | None, as_json: bool) -> None:
    """Show what adapting does, on outputs of a real classifier that come with priorshift."""
    if output is not None:
        require_packages()
    data = load_fashion_lt()
    rows = (data.y_proba_val, data.y_val, data.y_proba_target)
    known: dict[str, Any] = {"classes": data.classes, "source_priors": data.source_priors}
    with busy("Assessing"):
        found = assess(*rows, **known)
    with busy("Comparing methods"):
        methods = None if every else ["na", *SHOWN]
        comparison = compare(*rows, data.y_target, methods=methods, **known)
    if as_json:
        emit(document("demo", found.verdict, **comparison.to_dict()))
    else:
        _tell_story(found, comparison)
        if every:
            show_comparison(comparison, "All methods")
        else:
            tell("All methods: priorshift demo --all")
    if save_data is not None:
        save_data.mkdir(parents=True, exist_ok=True)
        _write_data(save_data, data)
        note("Wrote " + ", ".join(str(save_data / name) for name in FILES) + ".")
    if output is not None:
        given = dict(zip(("y_proba_val", "y_val", "y_proba_target"), rows, strict=True))
        about = {"title": TITLE, "command": "priorshift demo", "comparison": comparison}
        with busy("Writing the report"):
            found.report(output, **given, y_target=data.y_target, **about)
        note(f"Wrote {output}.")


def _tell_story(found: Assessment, comparison: Comparison) -> None:
    """Print the verdict, what labels say of it, and what three methods say of the shares."""
    tell(TITLE)
    say(found.sentence)
    scores = {r.method: r.scores.accuracy for r in comparison.results if r.scores is not None}
    tell(
        f"The target's labels, which were kept aside, say {scores['na']:.1%} before adapting and "
        f"{scores['auto']:.1%} after."
    )
    shares = {method: comparison.estimates[method].priors for method in SHOWN}
    before = comparison.estimates["auto"].source_priors
    truth = before if comparison.truth is None else comparison.truth
    for line in draw_shares(comparison.classes, before, shares, truth):
        tell(line)
    names = ", ".join(f"{mark} {method}" for method, mark in SHOWN.items())
    tell(f"Class shares: o before; now by {names} (* where they meet); | the truth.")


def draw_shares(
    classes: Labels, before: Vector, shares: Mapping[str, Vector], truth: Vector, width: int = 51
) -> list[str]:
    """Draw each class as a line with the share before, that by each method, and the truth.

    The scale ends at the next ten per cent; the classes that moved most come first.
    """
    largest = max(float(one.max()) for one in (before, truth, *shares.values()))
    scale = np.ceil(10 * largest) / 10
    lines = []
    for k in movers(truth - before):
        cells = ["\u00b7"] * width
        marks = [("o", before[k]), ("|", truth[k])]
        marks += [(SHOWN[method], priors[k]) for method, priors in shares.items()]
        for mark, share in marks:
            at = round(share / scale * (width - 1))
            cells[at] = mark if cells[at] in "\u00b7|o" else "*"
        numbers = f"{short_percent(before[k]):>5} \u2192 {short_percent(truth[k]):>4}"
        lines.append(f"{shorten(classes[k], 12):<12} {''.join(cells)} {numbers}")
    return [*lines, f"{'':<12} 0{f'{scale:.0%}':>{width - 1}}  before, truth"]


def _write_data(folder: Path, data: Any) -> None:
    """Write the bundled data as tables, with labels in the target too."""
    names, n = data.classes.tolist(), data.y_target.size
    parts = [f"part {1 + 4 * row // n}" for row in range(n)]
    validation = zip(data.y_val.tolist(), *_in_text(data.y_proba_val), strict=True)
    target = zip(data.y_target.tolist(), parts, *_in_text(data.y_proba_target), strict=True)
    priors = zip(names, data.source_priors.tolist(), strict=True)
    tables = (
        csv_table(("label", *names), validation),
        csv_table(("label", "part", *names), target),
        csv_table(("class", "source_priors"), priors),
    )
    for name, table in zip(FILES, tables, strict=True):
        write_text(folder / name, table)


def _in_text(y_proba: Floats) -> list[list[str]]:
    """Return the columns, as text."""
    return [[f"{p:.8g}" for p in column] for column in y_proba.T.tolist()]
