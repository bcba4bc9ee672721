"""Compare estimators on the same data, with or without target labels, and simulate shifts."""

from priorshift.evaluation._comparison import Comparison, MethodResult, compare
from priorshift.evaluation._scores import Scores, score
from priorshift.evaluation._shifts import SHIFTS, ShiftTask, long_tail, shifted_tasks

__all__ = [
    "SHIFTS",
    "Comparison",
    "MethodResult",
    "Scores",
    "ShiftTask",
    "compare",
    "long_tail",
    "score",
    "shifted_tasks",
]
