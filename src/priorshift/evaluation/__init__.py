"""Judge estimators beside one another, on data with or without target labels."""

from priorshift.evaluation._comparison import Comparison, MethodResult, compare
from priorshift.evaluation._protocol import SHIFTS, ShiftTask, long_tail, shifted_tasks
from priorshift.evaluation._scores import Scores, score

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
