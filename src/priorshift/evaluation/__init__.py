"""Judge estimators beside one another, on data with or without target labels."""

from priorshift.evaluation._comparison import Comparison, MethodResult, compare
from priorshift.evaluation._scores import Scores, score

__all__ = ["Comparison", "MethodResult", "Scores", "compare", "score"]
