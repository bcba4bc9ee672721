"""What changed, and what an estimate is worth: tests, diagnostics, expected accuracy."""

from priorshift.evidence._actions import (
    Acted,
    Strata,
    act,
    adapt_rows,
    draw_rows_to_label,
    fit_mean,
    measure_gains,
    measure_shares,
    promise,
    rows_that_differ,
    share_covariance,
    ungated,
)
from priorshift.evidence._assumption import AssumptionTest, as_rows, check_assumption
from priorshift.evidence._backtest import FEWEST_GROUPS, Backtest, backtest, name_groups, replay
from priorshift.evidence._detect import ShiftTest, detect_shift
from priorshift.evidence._diagnose import (
    FEW_ROWS,
    Diagnostics,
    Expected,
    diagnose,
    expected_accuracy,
    expected_score,
)
from priorshift.evidence._information import label_information
from priorshift.evidence._kind import explain_by_priors, find_order
from priorshift.evidence._shares import hedge_shares, shares_by_history, shares_by_labels
