"""PriorEstimator: what all estimators share, from checked inputs to a PriorEstimate."""

import warnings
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from priorshift._typing import Floats, Labels, Mask, Vector
from priorshift._validation import (
    check_priors,
    check_proba,
    check_sample_weight,
    check_source_mass,
    classes_of_priors,
    encode_labels,
    in_class_order,
    read_labels,
    settle_classes,
)
from priorshift.estimators._evidence import Evidence
from priorshift.estimators._result import PriorEstimate
from priorshift.exceptions import ConvergenceWarning, PriorShiftWarning
from priorshift.solvers import ADVICE, Solution
from priorshift.statistics import Decision


class PriorEstimator(BaseEstimator):
    """Base of all estimators: `fit` on validation, `estimate` on the target, `adapt`.

    A subclass has a `name`, says which confusion matrix it needs (`_decision`, None for none), and
    turns clean target predictions into a `PriorEstimate` in `_estimate`.
    """

    name: ClassVar[str]

    def fit(
        self,
        y_proba: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        source_priors: Any = None,
        source_label_priors: Any = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        positive_class: Any = None,
    ) -> Self:
        """Learn from a labelled validation set how the classifier errs.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,), optional
            Predicted probabilities on validation; 1-D is the probability of the positive class.
            EM and MAP need none if `source_priors` is given.
        y : array-like of shape (n_samples,), optional
            Validation labels. The validation set may have any class balance.
        source_priors : array-like of shape (n_classes,) or mapping, optional
            Priors the classifier was trained under, best its mean prediction on the training set.
            By default validation is taken to be drawn as the training set was, and its mean
            prediction is used.
        source_label_priors : array-like of shape (n_classes,) or mapping, optional
            Label frequencies of the training set. Without `source_priors`, the mean prediction on
            validation is re-weighted to them.
        classes : array-like of shape (n_classes,), optional
            Class names in the order of the columns; by default a frame's header, else the labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each validation sample.
        positive_class : object, optional
            Whose probability a 1-D `y_proba` is.

        Returns
        -------
        self
        """
        self._given = (source_priors, source_label_priors)
        self._evidence: Evidence | None = None
        if y_proba is None:
            names = self._classes_of_priors(classes)
        else:
            names = self._add(y_proba, y, classes, sample_weight, positive_class)
        return self._settle(names)

    def partial_fit(
        self,
        y_proba: ArrayLike,
        y: ArrayLike,
        *,
        source_priors: Any = None,
        source_label_priors: Any = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add a batch of validation data; only its statistics are kept.

        The first call needs `classes`, and takes the source priors as `fit` does. However the data
        are cut into batches, the result is that of one `fit` on all of them.
        """
        if not hasattr(self, "classes_"):
            if classes is None:
                raise ValueError("the first partial_fit needs classes= in the order of columns.")
            self._given = (source_priors, source_label_priors)
            self._evidence = None
        names = self._add(y_proba, y, getattr(self, "classes_", classes), sample_weight)
        return self._settle(names)

    def estimate(self, y_proba: ArrayLike) -> PriorEstimate:
        """Estimate the target priors from unlabelled predictions.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities on the target, from the same classifier.

        Returns
        -------
        PriorEstimate
        """
        check_is_fitted(self)
        values = in_class_order(check_proba(y_proba), self.classes_)
        check_source_mass(self.source_priors_, values, self.classes_)
        return self._estimate(values)

    def adapt(self, y_proba: ArrayLike) -> NDArray[Any]:
        """Estimate the target priors and adapt the same predictions to them."""
        return self.estimate(y_proba).adapt(y_proba)

    @property
    def _decision(self) -> Decision | None:
        return None

    def _estimate(self, y_proba: Floats) -> PriorEstimate:
        raise NotImplementedError

    def _classes_of_priors(self, classes: ArrayLike | None) -> Labels:
        """Name the classes where there is no validation set, only source priors."""
        source_priors = self._given[0]
        if self._decision is not None:
            raise ValueError(f"{type(self).__name__} needs a validation set: fit(y_proba, y).")
        if source_priors is None:
            raise ValueError(
                f"{type(self).__name__} needs source priors, or predictions to take them from: "
                "fit(source_priors=...) or fit(y_proba)."
            )
        return classes_of_priors(source_priors, classes)

    def _add(
        self,
        y_proba: ArrayLike,
        y: ArrayLike | None,
        classes: ArrayLike | None,
        sample_weight: ArrayLike | None,
        positive_class: Any = None,
    ) -> Labels:
        """Check a batch of validation data and add it to the evidence; return the classes."""
        if y is None and self._decision is not None:
            raise ValueError(f"{type(self).__name__} needs validation labels: fit(y_proba, y).")
        predictions = check_proba(y_proba)
        n_samples = predictions.values.shape[0]
        labels = None if y is None else read_labels(y, n_samples)
        names = settle_classes(predictions, labels, classes, positive_class)
        source_priors, label_priors = self._given
        evidence = Evidence.of(
            in_class_order(predictions, names),
            None if labels is None else encode_labels(labels, names),
            check_sample_weight(sample_weight, n_samples),
            decision=self._decision,
            needs_soft=source_priors is None and label_priors is not None,
        )
        self._evidence = evidence if self._evidence is None else self._evidence + evidence
        return names

    def _settle(self, classes: Labels) -> Self:
        """Set what was fitted, all at once: classes, and the priors trained under.

        These are known by mean prediction (p^f, the ratio's denominator) and by labels (p^N).
        """
        source_priors, label_priors = self._given
        if label_priors is not None:
            label_priors = check_priors(label_priors, classes, "source_label_priors")
        if source_priors is not None:
            source_priors, origin = check_priors(source_priors, classes, "source_priors"), "given"
        else:
            assert self._evidence is not None
            source_priors, origin = self._sources_by_default(self._evidence, label_priors)
        self.classes_, self.n_features_in_ = classes, classes.size
        self.source_priors_, self.source_priors_from_ = source_priors, origin
        self.source_label_priors_ = source_priors if label_priors is None else label_priors
        if self._evidence is not None and self._evidence.confusion is not None:
            self.confusion_ = self._evidence.confusion
        return self

    def _sources_by_default(
        self, evidence: Evidence, label_priors: Vector | None
    ) -> tuple[Vector, str]:
        """Take the source priors from validation, and say how."""
        if label_priors is not None and evidence.soft is not None:
            mean = evidence.soft.conditional @ label_priors
            return mean / mean.sum(), "mean prediction on validation at source_label_priors"
        return evidence.predicted.frequencies, (
            "mean prediction on validation, taken to be drawn as the training set was"
        )

    def _warn_of_unseen(self, seen: Mask) -> tuple[Any, ...]:
        """Name the classes that validation lacks, with a warning."""
        unseen = tuple(self.classes_[~seen].tolist())
        if unseen:
            warnings.warn(
                f"validation has no sample of class {', '.join(map(repr, unseen))}: a confusion "
                "matrix cannot identify its prior, so EM estimates it from the predictions alone.",
                PriorShiftWarning,
                stacklevel=4,
            )
        return unseen

    def _result(
        self, priors: Vector, solution: Solution, n_target: int, **more: Any
    ) -> PriorEstimate:
        """Wrap a solution, with a warning where it fell short of its tolerance."""
        asked_for_less = getattr(self, "solver", "certified") != "certified"
        if solution.status == "not_converged" and not asked_for_less:
            warnings.warn(
                f"{self.name} is not certified after {solution.n_iter} passes: its gap is "
                f"{solution.gap}; {ADVICE['not_converged']}.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return PriorEstimate(
            method=self.name,
            classes=self.classes_,
            priors=priors,
            source_priors=self.source_priors_,
            source_priors_from=self.source_priors_from_,
            status=solution.status,
            gap=solution.gap,
            n_iter=solution.n_iter,
            objective=solution.objective,
            n_target=n_target,
            **more,
        )
