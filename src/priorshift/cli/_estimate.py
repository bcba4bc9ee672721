"""priorshift estimate."""

from pathlib import Path
from typing import Any

from priorshift.cli._console import busy, note
from priorshift.cli._documents import (
    check_suffix,
    document,
    hand_out,
    priors_as_csv,
    show_priors,
    show_verdict,
    tell_doubts,
    verdict_of,
)
from priorshift.cli._errors import command
from priorshift.cli._options import (
    Request,
    dask_option,
    data_options,
    goal_options,
    interval_options,
    json_option,
    method_option,
    output_option,
    save_adapter_option,
    target_labels_option,
)
from priorshift.cli._task import as_advised, open_task


@command(
    "estimate validation.csv target.csv",
    more=("estimate --method ppi --target target.csv --target-label-column label",),
)
@data_options(validation="EM and MAP can do without.")
@dask_option
@target_labels_option
@goal_options
@method_option(target_labels=True)
@interval_options
@output_option("Write a .json or .csv file instead of printing.")
@save_adapter_option
@json_option
def estimate(
    method: str,
    output: Path | None,
    save_adapter: Path | None,
    as_json: bool,
    **named: Any,
) -> None:
    """Estimate the class priors of unlabelled target data."""
    check_suffix(output, as_json)
    with open_task(Request(**named)) as task, busy(f"Estimating by {method}"):
        shift, found = task.estimate(method), task.assess(method)
    if save_adapter is not None:
        adapter = as_advised(shift, found).adapter
        adapter = adapter if task.costs is None else adapter.with_costs(task.costs)
        adapter.to_json(save_adapter)
        note(f"Wrote {save_adapter}.")
    text = {
        ".json": document("estimate", verdict_of(found), **shift.to_dict()),
        ".csv": priors_as_csv(shift, task.target),
    }

    def show() -> None:
        show_verdict(found)
        show_priors(shift)

    hand_out(text, output, as_json, show)
    tell_doubts(found)
