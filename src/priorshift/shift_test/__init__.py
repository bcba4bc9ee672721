"""Is there a shift, and is it a shift of priors alone? Tests that need no labels of the target."""

from priorshift.shift_test._assumption import check_assumption
from priorshift.shift_test._detect import detect_shift, is_shifted
from priorshift.shift_test._results import AssumptionTest, ShiftTest
from priorshift.shift_test._samples import Samples, read_samples

__all__ = [
    "AssumptionTest",
    "Samples",
    "ShiftTest",
    "check_assumption",
    "detect_shift",
    "is_shifted",
    "read_samples",
]
