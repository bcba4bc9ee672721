"""The commands that answer a question about files: assess, estimate, compare, test, backtest."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import click

from priorshift.adapt import IN_POINTS
from priorshift.assessment import Assessment, following
from priorshift.border import check_resamples
from priorshift.cli import _console as console
from priorshift.cli import _options as options
from priorshift.cli._data import Data, open_data, read_group_column, sample_of
from priorshift.cli._errors import SHIFTED, command
from priorshift.compare import Comparison
from priorshift.compare import compare as compare_methods
from priorshift.estimators import decision_methods
from priorshift.estimators.result import columns_of
from priorshift.evidence import backtest as test_the_past
from priorshift.evidence import detect_shift
from priorshift.files import write_text


@command(
    "assess validation.csv target.csv",
    (
        "assess validation.csv target.csv --goal log_loss",
        "assess validation.csv target.csv --rows-to-label todo.csv",
        "assess validation.csv target.csv --target-labels todo.csv",
    ),
)
@options.data_options(validation="Required.")
@options.evidence_options
@click.option(
    "--rows-to-label",
    type=options.OutputPath(".csv"),
    help="Also write 40 rows whose labels would tell most, with an empty column label to fill in.",
)
@options.goal_options
@options.method_option(target_labels=True)
@options.confidence_option
@options.answer_options
def assess(
    method: str, rows_to_label: Path | None, output: Path | None, as_json: bool, **named: Any
) -> None:
    """Estimate the class priors, test for a shift, and say whether to adapt: start here."""
    data = open_data(options.request_of(**named))
    with console.busy("Assessing"):
        data.validation("an assessment")
        found = cast("Assessment", data.assess(method))
        if rows_to_label is not None:
            _write_rows(data, found, rows_to_label)
    contents = {**found.to_dict(), "priors": found.shares_to_report.to_dict()["priors"]}
    columns = columns_of(found.shares_to_report)

    def show() -> None:
        console.say(found.sentence)
        for reason in found.reasons:
            console.say(f"- {reason}")
        console.show_priors(found.shares_to_report, found.n_target, found.shares_title)

    console.hand_out(contents, columns, show, output, as_json, found, data.target)


def _write_rows(data: Data, found: Assessment, path: Path) -> None:
    """Write rows to label: their numbers from 1, the target's columns, and an empty label."""
    rows = found.rows_to_label(data.rows, random_state=0)
    columns = {"row": (rows + 1).tolist()}
    for name in data.target.header:
        cells = data.target.vector(name)
        # an npz also has arrays that are no columns
        if name != "label" and cells is not None and cells.shape == (data.rows.shape[0],):
            columns[name] = cells[rows].tolist()
    columns["label"] = [""] * rows.size
    write_text(path, console.csv_like(data.target, columns))
    console.note(
        f"Wrote {rows.size} rows to label to {path}. Fill in the column label, and run the same "
        f"command with --target-labels {path}. Its column row counts the target's rows from 1."
    )


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
    data = open_data(options.request_of(**named))
    with console.busy(f"Estimating by {method}"):
        shift, found = data.estimate(method)
    if save_adapter is not None:
        acting = shift
        if found is not None and shift.decision is not None:
            acting = following(shift, found.action)
        adapter = acting.adapter
        if (costs := data.aim["costs"]) is not None:
            adapter = adapter.with_costs(costs)
        adapter.to_json(save_adapter)
        console.note(f"Wrote {save_adapter}.")

    def show() -> None:
        console.show_verdict(found)
        doubt = "" if found is None or found.trusted else ", not to be trusted"
        console.show_priors(shift, data.rows.shape[0], f"Priors by {shift.method}{doubt}")

    columns = columns_of(shift)
    console.hand_out(shift.to_dict(), columns, show, output, as_json, found, data.target)


@command("compare validation.csv target.csv")
@options.data_options(validation="Required.")
@options.target_labels_option
@options.goal_options
@click.option(
    "--method",
    "methods",
    type=options.MethodChoice(target_labels=True),
    multiple=True,
    help="Only these methods (may be repeated) [default: all].",
)
@options.answer_options
def compare(methods: tuple[str, ...], output: Path | None, as_json: bool, **named: Any) -> None:
    """Run every method on the same data, and score them where the target has labels."""
    data = open_data(options.request_of(**named))
    comparison = compare_on(data, methods or None)
    with console.busy("Assessing"):
        found = data.assess(options.DEFAULT_METHOD)
    columns = comparison.columns()

    def show() -> None:
        console.show_comparison(comparison, "Methods compared")
        console.show_verdict(found)

    console.hand_out(comparison.to_dict(), columns, show, output, as_json, found, data.target)
    results = comparison.results
    for message in dict.fromkeys(each for result in results for each in result.warnings):
        by = ", ".join(result.method for result in results if message in result.warnings)
        console.note(f"Warning by {by}: {message}")


def compare_on(data: Data, methods: Sequence[str] | None = None) -> Comparison:
    """Run methods, with a progress bar."""
    y_proba_val, y_val = data.validation("comparing methods")
    labels = data.target_labels
    if methods is None and data.request.predicted_column is not None:
        methods = decision_methods(target_labels=labels is not None)
    with console.progress("Estimating") as bar:
        return compare_methods(
            y_proba_val,
            y_val,
            data.rows,
            labels,
            methods=methods,
            progress=lambda names: bar.track(names, task_id=bar.task_ids[0], total=len(names)),
            **data.aim,
            **data.given,
        )


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
    data = open_data(options.request_of(**named))
    with console.busy("Testing"):
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
        console.show_verdict(assessment)
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
        console.show_table(" ".join(said), ("", ""), rows)
        console.note(f"{found.n_val} validation rows, {found.n_target} target rows.")

    console.hand_out(found.to_dict(), {}, show, output, as_json, assessment)
    if fail_on_shift and found.rejected:
        click.get_current_context().exit(SHIFTED)


@command(
    "backtest target.csv --group-column part",
    ("backtest target.csv --group-column part --goal log_loss",),
)
@click.argument("history", type=options.INPUT)
@click.option(
    "--group-column",
    required=True,
    metavar="NAME",
    help="Column of the month, site or other group of each row. Numbers and dates are taken in "
    "order: each group is predicted from earlier ones only.",
)
@options.column_options
@options.goal_options
@options.method_option(lambda method: method.needs_probabilities)
@options.answer_options
def backtest(
    history: Path,
    group_column: str,
    method: str,
    output: Path | None,
    as_json: bool,
    **named: Any,
) -> None:
    """Say what adapting would have gained on labelled groups of the past."""
    request = options.request_of(
        target=history, validation=history, not_classes=(group_column,), **named
    )
    data = open_data(request)
    with console.busy("Going through the past"):
        found = test_the_past(
            *data.validation("a backtest"),
            read_group_column(data.files[0], group_column, "--group-column"),
            classes=data.classes,
            method=method,
            random_state=0,
            **data.aim,
        )

    def show() -> None:
        console.say(found.sentence)
        factor = 100 if found.goal in IN_POINTS else 1
        header = ("group", "rows", "adapting", "calibrating", "prior shift", "mean", "unchanged")
        rows = [
            (
                group.name,
                f"{group.n:,}",
                f"{factor * group.gains['adapt']:+.1f}",
                f"{factor * group.gains['calibrate']:+.1f}",
                *(f"{100 * off:.1f}" for off in group.off),
            )
            for group in found.groups
        ]
        console.show_table(
            "What would have been gained, and points by which shares were off", header, rows
        )

    console.hand_out(found.to_dict(), found.columns(), show, output, as_json)
