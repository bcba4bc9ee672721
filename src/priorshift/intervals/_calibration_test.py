r"""Test whether the labels of validation refute that outputs are calibrated.

If outputs are calibrated under the source priors :math:`p_T`, then on validation, whose class
balance is :math:`\nu`, the label of a row has the chances :math:`r \propto f\,\nu / p_T`; that is f
itself where validation is drawn as the source was. Two score tests compare labels with them:

.. math:: Z = \frac{\sum_i (z_{i y_i} - \bar z_i)}{\sqrt{\sum_i \mathrm{Var}_{r_i}(z_i)}},
    \quad z = \log f, \qquad
    B_k = \frac{\sum_i ([y_i = k] - r_{ik})}{\sqrt{\sum_i r_{ik} (1 - r_{ik})}}.

Z is negative where outputs are too sure of themselves, and positive where they are not sure enough
(the score of a temperature). B shows for each class whether it is predicted too often or too rarely
(the score of a bias). Each test has half of the level, so that calibrated outputs are refuted at
most at the level.
"""

import numpy as np
from scipy.special import ndtr

from priorshift._typing import Floats, Indices, Labels, Vector
from priorshift.border import row_blocks

LEVEL = 0.05
LEAST = 1e-12
"""A probability of 0 counts as this."""


def refute_calibration(
    y_proba: Floats,
    y: Indices,
    sample_weight: Vector | None = None,
    source_priors: Vector | None = None,
    classes: Labels | None = None,
) -> str | None:
    """Say how labels contradict the outputs; None where they do not.

    Parameters
    ----------
    y_proba : ndarray of shape (n, K)
        Outputs on validation.
    y : ndarray of shape (n,)
        Labels as indices.
    sample_weight : ndarray of shape (n,), optional
    source_priors : ndarray of shape (K,), optional
        What outputs are calibrated under; by default validation's own class balance.
    classes : ndarray of shape (K,), optional
        Class names, for what is said.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.repeat([0, 1, 1, 0], [40, 10, 40, 10])
    >>> right = np.repeat([[0.8, 0.2], [0.2, 0.8]], 50, axis=0)
    >>> refute_calibration(right, y) is None
    True
    >>> too_sure = np.repeat([[0.99, 0.01], [0.01, 0.99]], 50, axis=0)
    >>> refute_calibration(too_sure, y)
    'validation refutes that outputs are calibrated: they are too sure (p = 5.5e-81)'
    """
    K = y_proba.shape[1]
    weight = np.ones(y.size) if sample_weight is None else sample_weight
    factor = np.ones(K)
    if source_priors is not None:
        labelled = np.bincount(y, weight, K)
        factor = np.divide(labelled, source_priors, out=np.zeros(K), where=source_priors > LEAST)
    slope, slope_variance, bias, bias_variance = 0.0, 0.0, np.zeros(K), np.zeros(K)
    for rows in row_blocks(y.size, K):
        f, label, w = y_proba[rows].astype(np.float64), y[rows], weight[rows]
        r = np.maximum(f, LEAST) * factor
        r /= np.maximum(r.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        z = np.log(np.maximum(f, LEAST))
        mean = np.einsum("ik,ik->i", r, z)
        spread = np.einsum("ik,ik->i", r, z**2) - mean**2
        slope += float(w @ (z[np.arange(label.size), label] - mean))
        slope_variance += float(w**2 @ np.maximum(spread, 0))
        bias += np.bincount(label, w, K) - w @ r
        bias_variance += w**2 @ (r * (1 - r))
    Z = slope / np.sqrt(max(slope_variance, LEAST))
    # a variance of 1/4 at least: one row more or less never refutes anything
    B = bias / np.sqrt(np.maximum(bias_variance, 0.25))
    k = int(np.argmax(np.abs(B)))
    events = K if K > 2 else 1  # of two, one is predicted too often when the other is too rarely
    of_slope, of_bias = 4 * ndtr(-abs(Z)), 4 * events * ndtr(-abs(B[k]))
    p_value = min(of_slope, of_bias)
    if p_value > LEVEL:
        return None
    if of_slope <= of_bias:
        how = "are too sure" if Z < 0 else "are not sure enough"
    else:
        often = "rarely" if B[k] > 0 else "often"
        how = f"predict class {k if classes is None else classes[k]} too {often}"
    return f"validation refutes that outputs are calibrated: they {how} (p = {p_value:.2g})"
