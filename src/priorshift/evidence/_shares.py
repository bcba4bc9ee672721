r"""Which class shares to report, and within which bounds.

Two readings of one target give two sets of shares: prior shift p, with its interval, and the mean m
of calibrated probabilities. Which is right predictions alone seldom tell, so they are hedged:

.. math:: \hat s = \tfrac12 m + \tfrac12 (\pi + t (p - \pi)), \qquad
          t = \mathrm{explained}^2 \min(1, 2 / \mathrm{amplification})

with bounds that span both readings and the shares before, each with its own error, and a quarter of
the share of the target that no class balance explains. Where prior shift is well supported it is p
itself, with bounds stretched to m. Labelled history, where there is enough of it, weighs the three
by how far each was off, squared, and bounds their mean by what it was off. Labels of the target
(PPI, by stratum) are averaged with that reading by precision, class by class; a reading whose
interval they contradict is dropped.
"""

from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from priorshift._typing import Vector
from priorshift.estimators import PriorEstimate
from priorshift.evidence._backtest import Backtest
from priorshift.verdict import Kind


def hedge_shares(
    estimate: PriorEstimate,
    mean: PriorEstimate,
    kind: Kind,
    n_val: int,
    level: float,
    *,
    supported: bool,
) -> PriorEstimate:
    """Return shares between both readings, or the estimate where prior shift is supported."""
    before, p, m = mean.source_priors, estimate.priors, mean.priors
    assert before is not None
    wider = kind.unexplained / 4
    low, high = (p, p) if estimate.interval is None else estimate.interval.T
    if supported:
        lower, upper = np.minimum(low, m) - wider, np.maximum(high, m) + wider
        return _with_bounds(estimate, p, lower, upper, level)
    error = np.sqrt(before * (1 - before) * (1 / n_val + 1 / max(mean.n_target, 1)))
    reach = float(ndtri((1 + level) / 2)) * error
    m_low, m_high = (m, m) if mean.interval is None else mean.interval.T
    lower = np.min([low, before - reach, m_low], axis=0) - wider
    upper = np.max([high, before + reach, m_high], axis=0) + wider
    trust = (kind.explained or 0.0) ** 2 * min(1.0, 2 / max(kind.amplification, 1e-9))
    shares = (m + before + trust * (p - before)) / 2
    return _with_bounds(mean, shares, lower, upper, level)


def shares_by_history(
    estimate: PriorEstimate, mean: PriorEstimate, past: Backtest, level: float
) -> PriorEstimate:
    """Return both readings and the shares before, weighed by how far each was off in the past."""
    readings = np.array([estimate.priors, mean.priors, mean.source_priors])
    shares, reach = past.weights() @ readings, past.spread(level)
    return _with_bounds(mean, shares, shares - reach, shares + reach, level)


def shares_by_labels(
    reading: PriorEstimate, shares: Vector, variance: Vector, level: float
) -> PriorEstimate:
    """Average a reading with what labels say of the shares, unless they contradict it."""
    z = float(ndtri((1 + level) / 2))
    assert reading.interval is not None
    spread = (np.ptp(reading.interval, axis=1) / (2 * z)) ** 2
    total = np.maximum(spread + variance, 1e-300)
    apart = (shares - reading.priors) ** 2 > z**2 * total
    weight = np.where(apart, 1.0, spread / total)
    found = np.maximum(reading.priors + weight * (shares - reading.priors), 0.0)
    found = found / found.sum()
    reach = z * np.sqrt(weight * variance)
    bounded = _with_bounds(reading, found, found - reach, found + reach, level)
    return replace(bounded, method="ppi", interval_method="prediction-powered")


def _with_bounds(
    like: PriorEstimate, shares: Vector, low: Vector, high: Vector, level: float
) -> PriorEstimate:
    bounds = np.clip(np.column_stack([np.minimum(low, shares), np.maximum(high, shares)]), 0.0, 1.0)
    return replace(
        like,
        priors=shares,
        raw=None,
        interval=bounds,
        standard_error=np.ptp(bounds, axis=1) / (2 * float(ndtri((1 + level) / 2))),
        confidence_level=level,
        interval_method="readings",
        estimand=like.estimand or "population",
        simultaneous=False,
    )
