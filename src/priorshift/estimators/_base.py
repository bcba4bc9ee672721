"""PriorEstimator: what all estimators share, from checked inputs to a PriorEstimate."""

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from priorshift._typing import Labels, Mask, Vector
from priorshift._validation import (
    NO_PRIOR,
    check_priors,
    check_proba,
    check_sample_weight,
    check_source_mass,
    classes_of_priors,
    encode_labels,
    in_class_order,
    read_labels,
    settle_classes,
    some,
)
from priorshift.estimators._evidence import Evidence, Validation
from priorshift.estimators._result import PriorEstimate
from priorshift.estimators._wide import as_taken, require_few_classes
from priorshift.exceptions import ConvergenceWarning, PriorShiftWarning, warn_user
from priorshift.execution import Rows, Table, take_rows
from priorshift.solvers import Solution
from priorshift.statistics import Decision, DecisionCounts
from priorshift.uncertainty import Estimand, IntervalMethod, IntervalRequest, PriorInterval

NOTICEABLE = 0.01
"""A prior worth a warning when it cannot reach the predictions; a hyper-prior's share is less."""


class PriorEstimator(BaseEstimator):
    """Base of all estimators: `fit` on validation, `estimate` on the target, `adapt`.

    A subclass has a `name`, says which confusion matrix it needs (`_decision`, None for none), and
    turns clean target predictions into a `PriorEstimate` in `_estimate`. Those that need no more
    than counts of decisions derive from `DecisionEstimator`.
    """

    name: ClassVar[str]

    _keeps_rows: ClassVar[bool] = False
    """Whether validation's rows must be in memory: a table of them is then read whole."""

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
            return self._settle(self._classes_of_priors(source_priors, classes), given, None)
        names, rows = self._read(y_proba, y, classes, sample_weight, given, positive_class)
        kept = None if isinstance(rows.y_proba, Table) else rows
        return self._settle(names, given, self._count(rows, given), kept)

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
            names, rows = self._read(y_proba, y, classes, sample_weight, given)
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
        _, rows = self._read(y_proba, y, self.classes_, sample_weight, self._given)
        evidence = self._count(rows, self._given)
        if self._evidence is not None:
            evidence = self._evidence + evidence
        return self._settle(self.classes_, self._given, evidence)

    def estimate(
        self,
        y_proba: ArrayLike,
        confidence_level: float | None = None,
        random_state: int | np.random.Generator | None = None,
        *,
        interval_method: IntervalMethod = "auto",
        n_resamples: int = 300,
        simultaneous: bool = False,
        estimand: Estimand = "population",
    ) -> PriorEstimate:
        """Estimate the target priors from unlabelled predictions.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities on the target, from the same classifier.
        confidence_level : float, optional
            Such as 0.95: fill in `interval` and `standard_error`, from the noise of validation and
            target. By default there are none, and they cost nothing.
        random_state : None, int or numpy.random.Generator, optional
            For the intervals that draw: an int gives the same ones every time.
        interval_method : {"auto", "asymptotic", "bootstrap", "bayesian"}, default="auto"
            "asymptotic" are standard errors in closed form for methods with a confusion matrix,
            and likelihood ratios for EM and MAP, which assume calibrated outputs; "bootstrap"
            resamples validation and target; "bayesian" are credible intervals under Dirichlet(1/2),
            whatever the method's own hyper-prior, by Gibbs sampling of priors and confusion matrix
            from hard decisions.
            "auto" is "asymptotic" where there is such, else "bootstrap".
        n_resamples : int, default=300
            Resamples of the bootstrap, or posterior draws.
        simultaneous : bool, default=False
            Whether all intervals hold together at that level, not each.
        estimand : {"population", "sample"}, default="population"
            What the interval is of: the share in the population that the target was drawn from, or
            the share realised in these very rows.

        Returns
        -------
        PriorEstimate

        Notes
        -----
        Methods with a confusion matrix are bounded by the moments q = C p, without hyper-prior or
        constraint: the interval covers the truth whatever those pull to, is clipped to [0, 1] and
        widened to hold the estimate; the standard error is that of the unconstrained solution.
        Soft methods need the rows given to `fit`, with every class among them.

        EM and MAP are bounded by the likelihood of the posteriors. That is their noise if outputs
        are calibrated; if not, their bias can be larger. Source priors taken from validation add
        their noise; source priors given are taken as exact, which leaves the noise of the target.

        Examples
        --------
        >>> import numpy as np
        >>> import priorshift as ps
        >>> y_val = np.repeat([0, 1], 100)
        >>> decisions = np.repeat([0, 1, 0, 1], [80, 20, 20, 80])
        >>> cm = ps.CM().fit(np.eye(2)[decisions], y_val)
        >>> shift = cm.estimate(np.eye(2)[np.repeat([0, 1], [100, 100])], confidence_level=0.95)
        >>> shift.interval.round(2)
        array([[0.36, 0.65],
               [0.36, 0.65]])
        """
        check_is_fitted(self)
        values = in_class_order(check_proba(y_proba, tables=True), self.classes_)
        values = as_taken(self, values)
        check_source_mass(self.source_priors_, values, self.classes_)
        if confidence_level is None:
            return self._estimate(values)
        request = IntervalRequest.of(
            confidence_level, random_state, interval_method, n_resamples, simultaneous, estimand
        )
        of_interval = require_few_classes(self, values)
        found = self._estimate(values)
        return found.with_interval(self._interval(of_interval, found, request), request)

    def estimate_counts(
        self,
        counts: DecisionCounts,
        confidence_level: float | None = None,
        random_state: int | np.random.Generator | None = None,
        *,
        interval_method: IntervalMethod = "auto",
        n_resamples: int = 300,
        simultaneous: bool = False,
        estimand: Estimand = "population",
    ) -> PriorEstimate:
        """Estimate the target priors from how often each class was decided for.

        It is what `estimate` gives on the rows that were counted, and parts of the target can be
        counted apart, in any order and anywhere, and added. For the methods that rest on a
        confusion matrix, unless validation lacks a class: see `needs_rows`.

        Parameters
        ----------
        counts : DecisionCounts
            Of the kind that the confusion matrix holds, `confusion_.decision`, with the classes in
            the order of `classes_`.
        confidence_level, random_state, interval_method, n_resamples, simultaneous, estimand
            As in `estimate`; for hard decisions, whose noise their counts tell.

        Returns
        -------
        PriorEstimate

        Examples
        --------
        >>> import numpy as np
        >>> import priorshift as ps
        >>> cm = ps.CM().fit([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.4, 0.6]], [0, 0, 1, 1])
        >>> monday = ps.DecisionCounts(np.array([30.0, 10.0]), "hard", n_samples=40)
        >>> tuesday = ps.DecisionCounts(np.array([30.0, 30.0]), "hard", n_samples=60)
        >>> cm.estimate_counts(monday + tuesday).priors
        array([0.6, 0.4])
        """
        check_is_fitted(self)
        found = self._estimate_counts(counts)
        if confidence_level is None:
            return found
        from priorshift.estimators._intervals import interval_of_counts  # it knows the subclasses

        request = IntervalRequest.of(
            confidence_level, random_state, interval_method, n_resamples, simultaneous, estimand
        )
        return found.with_interval(interval_of_counts(self, counts, found, request), request)

    @property
    def needs_rows(self) -> bool:
        """Whether the method, as fitted, needs rows of the target: `estimate_counts` will not do.

        So do EM and MAP always, and every method if validation lacks a class.
        """
        return True

    def adapt(self, y_proba: ArrayLike, *, strength: float = 1.0) -> NDArray[Any]:
        """Estimate the target priors and adapt the same predictions to them.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities on the target.
        strength : float in [0, 1], default=1
            How far to go: see `PriorEstimate.adapt`.
        """
        return self.estimate(y_proba).adapt(y_proba, strength=strength)

    @property
    def _decision(self) -> Decision | None:
        return None

    def _estimate(self, y_proba: Rows) -> PriorEstimate:
        raise NotImplementedError

    def _interval(
        self, y_proba: Rows, found: PriorEstimate, request: IntervalRequest
    ) -> PriorInterval:
        """Find the interval of an estimate; a subclass may override it to supply its own."""
        from priorshift.estimators._intervals import interval_of  # it knows the subclasses

        return interval_of(self, y_proba, found, request)

    def _estimate_counts(self, counts: DecisionCounts) -> PriorEstimate:  # noqa: ARG002
        raise ValueError(
            f"{type(self).__name__} needs the rows of the target, which counts of decisions do "
            "not keep; use estimate(y_proba), or a method with a confusion matrix such as SCM-L."
        )

    def _classes_of_priors(self, source_priors: Any, classes: ArrayLike | None) -> Labels:
        """Name the classes where there is no validation set, only source priors."""
        if self._decision is not None:
            raise ValueError(f"{type(self).__name__} needs a validation set: fit(y_proba, y).")
        if source_priors is None:
            raise ValueError(
                f"{type(self).__name__} needs source priors, or predictions to take them from: "
                "fit(source_priors=...) or fit(y_proba)."
            )
        return classes_of_priors(source_priors, classes)

    def _read(
        self,
        y_proba: ArrayLike,
        y: ArrayLike | None,
        classes: ArrayLike | None,
        sample_weight: ArrayLike | None,
        given: tuple[Any, Any],
        positive_class: Any = None,
    ) -> tuple[Labels, Validation]:
        """Check a batch of validation data; return its classes and its clean rows."""
        if y is None and self._decision is not None:
            raise ValueError(f"{type(self).__name__} needs validation labels: fit(y_proba, y).")
        if y is None and _needs_soft(given):
            raise ValueError(
                "source_label_priors without source_priors need validation labels y: the mean "
                "prediction of each class is weighted by them."
            )
        predictions = check_proba(y_proba, tables=True)
        n_samples = predictions.values.shape[0]
        labels = None if y is None else read_labels(y, n_samples)
        names = settle_classes(predictions, labels, classes, positive_class)
        values = as_taken(self, in_class_order(predictions, names), kept=self._keeps_rows)
        if self._keeps_rows and isinstance(values, Table):
            values = take_rows(values, np.arange(n_samples))
        rows = Validation(
            values,
            None if labels is None else encode_labels(labels, names),
            check_sample_weight(sample_weight, n_samples),
        )
        return names, rows

    def _count(self, rows: Validation, given: tuple[Any, Any]) -> Evidence:
        """Return the statistics of clean validation rows."""
        return Evidence.of(*rows, decision=self._decision, needs_soft=_needs_soft(given))

    def _settle(
        self,
        classes: Labels,
        given: tuple[Any, Any],
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

    def _source_of_unseen(self, seen: Mask, who: str) -> Vector | None:
        """Return the source priors if any were given; warn of classes that validation lacks."""
        known = any(given is not None for given in self._given)
        if not seen.all():
            how = (
                "EM estimates it from the predictions alone"
                if known
                else "and without source_priors nothing can: its mean prediction is taken. Give "
                "source_priors"
            )
            warn_user(
                f"validation has no sample of class {some(self.classes_[~seen].tolist())}: {who} "
                f"cannot identify its prior, {how}.",
                PriorShiftWarning,
            )
        return self.source_priors_ if known else None

    def _warn_if_short(self, solution: Solution) -> None:
        """Warn of a solution that fell short of its tolerance."""
        if solution.status == "not_converged":
            warn_user(
                f"{self.name} is not certified after {solution.n_iter} passes: its gap is "
                f"{solution.gap}; raise max_iter or tol.",
                ConvergenceWarning,
            )

    def _result(
        self, priors: Vector, solution: Solution, n_target: int, **more: Any
    ) -> PriorEstimate:
        """Wrap a solution."""
        lost = (priors > NOTICEABLE) & (self.source_priors_ <= NO_PRIOR)
        if lost.any():
            warn_user(
                f"class {some(self.classes_[lost].tolist())} has a prior in the target but none in "
                "the source: predictions cannot be adapted to it. Give source_priors.",
                PriorShiftWarning,
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


def _needs_soft(given: tuple[Any, Any]) -> bool:
    """Tell whether the source priors come from validation, re-weighted to label priors."""
    return given[0] is None and given[1] is not None
