"""FitsValidation: what estimators learn from a labelled validation set, at once or in batches."""

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from priorshift._typing import Labels, Vector
from priorshift._validation import check_priors, some
from priorshift.estimators._evidence import Evidence, Validation
from priorshift.estimators._reading import Given, classes_without_rows, needs_soft, read_rows
from priorshift.estimators._source import Mismatch, mismatch_of
from priorshift.exceptions import PriorShiftWarning, warn_user
from priorshift.execution import Table
from priorshift.statistics import Decision


class FitsValidation(BaseEstimator):
    """The half of an estimator that meets validation: `fit` and `partial_fit`."""

    keeps_rows: ClassVar[bool] = False
    """Whether `fit` keeps validation row by row; a table of rows is then read into memory."""

    calibrates: ClassVar[bool] = False
    """Whether the method calibrates predictions, so that they may contradict the labels."""

    estimates_nothing: ClassVar[bool] = False
    """Whether the method is the baseline that returns the source priors."""

    @property
    def _decision(self) -> Decision | None:
        """Which decisions the confusion matrix counts; None where there is none."""
        return None

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
        given = (source_priors, source_label_priors)
        if y_proba is None:
            return self._settle(classes_without_rows(self, source_priors, classes), given, None)
        names, rows = read_rows(self, y_proba, y, classes, sample_weight, given, positive_class)
        kept = None if isinstance(rows.y_proba, Table) else rows
        self._settle(names, given, self._count(rows, given), kept)
        self._warn_of_mismatch(rows)
        return self

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
            given = (source_priors, source_label_priors)
            names, rows = read_rows(self, y_proba, y, classes, sample_weight, given)
            return self._settle(names, given, self._count(rows, given))
        if source_priors is not None or source_label_priors is not None:
            raise ValueError(
                "source_priors and source_label_priors belong to the first partial_fit; leave them "
                "out of later ones."
            )
        if classes is not None and list(classes) != self.classes_.tolist():  # type: ignore[arg-type]
            raise ValueError(
                f"classes must stay those of the first partial_fit, in its order: "
                f"{some(self.classes_.tolist())}."
            )
        _, rows = read_rows(self, y_proba, y, self.classes_, sample_weight, self._given)
        evidence = self._count(rows, self._given)
        if self._evidence is not None:
            evidence = self._evidence + evidence
        return self._settle(self.classes_, self._given, evidence)

    def _warn_of_mismatch(self, rows: Validation) -> None:
        """Warn where the mean prediction cannot be the priors that the model was trained under."""
        told = any(priors is not None for priors in self._given)
        found = (
            None if told or self.calibrates or self.estimates_nothing else self._mismatch_on(rows)
        )
        if found is not None:
            warn_user(
                f"{found.say(self.classes_)}. {type(self).__name__} takes the mean prediction for "
                "the priors that the model was trained under. Give source_priors= those priors "
                f"({1 / self.classes_.size:.3g} per class after class_weight='balanced'), or use "
                "Auto or em-bcts, which calibrate.",
                PriorShiftWarning,
            )

    def _mismatch_on(self, rows: Validation | None) -> Mismatch | None:
        """Compare the mean prediction with the labels of validation."""
        if rows is None or rows.y is None or self._evidence is None:
            return None
        weight = np.ones(rows.y.size) if rows.sample_weight is None else rows.sample_weight
        labelled = np.bincount(rows.y, weight, self.classes_.size)
        predicted = self._evidence.predicted.frequencies
        weight = weight / weight.max()
        n = weight.sum() ** 2 / (weight @ weight)
        return mismatch_of(predicted, labelled / labelled.sum(), float(n))

    def _count(self, rows: Validation, given: Given) -> Evidence:
        """Return the statistics of clean validation rows."""
        return Evidence.of(*rows, decision=self._decision, needs_soft=needs_soft(given))

    def _settle(
        self,
        classes: Labels,
        given: Given,
        evidence: Evidence | None,
        rows: Validation | None = None,
    ) -> Self:
        """Set what was fitted, all at once, so that a failed fit changes nothing.

        The priors trained under are known by mean prediction (p^f, the ratio's denominator) and by
        labels (p^N).
        """
        source_priors, label_priors = given
        if label_priors is not None:
            label_priors = check_priors(label_priors, classes, "source_label_priors")
        if source_priors is not None:
            source_priors = check_priors(source_priors, classes, "source_priors")
        source, origin = self._sources(evidence, source_priors, label_priors)
        self._given, self._evidence, self._validation = given, evidence, rows
        self.classes_, self.n_features_in_ = classes, classes.size
        self.source_priors_, self.source_priors_from_ = source, origin
        self.source_label_priors_ = source if label_priors is None else label_priors
        if evidence is not None and evidence.confusion is not None:
            self.confusion_ = evidence.confusion
        return self

    def _labelled_rows(self) -> Validation:
        """Return the validation rows with their labels, or say how to keep them."""
        rows = self._validation
        if rows is None or rows.y is None:
            raise ValueError(
                f"{type(self).__name__} keeps no validation rows after partial_fit, and an "
                "interval needs their spread; use fit(y_proba, y) on all of them, or estimate "
                "without confidence_level."
            )
        return rows

    def _fit_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return a fit that is no more than counts as plain values and arrays; see `_restore`."""
        assert self._evidence is not None
        described, arrays = self._evidence.to_arrays()
        arrays |= {
            "classes": self.classes_,
            "source_priors": self.source_priors_,
            "source_label_priors": self.source_label_priors_,
        }
        state = {
            "given": [value is not None for value in self._given],
            "source_priors_from": self.source_priors_from_,
            "evidence": described,
        }
        return state, arrays

    def _restore(self, state: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Set the fit that `_fit_state` described, to the last bit."""
        sources = arrays["source_priors"], arrays["source_label_priors"]
        given = [p if known else None for p, known in zip(sources, state["given"], strict=True)]
        evidence = Evidence.from_arrays(state["evidence"], arrays)
        self._settle(arrays["classes"], (given[0], given[1]), evidence)
        # settling scales priors to sum to 1 again, which may change the last bit
        self.source_priors_, self.source_label_priors_ = sources
        self.source_priors_from_ = state["source_priors_from"]
        return self

    def _sources(
        self, evidence: Evidence | None, source_priors: Vector | None, label_priors: Vector | None
    ) -> tuple[Vector, str]:
        """Settle the denominator of the ratio, and say where it is from."""
        if source_priors is not None:
            return source_priors, "given"
        assert evidence is not None
        if label_priors is not None and evidence.soft is not None:
            # a class that validation lacks counts as always recognised
            unseen = np.where(evidence.soft.seen, 0.0, label_priors)
            mean = evidence.soft.conditional @ label_priors + unseen
            return mean / mean.sum(), "mean prediction on validation at source_label_priors"
        return evidence.predicted.frequencies, (
            "mean prediction on validation, taken to be drawn as the training set was"
        )
