"""Load outputs of a real classifier under prior shift, and make such data."""

from priorshift.datasets._images import draw_parts, read_fashion_mnist
from priorshift.datasets._predictions import ShiftedPredictions, load_fashion_lt

__all__ = ["ShiftedPredictions", "draw_parts", "load_fashion_lt", "read_fashion_mnist"]
