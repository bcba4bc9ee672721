r"""Prediction sets that hold the true class as often as promised, also under prior shift.

Split conformal prediction scores how badly each labelled validation sample fits its own class,
:math:`s_i = s(x_i, y_i)`, and puts into a set every class that fits no worse than a quantile of
these scores. Under prior shift validation has the wrong mixture of classes, so each of its samples
gets the weight of its class (Podkopaev & Ramdas, 2021), and so does the new sample, whose class is
unknown: for each candidate y it is placed at infinity with the weight of y,

.. math:: \{ y : s(x, y) \le Q_y \}, \quad
    Q_y = \mathrm{Quantile}_{1 - \alpha} \Bigl( \frac{\sum_i w_{y_i} \delta_{s_i}
    + w_y \delta_\infty}{\sum_i w_{y_i} + w_y} \Bigr), \quad w_y = \frac{p_E(y)}{n_y / n}.

The weight compares the target with *validation*, whose samples are weighted, not with the priors
the classifier was trained under: those matter only if probabilities are adapted. With the observed
share :math:`n_y / n` each class has exactly its target prior's share of the total weight, whether
validation was drawn at random or balanced by design. The theorem assumes the true ratio of priors;
with observed shares and estimated priors, the guarantee holds up to their error. Pass an estimate
with standard errors, and the sets account for it.
"""

from priorshift.conformal._sets import ConformalSets

__all__ = ["ConformalSets"]
