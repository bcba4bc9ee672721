"""EM where the labels of some target samples are known."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from priorshift._typing import Indices, Labels, Mask
from priorshift._validation import (
    as_array,
    check_proba,
    check_source_mass,
    encode_labels,
    in_class_order,
    is_missing,
    read_labels,
)
from priorshift.estimators.base import PriorEstimator
from priorshift.estimators.em import posterior_problem
from priorshift.estimators.references import SAERENS
from priorshift.estimators.result import PriorEstimate
from priorshift.execution import Rows
from priorshift.solvers import Solution


class SemiSupervisedEM(PriorEstimator):
    r"""EM with a partly labelled target: known labels count as what they are.

    With :math:`n_k` labelled samples of class k, and the other samples i unlabelled, it maximises

    .. math:: \sum_i \log \sum_k \frac{f_k(x_i)}{p_{T,k}} p_k + \sum_k n_k \log p_k

    to a certificate: the mixture problem with :math:`\alpha_k = 1 + n_k`. It is EM without labels,
    and label frequencies without unlabelled samples. The samples to label must have been chosen at
    random from the target: not by class, not by confidence.

    Parameters
    ----------
    tol : float, default=0.01
        Duality gap in nats to reach.
    max_iter : int, default=1000
        Most passes over the target.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.9, 0.1], [0.2, 0.8]])
    >>> em = ps.SemiSupervisedEM().fit(source_priors=[0.5, 0.5])
    >>> em.estimate(y_proba).priors.round(2)
    array([0.9, 0.1])
    >>> em.estimate(y_proba, y_target=[0, 1, None, None]).priors.round(2)
    array([0.53, 0.47])
    """

    name = "em-labels"
    summary = (
        "maximises the likelihood of the predicted probabilities and of the labels that are known"
    )
    reference = SAERENS
    trusts_outputs = True

    def __init__(self, *, tol: float = 0.01, max_iter: int = 1000) -> None:
        self.tol, self.max_iter = tol, max_iter

    def estimate(
        self,
        y_proba: ArrayLike | None = None,
        confidence_level: float | None = None,
        random_state: int | np.random.Generator | None = None,
        *,
        y_target: ArrayLike | None = None,
        unlabelled: Any = None,
        **options: Any,
    ) -> PriorEstimate:
        """Estimate the target priors from predictions and the labels that are known.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities on the target, labelled samples included.
        confidence_level, random_state, **options
            As for `PriorEstimator.estimate`; intervals are to be had without labels only.
        y_target : array-like of shape (n_samples,), optional
            Labels, with `unlabelled` where none is known; None is EM.
        unlabelled : object, optional
            What stands for an unknown label, such as -1; by default None and NaN do.

        Returns
        -------
        PriorEstimate
        """
        if y_target is None:
            return super().estimate(y_proba, confidence_level, random_state, **options)
        check_is_fitted(self)
        if confidence_level is not None:
            raise ValueError(
                "confidence_level cannot be had with y_target, since a bootstrap resamples rows "
                "without their labels; leave out one of the two."
            )
        values = in_class_order(check_proba(y_proba, classes=self.classes_), self.classes_)
        check_source_mass(
            self.source_priors_, values, self.classes_, origin=self.source_priors_from_
        )
        known = _known(y_target, unlabelled, values.shape[0])
        labels = _encode(y_target, known, self.classes_)
        return self._most_likely(values, known, labels)

    def adapt(
        self,
        y_proba: ArrayLike,
        *,
        strength: float = 1.0,
        y_target: ArrayLike | None = None,
        unlabelled: Any = None,
    ) -> NDArray[Any]:
        """Estimate the target priors and adapt the same predictions to them.

        Rows whose label is known are adapted like all others: the label only helps the estimate.
        """
        shift = self.estimate(y_proba, y_target=y_target, unlabelled=unlabelled)
        return shift.adapt(y_proba, strength=strength)

    def _estimate(self, y_proba: Rows) -> PriorEstimate:
        return self._most_likely(y_proba, np.zeros(1, dtype=bool), np.zeros(0, dtype=np.intp))

    def _most_likely(self, y_proba: Rows, known: Mask, labels: Indices) -> PriorEstimate:
        counts = np.bincount(labels, minlength=self.classes_.size).astype(np.float64)
        if known.all():
            solution = Solution(counts / counts.sum(), "direct")
        else:
            rows = y_proba if not known.any() else np.asarray(y_proba)[~known]
            problem = posterior_problem(rows, self.source_priors_, 1 + counts)
            solution = self._maximise(problem, self.source_priors_)
        return self._result(solution.value, solution, y_proba.shape[0])


def _known(y_target: ArrayLike, unlabelled: Any, n_samples: int) -> Mask:
    """Tell which labels are known."""
    labels = _as_objects(y_target)
    if labels.shape != (n_samples,):
        raise ValueError(
            f"y_target has shape {labels.shape} but there are {n_samples} rows of predictions; "
            "give one entry a row, and `unlabelled` where the label is not known."
        )
    if unlabelled is None:
        return ~np.fromiter((is_missing(label) for label in labels), bool, n_samples)
    return np.fromiter((label != unlabelled for label in labels), bool, n_samples)


def _encode(y_target: ArrayLike, known: Mask, classes: Labels) -> Indices:
    """Turn the known labels into indices of `classes`."""
    if not known.any():
        return np.zeros(0, dtype=np.intp)
    labels = read_labels(_as_objects(y_target)[known], name="the labelled part of y_target")
    if labels.dtype.kind == "f" and classes.dtype.kind in "iu" and (labels % 1 == 0).all():
        labels = labels.astype(np.int64)  # a column with NaN holds its whole numbers as floats
    return encode_labels(labels, classes, "the labelled part of y_target")


def _as_objects(y_target: Any) -> NDArray[np.object_]:
    """Return labels as Python objects, so that None and NaN survive beside strings."""
    values = y_target.to_numpy() if hasattr(y_target, "to_numpy") else y_target
    return as_array(values, "y_target", object)
