"""What changed, and what an estimate is worth: tests, diagnostics, expected accuracy."""

from priorshift.evidence._accuracy import Expected, ExpectedNumber, expected_score
from priorshift.evidence._assumption import as_rows, check_assumption
from priorshift.evidence._backtest import (
    FEWEST_GROUPS,
    Backtest,
    backtest,
    read_groups,
    replay,
)
from priorshift.evidence._detect import detect_shift, is_shifted
from priorshift.evidence._diagnose import Diagnostics, diagnose, expected_accuracy
from priorshift.evidence._information import label_information, least_information
from priorshift.evidence._kind import Explained, amplification, explain_by_priors, find_order
from priorshift.evidence._labels import (
    Strata,
    draw_rows_to_label,
    measure_gains,
    measure_shares,
    rows_that_differ,
)
from priorshift.evidence._promises import (
    Acted,
    act,
    act_on_target,
    fit_mean,
    promise,
    shares_by_reading,
    ungated,
)
from priorshift.evidence._reliability import (
    HISTOGRAM_EDGES,
    Reliability,
)
from priorshift.evidence._results import AssumptionTest, ShiftTest
from priorshift.evidence._shares import hedge_shares, shares_by_history, shares_by_labels
