"""Solvers: clean arrays in, a `Solution` out. They know nothing about classifiers or files.

Read `_mixture` first: the one problem, its gradient and its certificate. `_maximise` solves it;
`_published` has the algorithms of the paper, which nothing else here uses.
"""

from priorshift.solvers._joint import maximise_jointly
from priorshift.solvers._least_squares import (
    evident_variance,
    nearest_mixtures,
    regularised_ratio,
    shrunk_least_squares,
    simplex_least_squares,
)
from priorshift.solvers._linear import (
    clip_to_simplex,
    condition_number,
    invert,
    is_singular,
    project_simplex,
    singular_range,
    solve_linear,
    undetermined,
)
from priorshift.solvers._maximise import maximise, maximise_by_group
from priorshift.solvers._mixture import NO_LIKELIHOOD, Mixture, Mixtures
from priorshift.solvers._published import (
    GRADIENT_TOLERANCE,
    LBFGS_STEPS,
    PUBLISHED,
    Published,
    expectation_maximisation,
    gradient_ascent,
    released_lbfgs,
)
from priorshift.solvers._solution import ADVICE, Solution, Solutions, Status
from priorshift.solvers._variational import dirichlet_posterior
