"""Calibrators with scikit-learn's interface.

Over labelled validation rows with weights `w_i`, they minimise the penalised negative
log-likelihood

    sum_i w_i [logsumexp_k(s_ik) - s_iy] + ridge/2 ||b||^2,   s_ik = v_k z_ik + b_k + offset_k

which is convex in `(v, b)`. The offset corrects for a validation set whose class balance differs
from the training set's (see `balance`) and is dropped afterwards. Newton's method starts at the
identity `v = 1, b = 0` and finds the best temperature; L-BFGS continues from there, so the answer
is never worse than the identity. A constant in `b` changes nothing, so the biases sum to 0. A class
without validation samples is not identified: it keeps bias 0 and the scale of the best temperature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from priorshift._typing import Floats, Vector
from priorshift.border import (
    HEAD_ROWS,
    SUM_TOLERANCE,
    Predictions,
    Tensor,
    check_choice,
    check_count,
    check_number,
    check_outputs,
    check_priors,
    check_sample_weight,
    column_of,
    encode_labels,
    ordered,
    read_labels,
    row_blocks,
    settle_classes,
    single_threaded_blas,
    some,
)
from priorshift.calibration.fitting import FittedMap, fit_chosen, ridges_of
from priorshift.calibration.likelihood import LabelLikelihood, ScoreMap, by_fold, rebalance
from priorshift.calibration.maps import TINY
from priorshift.exceptions import ConvergenceWarning, PriorShiftWarning, argument, warn_user
from priorshift.solvers import GRADIENT_TOLERANCE, LBFGS_STEPS, released_lbfgs

NO_BIAS = 1e12  # a ridge that leaves no bias to speak of
_NO_LOGIT = -1e100  # a logit below this represents probability 0, as -inf does


def _log_softmax(logits: Vector) -> Vector:
    """Normalise logits in place; what represents probability 0 becomes small but finite."""
    for rows in row_blocks(*logits.shape):
        block = logits[rows]
        with np.errstate(over="ignore"):
            block -= block.max(axis=1, keepdims=True)
        block -= np.log(np.exp(block).sum(axis=1, keepdims=True))
        zero = block < _NO_LOGIT
        if zero.any():  # no likelier than TINY, nor than anything else in the row
            least = block.min(axis=1, where=~zero, initial=np.log(TINY), keepdims=True)
            np.copyto(block, least, where=zero)
    return logits


@dataclass(kw_only=True, eq=False, repr=False)
class _Calibrator(BaseEstimator):
    """Fit and apply `softmax(v * z + b)`; a subclass defines the parameters."""

    logits: bool = False
    balance: Literal["offset", "weights"] = "offset"
    tol: float = 1e-6
    max_iter: int = 1000

    _family: ClassVar[Literal["ts", "bcts", "vs"]]

    def fit(
        self,
        y_proba: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        source_label_priors: Any = None,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Fit to labelled outputs that the classifier was not trained on.

        Parameters
        ----------
        y_proba : array-like or frame of shape (n_samples, n_classes)
            Probabilities; logits or log-probabilities if the calibrator has `logits=True`.
        y : array-like of shape (n_samples,)
            The labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights; a row of weight 2 counts as two rows.
        source_label_priors : array-like of shape (n_classes,) or mapping, optional
            Label frequencies of the training set, if they differ from those of `y`.
        classes : array-like of shape (n_classes,), optional
            Names of the columns; by default the column names of a frame, or the sorted labels.

        Returns
        -------
        self
            The fitted calibrator.
        """
        check_choice(self.balance, ("offset", "weights"), "balance")
        ridge, solver = getattr(self, "ridge", None), getattr(self, "solver", "optimal")
        biased = bool(getattr(self, "bias", True))
        if not biased:
            check_choice(ridge, (None,), "ridge with bias=False")
            ridge = NO_BIAS
        check_choice(solver, ("optimal", "released"), "solver")
        released, ridges = solver == "released", ridges_of(ridge)
        if released:
            check_choice(ridge, (None, 0), "ridge with solver='released'")
        tol, max_iter = check_number(self.tol, "tol"), check_count(self.max_iter, "max_iter")
        n_folds = 1 if len(ridges) < 2 else check_count(getattr(self, "cv", 5), "cv", least=2)
        y_proba, y = column_of(y_proba, y, of="y_proba")
        outputs = self._outputs(y_proba, classes=classes)
        labels = read_labels(y, outputs.values.shape[0])
        self.classes_ = settle_classes(outputs, labels, classes)
        self.n_features_in_ = self.classes_.size
        encoded = encode_labels(labels, self.classes_)
        weight = check_sample_weight(sample_weight, labels.size)
        weight = np.ones(labels.size) if weight is None else weight
        offset, corrected = np.zeros(self.classes_.size), source_label_priors is not None
        if corrected:
            priors = check_priors(source_label_priors, self.classes_, "source_label_priors")
            balance = "weights" if released else self.balance
            weight, offset = rebalance(encoded, weight, priors, balance)
        # stratified folds share the chance in label frequencies, which a bias would fit
        order, folds = by_fold(encoded, n_folds, corrected, getattr(self, "random_state", None))
        z = self._z(outputs)
        spread = np.ptp(z, axis=1)
        spread = spread[spread > 0]
        unit = float(np.exp(np.log(spread).mean())) if spread.size else 1.0
        z /= unit  # the best slopes are then about 1
        likelihood = LabelLikelihood(
            np.take(z.T, order, axis=1), encoded[order], weight[order], offset
        )
        del z
        unseen = self.classes_[~likelihood.seen].tolist()
        if unseen and (self._family != "ts" or len(unseen) >= self.n_features_in_ - 1):
            warn_user(
                f"validation says nothing about {len(unseen)} of the classes ({some(unseen)}): y "
                f"has none of them, or their {argument('source_label_priors')} are 0. Their bias "
                "stays 0 and their scale that of the best temperature; give validation samples of "
                "every class.",
                PriorShiftWarning,
            )
        with single_threaded_blas():  # products of small blocks: threads would only wait
            if released:
                found, ridge = _fit_released(likelihood, unit, max_iter), 0.0
            else:
                found, ridge, _ = fit_chosen(
                    likelihood,
                    self._family,
                    ridges,
                    folds if n_folds > 1 else (),
                    gtol=tol * np.sqrt(likelihood.total),
                    start=unit,
                    tol=tol,
                    max_iter=max_iter,
                )
            self.nll_ = likelihood.value(found.map) / likelihood.total
        if found.trouble and not released:
            message = f"{type(self).__name__} did not converge: {found.trouble}."
            warn_user(message, ConvergenceWarning)
        self.n_iter_, self.converged_ = found.n_iter, not found.trouble
        self._map = ScoreMap(found.map.slope / unit, found.map.bias * biased)
        if self._family == "vs":
            self.scale_ = self._map.slope
        else:
            self.temperature_ = float(1 / self._map.slope[0])
        if self._family != "ts" and biased:
            self.bias_, self.ridge_ = self._map.bias, ridge
        return self

    def predict_log_proba(self, y_proba: ArrayLike) -> Vector:
        """Return calibrated log-probabilities, with arguments and shape as in `predict_proba`."""
        return self._predict(y_proba, log=True)

    def predict_proba(self, y_proba: ArrayLike) -> Vector:
        """Return calibrated probabilities.

        Parameters
        ----------
        y_proba : array-like or frame of shape (n_samples, n_classes)
            Outputs of the same kind as those passed to `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities, with columns in the order of `classes_`. A tensor gives a tensor on the
            same device.
        """
        return self._predict(y_proba, log=False)

    def _outputs(self, y_proba: Any, **how: Any) -> Predictions:
        """Check probabilities, or logits; warn of logits that look like probabilities."""
        outputs = check_outputs(y_proba, from_proba=not self.logits, name=self._name, **how)
        if self.logits:
            first = outputs.values[:HEAD_ROWS]
            if first.min() >= 0 and (abs(first.sum(axis=1) - 1) <= SUM_TOLERANCE).all():
                warn_user(
                    f"the rows that {type(self).__name__}(logits=True) got sum to 1, as "
                    "probabilities do; for probabilities leave out logits=True.",
                    PriorShiftWarning,
                )
        return outputs

    @property
    def _name(self) -> str:
        return "logits" if self.logits else "y_proba"

    def _predict(self, y_proba: Any, *, log: bool) -> Any:
        """Calibrate outputs; a tensor into one of its own type."""
        check_is_fitted(self, "_map")
        outputs = self._outputs(y_proba)
        scores = self._z(outputs)
        scores *= self._map.slope
        scores += self._map.bias
        proba = _log_softmax(scores)
        if not log:
            np.exp(proba, out=proba)
        given = outputs.origin
        return given.with_numbers(proba) if isinstance(given, Tensor) else proba

    def _z(self, outputs: Predictions) -> Vector:
        """Return the log-softmax of the outputs, in a new array."""
        values = ordered(outputs, self.classes_, self._name).values
        if self.logits:
            return _log_softmax(np.array(values, dtype=np.float64, order="C"))
        z = np.maximum(values, TINY, dtype=np.float64, order="C")
        return _log_softmax(np.log(z, out=z))


def _fit_released(likelihood: LabelLikelihood, unit: float, max_iter: int) -> FittedMap:
    """Fit BCTS to outputs divided by a unit, as the code that was released does."""
    likelihood = LabelLikelihood(
        likelihood.z.astype(np.float32), likelihood.y, likelihood.weight, likelihood.offset
    )

    def map_of(theta: Floats) -> ScoreMap:  # `z` is stored divided by the unit
        temperature, bias = theta[0].astype(np.float64), theta[1:].astype(np.float64)
        return ScoreMap(np.full(bias.size, unit / temperature), bias)

    def evaluate(theta: Floats) -> tuple[np.float32, Floats]:
        with np.errstate(all="ignore"):
            value, of = likelihood.value_and_gradient(map_of(theta))
            steep = -unit / theta[0].astype(np.float64) ** 2 * of.slope.sum()
        if not np.isfinite([value, steep]).all():
            raise ValueError(
                "the released BCTS diverges on these logits, which its fixed learning rate "
                "does not suit; use solver='optimal'."
            )
        gradient = np.concatenate([[steep], of.bias]) / likelihood.total
        return np.float32(value / likelihood.total), gradient.astype(np.float32)

    start = np.ones(1 + likelihood.offset.size, np.float32)  # of temperature and biases
    theta, n_iter = released_lbfgs(evaluate, start, min(LBFGS_STEPS, max_iter))
    mean, slope = evaluate(theta)
    least = float(np.abs(slope).max())
    trouble = "" if least <= GRADIENT_TOLERANCE else f"its gradient is still {least:.2g}"
    return FittedMap(map_of(theta), n_iter, trouble, float(mean) * likelihood.total)


@dataclass(kw_only=True, eq=False, repr=False)
class TemperatureScaling(_Calibrator):
    """Calibrate with one temperature, `softmax(z / T)`, which keeps the ranking of the classes.

    Parameters
    ----------
    logits : bool, default=False
        Whether the inputs are logits or log-probabilities `z`, instead of probabilities `f` with
        `z = log max(f, TINY)`.
    balance : {"offset", "weights"}, default="offset"
        How to correct for `source_label_priors`. "offset" adds the log ratio of validation to
        training frequency to the scores while fitting, which gives the likelihood of labels sampled
        per class. "weights" weights each row by the ratio of training to validation frequency of
        its class, which is equivalent in the limit but noisier.
    tol : float, default=1e-6
        Largest gradient of the mean likelihood at which to stop, in units of its curvature.
    max_iter : int, default=1000
        Maximum number of iterations for the temperature, and again for the rest.

    Attributes
    ----------
    temperature_ : float
        The temperature T; above 1, the outputs were overconfident.
    classes_ : ndarray of shape (n_classes,)
        The classes, in the order of the columns.
    n_features_in_ : int
        Number of columns, which is the number of classes.
    nll_ : float
        Mean negative log-likelihood of the validation labels, corrected for balance and without the
        penalty.
    n_iter_ : int
        Iterations used.
    converged_ : bool
        Whether the best fit was reached.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger: On Calibration of Modern Neural Networks. ICML 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from priorshift.calibration import TemperatureScaling
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(5000, 3))
    >>> y = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    >>> too_sure = 3 * logits
    >>> round(TemperatureScaling(logits=True).fit(too_sure, y).temperature_, 1)
    3.0
    """

    _family = "ts"


@dataclass(kw_only=True, eq=False, repr=False)
class BCTS(_Calibrator):
    """Calibrate with a temperature and a bias per class, `softmax(z / T + b)` with `sum(b) = 0`.

    Parameters
    ----------
    logits, balance, tol, max_iter
        As in `TemperatureScaling`.
    ridge : float, "cv" or None, default=None
        Penalty `ridge/2 ||b||^2` on the summed (not mean) negative log-likelihood, as if the biases
        had a normal prior with variance `1 / ridge`; its influence decreases with more data. None
        or 0 means no penalty. "cv" selects the penalty in `RIDGE_GRID` with the smallest log loss
        in cross-validation. Use it after long-tailed training, when an unpenalised bias often does
        harm.
    cv : int, default=5
        Number of folds for `ridge="cv"`. They are stratified by class only with
        `source_label_priors`: otherwise all folds would share the random deviations of the label
        frequencies, and favour a bias that fits them.
    random_state : None, int or Generator, default=None
        Shuffles the rows before they are split into folds; None always uses the same shuffle.
    solver : {"optimal", "released"}, default="optimal"
        "released" reproduces the code that was released with "The Hitchhiker's Guide to Prior-Shift
        Adaptation": 100 steps of PyTorch's L-BFGS at a learning rate of 1e-4, in float32, from
        T = 1 and b = 1, with gradients that add up over the steps. Validation rows are weighted
        as by `balance="weights"`. It does not warn; see `converged_`.

    Attributes
    ----------
    temperature_, classes_, n_features_in_, nll_, n_iter_, converged_
        As in `TemperatureScaling`.
    bias_ : ndarray of shape (n_classes,)
        The biases b; 0 for a class without validation samples. With `solver="released"` they do
        not sum to 0.
    ridge_ : float
        The penalty used.

    References
    ----------
    Alexandari, Kundaje, Shrikumar: Maximum Likelihood with Bias-Corrected Calibration is
    Hard-To-Beat at Label Shift Adaptation. ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from priorshift.calibration import BCTS
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(20000, 3))
    >>> y = np.argmax(logits + [0.5, 0, -0.5] + rng.gumbel(size=logits.shape), axis=1)
    >>> BCTS(logits=True).fit(logits, y).bias_.round(1) + 0.0
    array([ 0.5,  0. , -0.5])
    """

    ridge: float | Literal["cv"] | None = None
    cv: int = 5
    random_state: int | np.random.Generator | None = None
    solver: Literal["optimal", "released"] = "optimal"

    _family = "bcts"


@dataclass(kw_only=True, eq=False, repr=False)
class VectorScaling(_Calibrator):
    """Calibrate with a scale and a bias per class, `softmax(v * z + b)` with `sum(b) = 0`.

    Parameters
    ----------
    logits, balance, ridge, cv, random_state, tol, max_iter
        As in `BCTS`.
    bias : bool, default=True
        Whether to fit a bias. False gives no-bias vector scaling (NBVS), which accepts no `ridge`.

    Attributes
    ----------
    scale_ : ndarray of shape (n_classes,)
        The scales v; that of the best temperature for a class without validation samples.
    bias_, ridge_, classes_, n_features_in_, nll_, n_iter_, converged_
        As in `BCTS`; no `bias_` nor `ridge_` if `bias=False`.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.special import log_softmax
    >>> from priorshift.calibration import VectorScaling
    >>> rng = np.random.default_rng(0)
    >>> z = log_softmax(rng.normal(size=(50000, 3)), axis=1)
    >>> y = np.argmax(z * [0.5, 1, 1.5] + rng.gumbel(size=z.shape), axis=1)
    >>> VectorScaling(logits=True).fit(z, y).scale_.round(1)
    array([0.5, 1. , 1.5])
    """

    bias: bool = True
    ridge: float | Literal["cv"] | None = None
    cv: int = 5
    random_state: int | np.random.Generator | None = None

    _family = "vs"
