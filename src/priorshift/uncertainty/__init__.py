"""Intervals of estimated priors: asymptotic, bootstrap and Bayesian, on plain arrays.

`estimate(y_proba, confidence_level=0.95)` of every estimator fills them in; what is here works
without estimators.
"""

from priorshift.uncertainty._bayesian import PosteriorDraws, credible_interval, posterior_draws
from priorshift.uncertainty._bootstrap import (
    bootstrap_draws,
    bootstrap_interval,
    poisson_weights,
    stratified_weights,
)
from priorshift.uncertainty._calibration_test import Miscalibration, refute_calibration
from priorshift.uncertainty._counts import HardDecisions, pooled_columns
from priorshift.uncertainty._interval import (
    INTERVAL_METHODS,
    Estimand,
    IntervalKind,
    IntervalMethod,
    IntervalRequest,
    PriorInterval,
    score_bounds,
    wilson_bounds,
)
from priorshift.uncertainty._likelihood import SourceNoise, likelihood_interval
from priorshift.uncertainty._votes import Votes

__all__ = [
    "INTERVAL_METHODS",
    "Estimand",
    "HardDecisions",
    "IntervalKind",
    "IntervalMethod",
    "IntervalRequest",
    "Miscalibration",
    "PosteriorDraws",
    "PriorInterval",
    "SourceNoise",
    "Votes",
    "bootstrap_draws",
    "bootstrap_interval",
    "credible_interval",
    "likelihood_interval",
    "poisson_weights",
    "pooled_columns",
    "posterior_draws",
    "refute_calibration",
    "score_bounds",
    "stratified_weights",
    "wilson_bounds",
]
