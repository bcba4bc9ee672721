"""What changed, and what an estimate is worth: tests, diagnostics, expected accuracy."""

from priorshift.evidence._accuracy import Expected, ExpectedNumber, expected_score
from priorshift.evidence._actions import (
    act_on_target,
    act_on_validation,
    fit_mean,
    shares_by_reading,
    ungated,
)
from priorshift.evidence._assumption import check_assumption, require_decisions
from priorshift.evidence._backtest import (
    FEWEST_GROUPS,
    Backtest,
    PastGroup,
    backtest,
    read_groups,
    replay,
)
from priorshift.evidence._detect import detect_shift, is_shifted
from priorshift.evidence._diagnose import Diagnostics, diagnose, expected_accuracy
from priorshift.evidence._information import label_information, least_information
from priorshift.evidence._kind import Explained, amplification, explain_by_priors
from priorshift.evidence._labels import (
    Strata,
    draw_rows_to_label,
    measure_gains,
    measure_shares,
    rows_that_differ,
)
from priorshift.evidence._promises import Target, promise
from priorshift.evidence._reliability import (
    HISTOGRAM_EDGES,
    Reliability,
    assign_bins,
    calibration_error,
)
from priorshift.evidence._results import AssumptionTest, ShiftTest
from priorshift.evidence._samples import Samples, read_samples
from priorshift.evidence._shares import hedge_shares, shares_by_history, shares_by_labels

__all__ = [
    "FEWEST_GROUPS",
    "HISTOGRAM_EDGES",
    "AssumptionTest",
    "Backtest",
    "Diagnostics",
    "Expected",
    "ExpectedNumber",
    "Explained",
    "PastGroup",
    "Reliability",
    "Samples",
    "ShiftTest",
    "Strata",
    "Target",
    "act_on_target",
    "act_on_validation",
    "amplification",
    "assign_bins",
    "backtest",
    "calibration_error",
    "check_assumption",
    "detect_shift",
    "diagnose",
    "draw_rows_to_label",
    "expected_accuracy",
    "expected_score",
    "explain_by_priors",
    "fit_mean",
    "hedge_shares",
    "is_shifted",
    "label_information",
    "least_information",
    "measure_gains",
    "measure_shares",
    "promise",
    "read_groups",
    "read_samples",
    "replay",
    "require_decisions",
    "rows_that_differ",
    "shares_by_history",
    "shares_by_labels",
    "shares_by_reading",
    "ungated",
]
