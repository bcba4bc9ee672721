"""What a report tests and diagnoses, and what it leaves out because it would take too long."""

import warnings
from dataclasses import dataclass

from priorshift._typing import Vector
from priorshift.diagnostics import Diagnostics, diagnose
from priorshift.estimators import PriorEstimate
from priorshift.report._inputs import Inputs
from priorshift.shift_test import ShiftTest, detect_shift

MOST_CLASSES = 500
"""Classes beyond which there is no test: a thousand take half a minute."""
MOST_CLASSES_OF_ASSUMPTION = 200
"""Its priors are estimated again for every resample."""
MANY_ENTRIES, MOST_ENTRIES = 2_000_000, 40_000_000
"""Rows times classes beyond which there are fewer resamples, and no test."""
RESAMPLES, FEWER_RESAMPLES = 999, 199
ROW = 10
"""Classes whose probabilities take as long to resample as the row itself."""
SEED = 0
"""Of the resamples: the same data make the same page."""


@dataclass(frozen=True, eq=False)
class Trust:
    """Tests and diagnostics; None where there is none, and `skipped` says why."""

    test: ShiftTest | None
    diagnostics: Diagnostics | None
    given: bool
    """Whether the target was compared with label priors that were given."""
    skipped: tuple[str, ...]
    warnings: tuple[str, ...]


def judge(inputs: Inputs) -> Trust | None:
    """Test for a shift and diagnose the estimate, if there are validation and target rows."""
    if inputs.proba_val is None or inputs.label_val is None or inputs.proba_target is None:
        return None
    estimate, skipped = inputs.estimate, []
    classes, given = estimate.classes, inputs.source_label_priors is not None
    data = inputs.proba_val, classes[inputs.label_val], inputs.proba_target
    rows, K = data[1].size + data[2].shape[0], classes.size
    entries = rows * (K + ROW)
    test = diagnostics = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            diagnostics = diagnose(*data, estimate)
        except ValueError as error:
            skipped.append(f"There are no diagnostics: {error}")
    told = tuple(f"On validation: {warning.message}" for warning in caught)
    if K > MOST_CLASSES or entries > MOST_ENTRIES:
        skipped.append(
            f"The tests are left out, as with {K:,} classes and {rows:,} rows they would take too "
            "long for a report: see priorshift.detect_shift."
        )
        return Trust(None, diagnostics, given, tuple(skipped), told)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the test keeps what it warns of as notes
        try:
            test = detect_shift(
                *data,
                source_priors=_source_priors(estimate),
                source_label_priors=inputs.source_label_priors,
                classes=classes,
                n_resamples=RESAMPLES if entries <= MANY_ENTRIES else FEWER_RESAMPLES,
                assumption=K <= MOST_CLASSES_OF_ASSUMPTION,
                random_state=SEED,
            )
        except ValueError as error:
            skipped.append(f"There is no test: {error}")
    if test is not None and test.assumption is None:
        skipped.append(
            f"Whether only the priors changed is not tested, as with {K:,} classes that would take "
            "too long for a report: see priorshift.check_assumption."
        )
    return Trust(test, diagnostics, given, tuple(skipped), told)


def _source_priors(estimate: PriorEstimate) -> Vector | None:
    """Return source priors that do not come from validation, which is compared with them."""
    return estimate.source_priors if estimate.source_priors_from == "given" else None
