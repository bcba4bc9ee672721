r"""Whether predictions know anything about the labels beside them.

Labels in another row order, or of another file, match the predictions no better than shuffled ones.
With :math:`T = \sum_i f_{y_i}(x_i)`, the probability that the predictions give to the labels, all
:math:`n!` ways to shuffle the labels have the mean and the variance (Hoeffding, 1951)

.. math:: \mu = n \sum_k w_k c_k, \qquad
    \sigma^2 = \frac{n}{n-1} \sum_i \sum_k w_k (f_k(x_i) - r_i - c_k + \mu / n)^2,

where :math:`w_k` is the share of class k among the labels, :math:`c_k` the mean of
:math:`f_k`, and :math:`r_i = \sum_k w_k f_k(x_i)`.
"""

import math

import numpy as np

from priorshift._typing import Floats, Indices
from priorshift.border import row_blocks


def label_information(y_proba: Floats, y: Indices) -> tuple[float | None, float]:
    r"""Return how many standard deviations labels match better than shuffled ones would.

    That is :math:`(T - \mu) / \sigma`, and 0 where all predictions are alike. None where all labels
    are: nothing can be told of them. Beside it, how many show that both belong together: four, as 1
    in 30,000 shuffles has more. Few rows cannot show as much, so a correlation of 0.45 is enough
    below 80 of them.

    Examples
    --------
    >>> import numpy as np
    >>> y_proba = np.array([[0.9, 0.1], [0.2, 0.8]] * 50)
    >>> z, least = label_information(y_proba, np.array([0, 1] * 50))
    >>> round(z, 2), least
    (9.95, 4.0)
    >>> abs(label_information(y_proba, np.array([0, 0, 1, 1] * 25))[0]) < 0.01
    True
    """
    n, K = y_proba.shape
    w = np.bincount(y, minlength=K) / n
    total, sums, squares, of_rows = 0.0, np.zeros(K), np.zeros(K), 0.0
    for rows in row_blocks(n, K):
        block = y_proba[rows].astype(np.float64)
        total += float(block[np.arange(len(block)), y[rows]].sum())
        sums += block.sum(axis=0)
        squares += np.einsum("ij,ij->j", block, block)
        of_rows += float(((block @ w) ** 2).sum())
    c = sums / n
    spread = float(w @ squares) - of_rows - n * float(w @ c**2) + n * float(w @ c) ** 2
    least = min(4.0, 0.45 * math.sqrt(n))
    if n < 2 or w.max() == 1:
        return None, least
    if spread <= 1e-12 * n:
        return 0.0, least
    return (total - n * float(w @ c)) / math.sqrt(n / (n - 1) * spread), least
