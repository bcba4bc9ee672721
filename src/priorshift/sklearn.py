"""Adapt any scikit-learn classifier to the class priors of its target.

`PriorAdaptedClassifier` comes first; below it are the predictions of the wrapped classifier: out of
fold, calibrated, in the order of the classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import assert_all_finite, get_tags, indexable
from sklearn.utils.metaestimators import _safe_split, available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import (
    _check_method_params,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
)

from priorshift._typing import Floats, Indices, Labels, Vector
from priorshift.adapt import Goal, adapt_proba, cheapest
from priorshift.border import (
    Predictions,
    as_array,
    check_priors,
    check_proba,
    check_sample_weight,
    check_source_mass,
    like_input,
    ordered,
    read_labels,
    some,
)
from priorshift.calibration import TemperatureScaling
from priorshift.counts import DecisionCounts
from priorshift.estimators import Auto, PriorEstimate, PriorEstimator
from priorshift.estimators.data import find_mismatch
from priorshift.evidence import explain_by_priors
from priorshift.exceptions import PriorShiftWarning, warn_user
from priorshift.text import brief

MOST_CLASSES = 500
"""Classes beyond which it is not checked whether prior shift explains a target."""

Fold = tuple[Indices, Indices]
"""Training and test rows; every row is a test row of one fold."""


def _predicts_proba(classifier: PriorAdaptedClassifier) -> bool:
    getattr(getattr(classifier, "estimator_", classifier.estimator), "predict_proba")  # noqa: B009
    return True  # or the inner estimator's own AttributeError says why not


class PriorAdaptedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    r"""Wrap a classifier so that its predictions follow the class priors of the target.

    .. math:: p(y = k \mid x) \propto f_k(x)\, P_k / p_k

    where f are the (calibrated) predictions of `estimator`, p its source priors, and P the target
    priors. Call `adapt` to estimate the target priors, or `set_target_priors` if you know them.
    Before that, predictions are those of the classifier.

    Parameters
    ----------
    estimator : classifier with `predict_proba`
        `fit` fits it on folds, to learn its errors from out-of-fold predictions, and then on all
        rows. A fitted model in a `FrozenEstimator` (see `from_fitted`) is not fitted again; pass
        held-out validation data to `fit`.
    prior_estimator : PriorEstimator, default=None
        Estimator of the target priors, which is cloned; None means `Auto()`.
    calibrator : object with `fit(y_proba, y)` and `predict_proba(y_proba)`, default=None
        For example `TemperatureScaling()` or `BCTS()`; None means no calibration. It is cloned.
        For the confusion matrix, each row is calibrated by a calibrator that was fitted without it.
    source_priors : array-like of shape (n_classes,) or mapping from class to prior, default=None
        Priors the classifier was trained with; arrays are in the order of `classes_`. None leaves
        them to `prior_estimator`: usually the mean prediction on the validation or training rows.
        For a classifier with class weights, pass the shares of the weighted classes. They are also
        passed to a calibrator whose `fit` accepts `source_label_priors`; otherwise it would
        calibrate to the balance of the validation data.
    costs : array-like of shape (n_classes, n_classes) or mapping, default=None
        Costs of errors, as for `decide`, in the order of `classes_`. `predict` then returns the
        class with the lowest expected cost, and the default `Auto` judges the gain by it.
    cv : int, splitter or iterable of (train, test), default=5
        Folds for out-of-fold predictions; a number means stratified folds, and where rows belong
        together, pass the folds: `list(GroupKFold(5).split(X, y, groups))`. Every row must be a
        test row exactly once, and every class must occur in the training rows of every fold, so it
        needs at least 2 samples. `fit` warns if a class has fewer samples than there are folds. For
        a frozen `estimator`, only the calibrator uses folds.
    n_jobs : int, default=None
        Number of folds to fit in parallel, as in scikit-learn.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, in the order of the columns of `predict_proba`. For a frozen model, its
        classes, even if validation lacks some of them.
    estimator_ : classifier
        Fitted on all rows, or frozen.
    calibrator_ : object or None
        Fitted on the out-of-fold or validation predictions of all rows.
    prior_estimator_ : PriorEstimator
        Fitted on the out-of-fold or validation predictions, which are cross-calibrated if there is
        a calibrator.
    source_priors_ : ndarray of shape (n_classes,)
        Denominator of the ratio.
    target_priors_ : ndarray of shape (n_classes,)
        Priors that predictions are adapted to; initially `source_priors_`.
    shift_ : PriorEstimate or None
        The estimate made by `adapt`; None before, and after `set_target_priors`.
    n_features_in_ : int
        Number of features seen in fit; only if `estimator_` has it.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen in fit; only if `estimator_` has them.

    Notes
    -----
    Put the whole pipeline inside, `PriorAdaptedClassifier(pipeline)`: then `adapt` accepts raw
    rows, and cross-validation includes the preprocessing. If the wrapper is the last step of a
    pipeline, call `pipe[-1].adapt(pipe[:-1].transform(X_target))`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> import priorshift as ps
    >>> rng = np.random.default_rng(0)
    >>> def draw(share_ill, n=2000):
    ...     ill = rng.random(n) < share_ill
    ...     return rng.normal(size=(n, 2)) + 1.5 * ill[:, None], np.where(ill, "ill", "well")
    >>> X, y = draw(share_ill=0.5)
    >>> X_target, y_target = draw(share_ill=0.1)
    >>> clf = ps.PriorAdaptedClassifier(LogisticRegression()).fit(X, y)
    >>> round(clf.score(X_target, y_target), 2)
    0.85
    >>> clf.adapt(X_target).target_priors_.round(2)
    array([0.09, 0.91])
    >>> round(clf.score(X_target, y_target), 2)
    0.93
    """

    def __init__(
        self,
        estimator: Any,
        *,
        prior_estimator: PriorEstimator | None = None,
        calibrator: Any = None,
        source_priors: Any = None,
        costs: Any = None,
        cv: Any = 5,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.prior_estimator = prior_estimator
        self.calibrator = calibrator
        self.source_priors = source_priors
        self.costs = costs
        self.cv = cv
        self.n_jobs = n_jobs

    @classmethod
    def from_fitted(cls, model: Any, **params: Any) -> Self:
        """Wrap a fitted model, which stays as it is; `fit` then takes validation data.

        Parameters
        ----------
        model : fitted classifier with `predict_proba` and `classes_`
        **params
            The other parameters of the constructor.

        Returns
        -------
        PriorAdaptedClassifier
            A wrapper around a `FrozenEstimator`, not yet fitted to validation data.
        """
        frozen = model if isinstance(model, FrozenEstimator) else FrozenEstimator(model)
        return cls(frozen, **params)

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **fit_params: Any
    ) -> Self:
        """Fit the classifier and learn its errors; discard any earlier adaptation.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Training rows; held-out validation rows if `estimator` is frozen.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights for the classifier, the calibrator and the source statistics.
        **fit_params
            For `estimator.fit`.
        """
        check_parts(self.estimator, self.prior_estimator, self.calibrator)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        labels = column_or_1d(as_array(y, "y"), warn=True)
        read = read_labels(labels)  # refuses missing labels, and text mixed with numbers
        if read.dtype.kind != "U":  # text stays as it came, for predictions come back like it
            labels = read
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        X, labels = indexable(X, labels)  # the inner estimator checks the rows
        weight = check_sample_weight(sample_weight, labels.size)
        if self._frozen and fit_params:
            raise ValueError(
                f"the estimator is frozen and will not be fitted, so fit takes no "
                f"{some(fit_params)}."
            )
        to_fit = dict(fit_params)
        if weight is not None and has_fit_parameter(self.estimator, "sample_weight"):
            to_fit["sample_weight"] = weight
        elif (
            weight is not None
            and not self._frozen
            and not any(name.endswith("__sample_weight") for name in to_fit)
        ):
            warn_user(
                f"{type(self.estimator).__name__}.fit takes no sample_weight: the weights count "
                "for the source statistics alone, and the classifier is fitted without them. A "
                "pipeline takes them as <step>__sample_weight too.",
                PriorShiftWarning,
            )
        folds: list[Fold] = []
        if not self._frozen or self.calibrator is not None:
            folds = split(self.cv, X, labels)
        if self._frozen:
            estimator, classes = self.estimator, classes_of(self.estimator, labels)
            y_proba = predictions_of(estimator, X, classes).values
        else:
            numbered = self.cv is None or isinstance(self.cv, Integral)
            classes = require_classes(labels, folds, weight, warn=numbered)
            # not `cross_val_predict`, which replaces labels by numbers: a `class_weight` by name
            # would fail
            parts = Parallel(n_jobs=self.n_jobs)(
                delayed(_fit_and_predict)(clone(self.estimator), X, labels, fold, classes, to_fit)
                for fold in folds
            )
            y_proba = np.empty((labels.size, classes.size), np.result_type(*parts))
            y_proba[np.concatenate([test for _, test in folds])] = np.concatenate(parts)
            estimator = clone(self.estimator).fit(X, labels, **to_fit)
        calibrator, source = None, self.source_priors
        if self.calibrator is not None:
            calibrator, y_proba = self._cross_calibrate(y_proba, labels, folds, classes, weight)
        costs = Goal.of(self.costs, "accuracy", classes).costs
        prior_estimator = (
            Auto(costs=costs) if self.prior_estimator is None else clone(self.prior_estimator)
        )
        checked = Predictions.from_checked(y_proba)
        prior_estimator.fit(
            checked, labels, classes=classes, source_priors=source, sample_weight=weight
        )
        # all at once and last, so that a failed fit changes nothing
        self.estimator_, self.classes_ = estimator, classes
        self.calibrator_, self.prior_estimator_ = calibrator, prior_estimator
        self._costs = costs
        self.source_priors_ = prior_estimator.source_priors_
        return self._follow(self.source_priors_)

    def estimate(self, X: Any, **options: Any) -> PriorEstimate:
        """Estimate the target priors from unlabelled rows, without adapting to them.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Rows of the target.
        **options
            Options for `prior_estimator_.estimate`, such as `confidence_level=0.95` for intervals.
        """
        y_proba = self._source(X).values  # first, for it says what is wrong before fit
        return self.prior_estimator_.estimate(Predictions.from_checked(y_proba), **options)

    def adapt(self, X: Any) -> Self:
        """Estimate the target priors from unlabelled rows, and adapt predictions to them.

        Sets `shift_` and `target_priors_`, replacing those of any earlier call. It assumes prior
        shift: that each class looks as it did and only the class balance changed. Where the size of
        what changed refutes that, it warns; `assess` tells more, and which rows to label.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Rows of the target.
        """
        return self._adapt(X, anew=True)

    def partial_adapt(self, X: Any) -> Self:
        """Adapt to another batch, together with all rows since the last `adapt` (inclusive).

        However you split the rows into batches, the result is the same as one `adapt` on all of
        them. If the method needs only counts of decisions, only these are stored. Other methods,
        such as EM, and any method if validation lacks a class, need every row again. For them, the
        predictions of all batches are stored in float32, `4 * n_classes` bytes per row, and
        pickled, until you call `fit` or `set_target_priors`.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            A batch of rows of the target.
        """
        return self._adapt(X, anew=False)

    def set_target_priors(self, target_priors: Any) -> Self:
        """Adapt predictions to known priors; discard any estimate.

        Parameters
        ----------
        target_priors : array-like of shape (n_classes,) or mapping from class to prior
            Arrays are in the order of `classes_`.
        """
        check_is_fitted(self)
        priors = check_priors(target_priors, self.prior_estimator_.classes_, "target_priors")
        if self.source_priors is None and not np.allclose(priors, self.source_priors_):
            why: str | None = None
            if self.calibrator is None or isinstance(self.calibrator, TemperatureScaling):
                why = class_weight_of(self.estimator_)
            why = why or find_mismatch(self.prior_estimator_._evidence)
            if why:
                warn_user(
                    f"{why}, so the mean prediction, which stands for source_priors, is not the "
                    "class balance that the model believes in, and predictions under known priors "
                    "will be off. Pass source_priors=, the shares of the weighted classes "
                    f"({1 / self.classes_.size:.3g} each after class_weight='balanced'), or "
                    "calibrator=BCTS().",
                    PriorShiftWarning,
                )
        return self._follow(priors)

    @available_if(_predicts_proba)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Predict class probabilities under `target_priors_`.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of `classes_`. If `predict_proba` of `estimator_` returns a frame,
            a frame with the same index and column order.
        """
        source = self._source(X)
        return like_input(source, self._adapted(source.values), self.classes_)

    @available_if(_predicts_proba)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """Predict the logarithm of `predict_proba`; -inf for probability 0."""
        source = self._source(X)
        with np.errstate(divide="ignore"):
            log_proba = np.log(self._adapted(source.values))
        return like_input(source, log_proba, self.classes_)

    @available_if(_predicts_proba)  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> Labels:
        """Predict the most probable class under `target_priors_`, or the one of lowest cost.

        Parameters
        ----------
        X
            As for `predict_proba`.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        y_proba = self._adapted(self._source(X).values)  # first: it says what is wrong before fit
        return self.classes_[cheapest(y_proba, self._costs)]

    def _adapted(self, y_proba: Floats) -> Floats:
        """Adapt predictions under the source priors to `target_priors_`."""
        checked = Predictions.from_checked(y_proba)
        adapted: Floats = y_proba
        if self.shift_ is not None:
            adapted = self.shift_.adapt(checked)
        elif not np.array_equal(self.target_priors_, self.source_priors_):
            adapted = adapt_proba(checked, self.source_priors_, self.target_priors_)
        return adapted

    def _source(self, X: Any) -> Predictions:
        """Predict under the source priors, calibrated if need be; keep a frame."""
        check_is_fitted(self)
        source = predictions_of(self.estimator_, X, self.classes_)
        if self.calibrator_ is None:
            return source
        calibrated = predictions_of(self.calibrator_, source.values, self.classes_)
        return replace(source, values=calibrated.values)

    def _adapt(self, X: Any, *, anew: bool) -> Self:
        y_proba, estimator = self._source(X).values, self.prior_estimator_
        kept: Any = (y_proba.astype(np.float32),)
        if not estimator.needs_rows:
            decision = estimator.confusion_.decision
            kept = DecisionCounts.from_arrays(y_proba, decision=decision)
        if anew or self._target is None:
            # in full precision, whatever is kept
            shift = estimator.estimate(Predictions.from_checked(y_proba))
            rows, K = estimator._evidence.rows, self.classes_.size
            # only of a frozen model: others than `estimator_` make out-of-fold predictions
            known = rows is not None and rows.y is not None and K <= MOST_CLASSES
            plain = self._frozen and self.calibrator is None and not shift.unseen_classes
            if known and plain and shift.strength:
                before = np.bincount(rows.y, minlength=K) / rows.y.size
                found = explain_by_priors(rows.y_proba, rows.y, y_proba, before)
                if found.explained is not None and not found.possible:
                    warn_user(
                        f"a change of class balance explains only {found.explained:.0%} of what "
                        "changed in the predictions, and adapting assumes that nothing else did: "
                        "it may harm. See assess.",
                        PriorShiftWarning,
                    )
            return self._follow(shift.priors, shift, kept)
        source, origin = estimator.source_priors_, estimator.source_priors_from_
        check_source_mass(source, y_proba, estimator.classes_, origin=origin)
        kept = self._target + kept
        if isinstance(kept, DecisionCounts):
            shift = estimator.estimate_counts(kept)
        else:
            shift = estimator.estimate(np.concatenate(kept))
        return self._follow(shift.priors, shift, kept)

    def _cross_calibrate(
        self, y_proba: Floats, y: Labels, folds: list[Fold], classes: Labels, weight: Vector | None
    ) -> tuple[Any, Floats]:
        """Return a calibrator fitted on all rows, and predictions by ones fitted without each."""
        calibrator, name = self.calibrator, type(self.calibrator).__name__
        if weight is not None and not has_fit_parameter(calibrator, "sample_weight"):
            raise ValueError(
                f"{name}.fit takes no sample_weight; use a calibrator that does, or no weights."
            )
        more = {"classes": classes} if has_fit_parameter(calibrator, "classes") else {}
        if self.source_priors is not None:
            if has_fit_parameter(calibrator, "source_label_priors"):
                more["source_label_priors"] = self.source_priors
            else:
                warn_user(
                    f"{name}.fit takes no source_label_priors, so it calibrates to the balance of "
                    "y; if source_priors differ from that, adapted predictions are wrong by the "
                    "ratio of the two.",
                    PriorShiftWarning,
                )

        def fit(rows: Indices) -> Any:
            weights = {} if weight is None else {"sample_weight": weight[rows]}
            return clone(calibrator).fit(y_proba[rows], y[rows], **more, **weights)

        calibrated = np.empty(y_proba.shape)
        with warnings.catch_warnings():
            # of classes that a fold lacks; of those that all rows lack, the last fit warns
            warnings.simplefilter("ignore", PriorShiftWarning)
            for train, test in folds:
                calibrated[test] = predictions_of(fit(train), y_proba[test], classes).values
        return fit(np.arange(y.size)), calibrated

    def _follow(
        self, priors: Vector, shift: PriorEstimate | None = None, target: Any = None
    ) -> Self:
        """Set the priors that predictions are adapted to, and what they come from.

        `target` is what batches leave: counts of decisions if the method needs only these, else
        all predictions, in float32.
        """
        self.target_priors_, self.shift_, self._target = priors.copy(), shift, target
        return self

    # What scikit-learn asks a wrapper for

    @property
    def n_features_in_(self) -> int:
        """Number of features seen in fit."""
        return self.estimator_.n_features_in_

    @property
    def feature_names_in_(self) -> Labels:
        """Names of features seen in fit."""
        return self.estimator_.feature_names_in_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        try:
            inner = get_tags(self.estimator)
        except (AttributeError, TypeError):  # a model that only looks like scikit-learn's
            return tags
        tags.input_tags = deepcopy(inner.input_tags)
        tags.non_deterministic = inner.non_deterministic
        return tags

    @property
    def _frozen(self) -> bool:
        return isinstance(self.estimator, FrozenEstimator)


def name_of(model: Any) -> str:
    """Name a model for a message, by what was frozen rather than that it was."""
    return type(model.estimator if isinstance(model, FrozenEstimator) else model).__name__


def classes_of(model: Any, y: Labels) -> Labels:
    """Read the names of a fitted model's columns, and check that labels are among them."""
    name = name_of(model)
    if not hasattr(model, "classes_"):
        raise ValueError(
            f"the frozen estimator ({name}) has no classes_, so the columns of its predict_proba "
            "have no names. Fit it first, or leave it unfrozen and it will be fitted here; a model "
            "of your own needs the attribute classes_."
        )
    classes = np.asarray(model.classes_)
    if classes.size < 2:
        raise ValueError(
            f"the frozen estimator ({name}) knows 1 class only ({some(classes.tolist())}); class "
            "priors need at least 2."
        )
    known = {*classes.tolist(), *map(str, classes.tolist())}  # a header is text, labels may not be
    strange = [k for k in np.unique(y).tolist() if k not in known and str(k) not in known]
    if strange:
        raise ValueError(
            f"y has classes that the frozen estimator ({name}) does not know: {some(strange)}; it "
            f"knows {some(classes.tolist())}. Leave out their rows, or train a model on them too."
        )
    return classes


def predictions_of(model: Any, X: Any, classes: Labels) -> Predictions:
    """Predict and check probabilities, in the order of `classes`; keep the frame, if it is one."""
    name = name_of(model)
    found = np.asarray(getattr(model, "classes_", classes))
    if set(found.tolist()) != set(classes.tolist()):
        raise ValueError(
            f"{name} has the classes {some(found.tolist())} where {some(classes.tolist())} are "
            "needed: it must be fitted to rows of every class. Calibrators such as BCTS are told "
            "the classes, and need no rows of each."
        )
    y_proba, name = model.predict_proba(X), f"predict_proba of {name}"
    if np.shape(y_proba)[1:] != classes.shape:
        raise ValueError(
            f"{name} has shape {np.shape(y_proba)}; one column per class is needed: "
            f"{some(found.tolist())}."
        )
    checked = check_proba(y_proba, name)
    values: Floats = ordered(checked, found, name).values
    if not np.array_equal(found, classes):
        at = {label: column for column, label in enumerate(found.tolist())}
        values = values[:, [at[label] for label in classes.tolist()]]
    return replace(checked, values=values)


def class_weight_of(model: Any) -> str:
    """Say which class weights a fitted model was trained with, in whatever it is wrapped."""
    model = model.estimator if isinstance(model, FrozenEstimator) else model
    model = getattr(model, "best_estimator_", model)
    known = model.get_params() if hasattr(model, "get_params") else {}
    for path, value in known.items():
        name = path.rpartition("__")[2]
        weighs = name == "class_weight" or (name == "scale_pos_weight" and value != 1)
        if weighs and value is not None:
            return f"the classifier has {name}={brief(value)}"
    return ""


def check_parts(estimator: Any, prior_estimator: Any, calibrator: Any) -> None:
    """Reject unsuitable parts before any work."""
    given = estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator
    if isinstance(given, type):
        raise ValueError(f"estimator must be an instance, {given.__name__}(); got the class.")
    try:
        estimator.predict_proba  # noqa: B018
    except AttributeError as error:  # which says why, for instance voting='hard'
        raise ValueError(
            f"estimator has no predict_proba ({name_of(estimator)}), and prior shift is corrected "
            "in probabilities. Give a classifier that has it; one with a decision_function alone "
            "can be wrapped in sklearn.calibration.CalibratedClassifierCV."
        ) from error
    if not hasattr(estimator, "get_params"):
        raise ValueError(
            f"estimator ({name_of(estimator)}) has no get_params, so no copies of it can be fitted "
            "to folds. If it is fitted already, use PriorAdaptedClassifier.from_fitted."
        )
    if prior_estimator is not None and not isinstance(prior_estimator, PriorEstimator):
        raise ValueError(
            f"prior_estimator must be an instance such as EM(), or None; got {prior_estimator!r}. "
            "get_estimator makes one from its name."
        )
    if calibrator is None:
        return
    able = hasattr(calibrator, "fit") and hasattr(calibrator, "predict_proba")
    if isinstance(calibrator, type) or not able:
        raise ValueError(
            "calibrator must be an instance with fit(y_proba, y) and predict_proba(y_proba), "
            f"such as BCTS(), or None; got {calibrator!r}."
        )
    if getattr(calibrator, "logits", False):
        raise ValueError(
            "calibrator has logits=True, but it will receive probabilities; leave out logits."
        )


def split(cv: Any, X: Any, y: Labels) -> list[Fold]:
    """Cut rows into folds, and check that each is a test row once."""
    # heavy: priorshift itself needs none of it
    from sklearn.model_selection import StratifiedKFold, check_cv

    splitter = check_cv(cv, y, classifier=True)
    most = np.unique(y, return_counts=True)[1].max()
    if isinstance(splitter, StratifiedKFold) and splitter.n_splits > most:
        raise ValueError(
            f"cv asks for {splitter.n_splits} folds, but no class has more than {most} samples; "
            "use fewer folds, or give more rows."
        )
    rows = np.arange(y.size)  # a splitter may give masks as well as indices
    with warnings.catch_warnings():
        # which classes are too rare for their folds is for require_classes to say
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        folds = [(rows[train], rows[test]) for train, test in splitter.split(X, y)]
    if not folds:
        raise ValueError(
            "cv gives no folds; an iterator serves one fit only, so pass a list of (train, test)."
        )
    times = np.bincount(np.concatenate([test for _, test in folds]), minlength=y.size)
    bad = np.flatnonzero(times != 1)
    if bad.size:
        raise ValueError(
            f"cv must have every row among its test rows exactly once; row {bad[0]} is there "
            f"{times[bad[0]]} times ({bad.size} such rows). KFold and its kin do, "
            "ShuffleSplit and repeated folds do not."
        )
    return folds


def require_classes(y: Labels, folds: list[Fold], weight: Vector | None, *, warn: bool) -> Labels:
    """Return the classes: two at least, and each known to every fold; warn of rare ones."""
    classes, codes = np.unique(y, return_inverse=True)
    weighty = classes[np.bincount(codes, weight) > 0].tolist()
    if len(weighty) < 2:
        raise ValueError(
            f"y has 1 class only ({some(weighty)}), apart from rows of weight 0; class priors "
            "need at least 2."
        )
    for number, (train, _) in enumerate(folds):
        absent = np.bincount(codes[train], minlength=classes.size) == 0
        if absent.any():
            raise ValueError(
                f"fold {number} of cv trains without class {some(classes[absent].tolist())}, so no "
                "out-of-fold prediction can know it. A class needs 2 samples at least, in "
                "different folds: drop or merge rare classes, or use stratified folds."
            )
    few = np.bincount(codes) < len(folds)
    if warn and few.any():
        warn_user(
            f"class {some(classes[few].tolist())} has fewer samples than there are folds "
            f"({len(folds)}): its errors are estimated from those few.",
            PriorShiftWarning,
        )
    return classes


def _fit_and_predict(
    estimator: Any, X: Any, y: Labels, fold: Fold, classes: Labels, fit_params: Mapping[str, Any]
) -> Floats:
    """Predict the test rows of a fold by a clone that was fitted without them."""
    train, test = fold
    X_train, y_train = _safe_split(estimator, X, y, train)
    X_test, _ = _safe_split(estimator, X, None, test, train)
    estimator.fit(X_train, y_train, **_check_method_params(X, fit_params, train))
    found: Floats = predictions_of(estimator, X_test, classes).values
    return found
