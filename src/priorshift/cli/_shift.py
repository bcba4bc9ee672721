"""priorshift test."""

from pathlib import Path
from typing import Any

import click

from priorshift.border import check_resamples
from priorshift.cli import _options as options
from priorshift.cli._console import busy, hand_out, note, show_table, show_verdict
from priorshift.cli._data import open_data, sample_of
from priorshift.cli._errors import SHIFTED, command
from priorshift.evidence import detect_shift


@command("test validation.csv target.csv")
@options.data_options(validation="Required.")
@options.defaulted("--alpha", options.SHARE, 0.05, "Level of the tests.")
@options.defaulted("--resamples", click.IntRange(min=1), 999, "Draws of the null distribution.")
@options.defaulted("--seed", click.IntRange(min=0), 0, "Of the random draws.")
@options.fail_option("there is a shift")
@options.output_option("Write a .json file.", ".json")
@options.json_option
def test(
    alpha: float,
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
    with open_data(options.request_of(**named)) as data, busy("Testing"):
        found = detect_shift(
            *data.validation("testing for a shift"),
            sample_of(data.rows, "The test is on"),
            assumption=True,
            alpha=alpha,
            n_resamples=resamples,
            random_state=seed,
            **data.given,
        )
        assessment = data.assess(options.DEFAULT_METHOD)

    def show() -> None:
        show_verdict(assessment)
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

    hand_out(found.to_dict(), "", show, output, as_json, assessment)
    if fail_on_shift and found.rejected:
        click.get_current_context().exit(SHIFTED)
