r"""Adapt predictions to new class priors, or re-train for them.

By Bayes' rule, with an appearance model p(x|y) that did not change (eq. adapt_priors of the paper),

.. math:: p_E(y \mid x) \propto p_T(y \mid x)\, \frac{p_E(y)}{p_T(y)}.

`adapt_proba` does this for known priors, `adapt_proba_interval` for priors that are known only
within bounds. `decide` weighs the costs of errors. `sample_weights` and `sample_indices` prepare
training data instead. An `Adapter` is an adaptation that you can save and export.
"""

from priorshift.adapt._adapt import (
    RandomState,
    adapt_predictions,
    adapt_proba,
    prior_ratio,
    priors_from_labels,
    priors_from_predictions,
    renormalise,
    reweight,
    sample_indices,
    sample_weights,
    total_variation,
)
from priorshift.adapt._adapter import Adapter
from priorshift.adapt._costs import (
    GOAL_WORDS,
    GOALS,
    IN_POINTS,
    Aim,
    Goal,
    GoalName,
    binary_cut,
    cheapest,
    check_costs,
    decide,
    log_savings,
)
from priorshift.adapt._uncertain import ProbaInterval, adapt_proba_interval
