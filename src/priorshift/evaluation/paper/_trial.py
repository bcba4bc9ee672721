"""One trial: a classifier, a target distribution, a seed; calibrated or not."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import softmax

from priorshift._typing import Floats, Indices, Vector
from priorshift.adaptation import prior_ratio, reweight
from priorshift.calibration import BCTS
from priorshift.estimators import PriorEstimate, PriorEstimator
from priorshift.evaluation.paper._distributions import largest_sample
from priorshift.evaluation.paper._outputs import Part, StoredOutputs

SHARE = 0.8
"""Of validation and of the target, drawn anew for every seed: one stored classifier stands in for
the paper's several, so that its standard deviations are those of the data alone."""


@dataclass(frozen=True, eq=False)
class Trial:
    """Probabilities to estimate on and adapt, and the trained priors by both of the paper's ways.

    Attributes
    ----------
    y_proba_val, y_val, y_proba_target, y_target : ndarray
    mean_prediction : ndarray of shape (n_classes,)
        Mean prediction on the training set.
    label_frequencies : ndarray of shape (n_classes,)
        Label frequencies of the training set.
    rows : ndarray
        Which test rows the target is.
    """

    y_proba_val: Floats
    y_val: Indices
    y_proba_target: Floats
    y_target: Indices
    mean_prediction: Vector
    label_frequencies: Vector
    rows: Indices

    @property
    def truth(self) -> Vector:
        """The target's own class frequencies: what the oracle knows."""
        return np.bincount(self.y_target, minlength=self.mean_prediction.size) / self.y_target.size

    def accuracy(self, y_proba: Floats) -> float:
        """Return the share of right decisions on the target, in percent."""
        return float(100 * (y_proba.argmax(axis=1) == self.y_target).mean())

    def adapted(self, priors: Vector, source: Vector | None = None) -> float:
        """Return the accuracy after adapting to priors."""
        source = self.mean_prediction if source is None else source
        return self.accuracy(reweight(self.y_proba_target, prior_ratio(priors, source)))

    def estimated(self, estimator: PriorEstimator, n_samples: int | None = None) -> PriorEstimate:
        """Estimate the priors, from all of the target or from its first rows."""
        estimator.fit(
            self.y_proba_val,
            self.y_val,
            source_priors=self.mean_prediction,
            source_label_priors=self.label_frequencies,
            classes=np.arange(self.mean_prediction.size),
        )
        return estimator.estimate(self.y_proba_target[:n_samples])


def draw_trial(
    outputs: StoredOutputs,
    target: Vector,
    *,
    calibrated: bool,
    seed: int,
    share: float = SHARE,
) -> Trial:
    """Draw validation and target rows for a seed, and calibrate by BCTS if asked.

    BCTS is fitted as in the paper: on validation, its classes weighted to the training set's.
    """
    rng = np.random.default_rng([seed, outputs.n_classes])
    val = outputs.val[largest_sample(outputs.val.y, outputs.val.label_frequencies(), share, rng)]
    rows = rng.permutation(largest_sample(outputs.test.y, target, share, rng))
    frequencies = outputs.train.label_frequencies()
    probabilities = _calibration(val, frequencies) if calibrated else partial(softmax, axis=1)
    mean = probabilities(outputs.train.logits).mean(axis=0, dtype=np.float64)
    return Trial(
        probabilities(val.logits),
        val.y,
        probabilities(outputs.test.logits[rows]),
        outputs.test.y[rows],
        mean / mean.sum(),
        frequencies,
        rows,
    )


def _calibration(val: Part, frequencies: Vector) -> Callable[[Floats], Floats]:
    bcts = BCTS(balance="weights").fit(
        val.logits, val.y, source_label_priors=frequencies, classes=np.arange(frequencies.size)
    )
    return bcts.predict_proba
