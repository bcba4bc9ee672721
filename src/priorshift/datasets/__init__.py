"""Load outputs of a real classifier under prior shift."""

from priorshift.datasets._predictions import ShiftedPredictions, load_fashion_lt

__all__ = ["ShiftedPredictions", "load_fashion_lt"]
