"""priorshift test."""

from pathlib import Path
from typing import Any

import click

from priorshift.cli._console import busy, emit, note, show_table
from priorshift.cli._documents import document
from priorshift.cli._errors import Command
from priorshift.cli._options import (
    OutputPath,
    Request,
    data_options,
    json_option,
)
from priorshift.cli._sample import in_memory
from priorshift.cli._task import Task, open_task
from priorshift.io import write_text
from priorshift.shift_test import ShiftTest, detect_shift

SHIFTED = 3
"""Exit code with --fail-on-shift."""


@click.command(
    cls=Command,
    short_help="Test whether the class priors shifted.",
    epilog="\b\nExample:\n  priorshift test --validation validation.csv --target target.csv",
)
@data_options
@click.option(
    "--decision",
    type=click.Choice(["soft", "hard"]),
    default="soft",
    show_default=True,
    help="Compare mean probabilities, or how often each class is the likeliest.",
)
@click.option(
    "--alpha",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="Level of the tests.",
)
@click.option(
    "--alternative",
    type=click.FloatRange(0, 1),
    default=0.1,
    show_default=True,
    help="Smallest shift of interest, as a total variation distance: power is for it.",
)
@click.option(
    "--resamples",
    type=click.IntRange(min=1),
    default=999,
    show_default=True,
    help="Draws of the null distribution.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random draws.")
@click.option(
    "--fail-on-shift", is_flag=True, help=f"End with exit code {SHIFTED} if there is a shift."
)
@click.option("--output", type=OutputPath(allow_dash=True), help="Write a .json file.")
@json_option
def test(
    decision: str,
    alpha: float,
    alternative: float,
    resamples: int,
    seed: int,
    fail_on_shift: bool,
    output: Path | None,
    as_json: bool,
    **named: Any,
) -> None:
    """Test whether the class priors shifted, and whether nothing but them did."""
    to_file = output is not None and str(output) != "-"
    if output is not None and to_file and output.suffix.lower() != ".json":
        raise click.BadParameter(f"{output} must end with .json.", param_hint="'--output'")
    with open_task(Request(**named)) as task, busy("Testing"):
        found = _test_on(
            task,
            decision=decision,
            alpha=alpha,
            alternative=alternative,
            n_resamples=resamples,
            random_state=seed,
        )
    text = document("test", **found.to_dict())
    if output is not None and to_file:
        write_text(output, text)
        note(f"Wrote {output}.")
    elif as_json:
        emit(text)
    else:
        show_test(found)
    if fail_on_shift and found.rejected:
        click.get_current_context().exit(SHIFTED)


def _test_on(task: Task, **options: Any) -> ShiftTest:
    if task.y_proba_val is None or task.y_val is None:
        raise click.UsageError("testing for a shift needs --validation.")
    target = in_memory(task.target_rows(), "The test is on")
    return detect_shift(
        task.y_proba_val, task.y_val, target, assumption=True, **task.given, **options
    )


def show_test(found: ShiftTest) -> None:
    """Print the verdict and the numbers behind it."""
    low, high = found.effect_interval
    least = "none" if found.detectable_effect is None else f"{found.detectable_effect:.3f}"
    rows = [
        ("p-value", f"{found.p_value:.4g}"),
        ("level", f"{found.alpha:g}"),
        ("statistic", f"{found.statistic:.4g}"),
        ("degrees of freedom", str(found.degrees_of_freedom)),
        ("effect size (total variation)", f"{found.effect_size:.3f}"),
        ("its interval", f"{low:.3f} to {high:.3f}"),
        (f"power for a shift of {found.alternative:g}", f"{found.power:.2f}"),
        ("shift seen 4 times of 5", least),
        ("null distribution", found.method),
    ]
    said = [found.verdict]
    if found.assumption is not None:
        p_value = found.assumption.p_value
        rows.append(("p-value of priors alone", "-" if p_value is None else f"{p_value:.4g}"))
        if not found.assumption.rejected:  # else the verdict says it already
            said.append(found.assumption.verdict)
    show_table(" ".join(said), ("", ""), rows)
    note(f"{found.n_val} validation rows, {found.n_target} target rows.")
