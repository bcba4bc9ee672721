"""priorshift estimate."""

from pathlib import Path
from typing import Any

import click

from priorshift.cli import _options as options
from priorshift.cli._console import busy, hand_out, note, priors_as_csv, show_priors, show_verdict
from priorshift.cli._data import as_advised, open_data
from priorshift.cli._errors import command


@command(
    "estimate validation.csv target.csv",
    more=("estimate --method ppi --target target.csv --target-label-column label",),
)
@options.data_options(validation="EM and MAP can do without.")
@options.target_labels_option
@options.goal_options
@options.method_option(target_labels=True)
@options.interval_options
@click.option(
    "--save-adapter",
    type=options.OutputPath(".json"),
    help="Also write what adapt would apply, for adapt --adapter or Adapter.from_json.",
)
@options.answer_options
def estimate(
    method: str, save_adapter: Path | None, output: Path | None, as_json: bool, **named: Any
) -> None:
    """Estimate the class priors of unlabelled target data."""
    with open_data(options.request_of(**named)) as data, busy(f"Estimating by {method}"):
        shift, found = data.estimate(method)
    if save_adapter is not None:
        adapter = as_advised(shift, found).adapter
        if (costs := data.aim["costs"]) is not None:
            adapter = adapter.with_costs(costs)
        adapter.to_json(save_adapter)
        note(f"Wrote {save_adapter}.")

    def show() -> None:
        show_verdict(found)
        doubt = "" if found is None or found.trusted else ", not to be trusted"
        show_priors(shift, data.rows.shape[0], f"Priors by {shift.method}{doubt}")

    hand_out(shift.to_dict(), priors_as_csv(shift, data.target), show, output, as_json, found)
