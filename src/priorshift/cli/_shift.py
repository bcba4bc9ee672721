"""priorshift test."""

from pathlib import Path
from typing import Any

import click

from priorshift.border import check_resamples
from priorshift.cli._console import busy, note, show_table
from priorshift.cli._documents import document, hand_out, show_verdict, verdict_of
from priorshift.cli._errors import SHIFTED, command
from priorshift.cli._options import (
    DEFAULT_METHOD,
    Request,
    data_options,
    defaulted,
    fail_option,
    json_option,
    level_option,
    output_option,
)
from priorshift.cli._task import Task, in_memory, open_task
from priorshift.evidence import ShiftTest, detect_shift


@command(
    "test validation.csv target.csv",
)
@data_options(validation="Required.")
@defaulted(
    "--decision",
    click.Choice(["soft", "hard"]),
    "soft",
    "Compare mean probabilities, or how often each class is the likeliest.",
)
@level_option("--alpha", "Level of the tests.")
@defaulted(
    "--alternative",
    click.FloatRange(0, 1),
    0.1,
    "Smallest shift of interest, as a total variation distance: power is for it.",
)
@defaulted(
    "--resamples",
    click.IntRange(min=1),
    999,
    "Draws of the null distribution.",
)
@defaulted(
    "--seed",
    click.IntRange(min=0),
    0,
    "Of the random draws.",
)
@fail_option("there is a shift")
@output_option("Write a .json file.", ".json")
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
    try:
        check_resamples(resamples, alpha)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    with open_task(Request(**named)) as task, busy("Testing"):
        found = _test_on(
            task,
            decision=decision,
            alpha=alpha,
            alternative=alternative,
            n_resamples=resamples,
            random_state=seed,
        )
        assessment = task.assess(DEFAULT_METHOD)
    text = document("test", verdict_of(assessment), **found.to_dict())

    def show() -> None:
        show_verdict(assessment)
        show_test(found)

    hand_out({".json": text}, output, as_json, show)
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
    """Print what the test found and the numbers behind it."""
    low, high = found.effect_interval or (0.0, 1.0)
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
    said = [found.sentence]
    if found.assumption is not None:
        p_value = found.assumption.p_value
        rows.append(("p-value of priors alone", "-" if p_value is None else f"{p_value:.4g}"))
        if not found.assumption.rejected:  # else the sentence says it already
            said.append(found.assumption.sentence)
    show_table(" ".join(said), ("", ""), rows)
    note(f"{found.n_val} validation rows, {found.n_target} target rows.")
