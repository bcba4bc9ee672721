"""priorshift demo."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import numpy as np

from priorshift._typing import Floats, Labels
from priorshift.cli._compare import compare_on
from priorshift.cli._console import emit, note
from priorshift.cli._documents import document, show_comparison, show_verdict, verdict_of
from priorshift.cli._errors import command
from priorshift.cli._options import DEFAULT_METHOD, Request, html_option, json_option
from priorshift.cli._report import report_on
from priorshift.cli._task import open_task
from priorshift.datasets import load_fashion_lt
from priorshift.files import write_text
from priorshift.report import require_packages
from priorshift.text import csv_table

FILES = ("validation.csv", "target.csv", "source_priors.csv")
TITLE = "Fashion-MNIST: trained on summer's clothes, used in winter"


@command(
    "demo --output demo.html --save-data .",
    "Compare all methods on data that come with priorshift.",
)
@html_option("Write the HTML report to this file.")
@click.option(
    "--save-data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the data in this folder as validation.csv, target.csv and source_priors.csv, for "
    "the examples of the other commands.",
)
@json_option
def demo(output: Path | None, save_data: Path | None, as_json: bool) -> None:
    """Compare all methods on outputs of a real classifier that come with priorshift."""
    if output is not None:
        require_packages()
    with _folder(save_data) as folder:
        request = write_data(folder)
        with open_task(request) as task:
            comparison = compare_on(task)
            found = task.assess(DEFAULT_METHOD, labels=False)  # as you would have it
            if output is not None:
                report_on(
                    task,
                    DEFAULT_METHOD,
                    output,
                    found=found,
                    command="priorshift demo",
                    title=TITLE,
                    comparison=comparison,
                )
    if as_json:
        emit(document("demo", verdict_of(found), **comparison.to_dict()))
    else:
        show_comparison(comparison, TITLE)
        show_verdict(found)
    if save_data is not None:
        note("Wrote " + ", ".join(str(save_data / name) for name in FILES) + ".")
    if output is not None:
        note(f"Wrote {output}.")


def write_data(folder: Path) -> Request:
    """Write the bundled data as tables, with labels in the target too; say where they are."""
    data = load_fashion_lt()
    validation, target, source_priors = (folder / name for name in FILES)
    _write_table(validation, data.classes, data.y_proba_val, data.y_val)
    quarter = 1 + 4 * np.arange(data.y_target.size) // data.y_target.size
    _write_table(
        target,
        data.classes,
        data.y_proba_target,
        data.y_target,
        part=[f"part {number}" for number in quarter],
    )
    rows = list(zip(data.classes.tolist(), data.source_priors.tolist(), strict=True))
    write_text(source_priors, csv_table(("class", "source_priors"), rows))
    return Request(target, validation, source_priors=str(source_priors))


def _write_table(
    path: Path, classes: Labels, y_proba: Floats, y: Labels, **more: list[str]
) -> None:
    """Write labels, further columns, and probabilities."""
    rows = [
        (*first, *(f"{p:.8g}" for p in row))
        for first, row in zip(
            zip(y.tolist(), *more.values(), strict=True), y_proba.tolist(), strict=True
        )
    ]
    write_text(path, csv_table(("label", *more, *classes.tolist()), rows))


@contextmanager
def _folder(named: Path | None) -> Iterator[Path]:
    """Yield the folder named, else one that is removed afterwards."""
    if named is not None:
        named.mkdir(parents=True, exist_ok=True)
        yield named
        return
    with tempfile.TemporaryDirectory(prefix="priorshift-") as folder:
        yield Path(folder)
