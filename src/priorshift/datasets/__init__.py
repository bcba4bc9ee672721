"""Outputs of real classifiers under prior shift, small enough to travel with the library."""

from priorshift.datasets._fashion_lt import load_fashion_lt
from priorshift.datasets._shifted import ShiftedPredictions

__all__ = ["ShiftedPredictions", "load_fashion_lt"]
