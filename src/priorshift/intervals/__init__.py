"""Intervals of estimated priors: asymptotic, bootstrap and Bayesian, on plain arrays.

`estimate(y_proba, confidence_level=0.95)` of every estimator fills them in; what is here works
without estimators.
"""

from priorshift.intervals._bayesian import credible_interval, posterior_draws
from priorshift.intervals._calibration_test import refute_calibration
from priorshift.intervals._interval import (
    INTERVAL_METHODS,
    Estimand,
    IntervalKind,
    IntervalMethod,
    IntervalRequest,
    PriorInterval,
    bootstrap_interval,
    poisson_weights,
    score_bounds,
    stratified_weights,
    wilson_bounds,
)
from priorshift.intervals._likelihood import SourceNoise, likelihood_interval
from priorshift.intervals._votes import Votes, drawn_interval, pooled_columns
