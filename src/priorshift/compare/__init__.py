"""Compare estimators on the same data, with or without target labels, and simulate shifts."""

from priorshift.compare._comparison import Comparison, MethodResult, compare
from priorshift.compare._scores import Scores, score
from priorshift.compare._scores import score_adapted as score_adapted
from priorshift.compare._shifts import SHIFTS, ShiftTask, long_tail, shifted_tasks

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
