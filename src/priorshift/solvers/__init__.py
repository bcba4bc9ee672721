"""Solvers: clean arrays in, a `Solution` out. They know no classifiers and no files."""

from priorshift.solvers._certified import maximise
from priorshift.solvers._cone import regularised_ratio, simplex_least_squares
from priorshift.solvers._linear import condition_number, solve_linear
from priorshift.solvers._mixture import NO_LIKELIHOOD, Mixture
from priorshift.solvers._nearest_mixtures import nearest_mixtures
from priorshift.solvers._paper import L2_THRESHOLD, expectation_maximisation, gradient_ascent
from priorshift.solvers._simplex import project_simplex
from priorshift.solvers._solution import ADVICE, Solution, Status

__all__ = [
    "ADVICE",
    "L2_THRESHOLD",
    "NO_LIKELIHOOD",
    "Mixture",
    "Solution",
    "Status",
    "condition_number",
    "expectation_maximisation",
    "gradient_ascent",
    "maximise",
    "nearest_mixtures",
    "project_simplex",
    "regularised_ratio",
    "simplex_least_squares",
    "solve_linear",
]
