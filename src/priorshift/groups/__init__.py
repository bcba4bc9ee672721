r"""Priors by group (site, week, device): one pass, one certificate per group, partial pooling.

Methods with a confusion matrix C need only each group's counts of decisions (`GroupCounts`).
Without pooling, each group is estimated from its own rows; all groups are solved together, each to
its own duality gap. With pooling, the mean decision :math:`q_g` of a group is first shrunk towards
that of the others,

.. math:: \tilde q_g = \mu + W_g (q_g - \mu), \qquad
    W_g = v\, C D C^T \left(v\, C D C^T + \Sigma / n_g\right)^{-1},

with the covariance :math:`\Sigma` of rows, the Dirichlet covariance :math:`D = \mathrm{diag}(d)
- d d^T` around the priors d of all rows, and the v and :math:`\mu` that make all groups most
likely. EM and MAP maximise each group's likelihood under a Dirichlet distribution with a total of
:math:`1 / v - 1` around the pooled priors instead.
"""

from priorshift.groups._counts import GroupCounts, read_groups
from priorshift.groups._estimate import estimate_groups
from priorshift.groups._result import GroupEstimates, pooling_in_words, wide_columns

__all__ = [
    "GroupCounts",
    "GroupEstimates",
    "estimate_groups",
    "pooling_in_words",
    "read_groups",
    "wide_columns",
]
