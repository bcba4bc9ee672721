"""PriorEstimator: what all methods share, from validation and target to a PriorEstimate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from priorshift._typing import Mask, Vector
from priorshift.border import (
    NO_PRIOR,
    Rows,
    Table,
    as_array,
    check_choice,
    check_count,
    check_number,
    check_numbers,
    check_source_mass,
    dense,
    order_in_words,
    some,
)
from priorshift.counts import Confusion, Decision, DecisionCounts
from priorshift.estimators.bounds import Bounds, refuse_wide
from priorshift.estimators.data import (
    GIVEN,
    Evidence,
    Target,
    TargetLabels,
    Validation,
    find_mismatch,
    read_evidence,
    read_target,
)
from priorshift.estimators.references import Reference
from priorshift.estimators.result import PriorEstimate
from priorshift.exceptions import ConvergenceWarning, PriorShiftWarning, argument, warn_user
from priorshift.intervals import Estimand, IntervalMethod, IntervalRequest, PriorInterval
from priorshift.solvers import (
    Mixture,
    Published,
    Solution,
    Solutions,
    condition_number,
    maximise,
    undetermined,
)
from priorshift.text import brief

Batch = Literal["counts", "posteriors", "calibrated"]
"""How the priors of many groups are estimated together."""


class PriorEstimator(BaseEstimator):
    """Base of all estimators: `fit` on validation, `estimate` on the target, `adapt`.

    A subclass has a `name`, says which confusion matrix it needs (`decision`), and finds priors in
    one of two methods. `_estimate_counts` gets counts of target decisions; the base class then
    handles sparse rows, counts made elsewhere, and classes that validation lacks. `_estimate` gets
    clean target predictions instead, row by row. A method that learns more than counts from
    validation returns it from `_learn`.

    Seven class attributes tell reports, groups, monitors and commands what they need to know about
    a method; a subclass inherits them and overrides what it changes. All else follows from them and
    from the methods that it overrides.

    Attributes
    ----------
    name : str
        What the method is called by `get_estimator`, on the command line and in results.
    summary : str, default=""
        What the method does, as one sentence without its subject: "inverts the confusion matrix".
    reference : Reference or None, default=None
        The paper that proposed it.
    decision : {"hard", "soft"} or None, default=None
        Which decisions its confusion matrix counts; None where it has none.
    outputs : {"corrected", "trusted", "calibrated", "ignored"}, default="corrected"
        How it takes predicted probabilities: corrected by what validation or labels show of them,
        trusted to be calibrated, calibrated first, or not used, as by the baseline that returns the
        source priors.
    target_labels : {"unused", "used", "required"}, default="unused"
        Whether `estimate` uses labels of some target rows, `y_target`; such a method finds priors
        from them in `_estimate_labelled`.
    raw_is : {"priors", "ratio"}, default="priors"
        What it solves for, and what `PriorEstimate.raw` holds; the gap is in nats for priors.
    """

    name: ClassVar[str]
    summary: ClassVar[str] = ""
    reference: ClassVar[Reference | None] = None
    decision: Decision | None = None
    outputs: ClassVar[Literal["corrected", "trusted", "calibrated", "ignored"]] = "corrected"
    target_labels: ClassVar[Literal["unused", "used", "required"]] = "unused"
    raw_is: ClassVar[Literal["priors", "ratio"]] = "priors"

    _keeps_rows: bool = False
    """Whether `fit` keeps validation row by row."""
    _batch: Batch | None = None
    """How the class finds the priors of many groups at once: see `batch`."""
    _evidence: Evidence
    """What validation said, as `fit` read it."""
    _denominator: Any
    """Priors under which outputs are posteriors, once calibrated; None where unknown."""
    source_priors_: Vector
    source_priors_from_: str

    @property
    def batch(self) -> Batch | None:
        """How `estimate_groups` solves for all groups at once; None: each group by itself.

        By "counts" of decisions, in `_priors_of_groups`; by the likelihood of "posteriors"; or by
        soft decisions of "calibrated" outputs. A class that finds priors in another way than the
        one that says how starts again from None.
        """
        for cls in type(self).__mro__:
            if "_batch" in vars(cls):
                return self._batch
            if "_estimate" in vars(cls) or "_estimate_counts" in vars(cls):
                break
        return None

    @property
    def counts_suffice(self) -> bool:
        """Whether counts of target decisions suffice for an estimate."""
        cls = type(self)
        by_counts = cls._estimate is PriorEstimator._estimate
        return by_counts and cls._estimate_counts is not PriorEstimator._estimate_counts

    @property
    def needs_probabilities(self) -> bool:
        """Whether the method needs `y_proba`, not decisions `y_pred` alone."""
        by_decisions = self.counts_suffice and self.decision == "hard"
        return not (by_decisions or self.outputs == "ignored" or self.target_labels == "required")

    @property
    def fit_is_counts(self) -> bool:
        """Whether what `fit` learns is no more than counts, so that a monitor can save it."""
        return self.counts_suffice and not self._keeps_rows

    @property
    def _takes_sparse(self) -> bool:
        """Whether sparse rows are read as they are; otherwise as arrays, a few at a time."""
        return self.fit_is_counts

    @property
    def _wide(self) -> bool:
        """Whether there may be any number of classes: no matrix of classes by classes is dense."""
        return self._takes_sparse

    @property
    def needs_rows(self) -> bool:
        """Whether the fitted method needs rows of the target, so that `estimate_counts` raises.

        EM and MAP always do, and every method does if validation lacks a class, whose share only
        rows can show. A method that was fitted on decisions has counts and nothing else.
        """
        check_is_fitted(self)
        if self.counts_suffice and self._evidence.decisions_only:
            return False
        return not (self.counts_suffice and self.confusion_.seen.all())

    @property
    def _columns(self) -> Vector:
        """The confusion matrix in use: how each class (column) is decided."""
        return self.confusion_.conditional

    @property
    def _hyper_prior(self) -> Vector:
        """Alpha of the Dirichlet hyper-prior per class; 1 where there is none."""
        K = self.classes_.size
        if not hasattr(self, "alpha"):
            return np.ones(K)
        alpha = check_numbers(self.alpha, ((), (K,)), "alpha", "one for all, or one per class")
        if not (alpha > 0).all():
            raise ValueError(f"alpha must be finite and above 0; got {brief(self.alpha)}.")
        return np.broadcast_to(alpha, (K,))

    # Fitting

    def fit(
        self,
        y_proba: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        y_pred: ArrayLike | None = None,
        confusion: Confusion | None = None,
        source_priors: Any = None,
        source_label_priors: Any = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from a labelled validation set how the classifier errs.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,), optional
            Predicted probabilities on validation; 1-D is the probability of the positive class.
            EM and MAP need none if you give `source_priors`.
        y : array-like of shape (n_samples,), optional
            Validation labels. The validation set may have any class balance.
        y_pred : array-like of shape (n_samples,), optional
            Decisions on validation instead of `y_proba`, for the methods of hard decisions (CM,
            CM-L, CM-M, BBSE, RLLS, Joint): labels of any kind, such as the verdicts of a judge or
            of a rule. Without `classes`, all decisions and labels together, sorted, name the
            classes; source priors are the label frequencies of validation.
        confusion : Confusion, optional
            A confusion matrix that you have instead of a validation set, for the same methods: see
            `Confusion.from_counts` and `Confusion.from_rates`.
        source_priors : array-like of shape (n_classes,) or mapping, optional
            Priors the classifier was trained under, best its mean prediction on the training set.
            By default validation is assumed to be drawn as the training set was, and its mean
            prediction is used.
        source_label_priors : array-like of shape (n_classes,) or mapping, optional
            Label frequencies of the training set. Without `source_priors`, the mean prediction on
            validation is re-weighted to them.
        classes : array-like of shape (n_classes,), optional
            Class names in the order of the columns; by default a frame's header, else the labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each validation sample.
        """
        evidence = read_evidence(
            self,
            y_proba,
            y,
            y_pred=y_pred,
            confusion=confusion,
            source_priors=source_priors,
            source_label_priors=source_label_priors,
            classes=classes,
            sample_weight=sample_weight,
        )
        rows = evidence.rows
        # rows that are read in blocks are not kept
        kept = rows is None or not isinstance(rows.y_proba, Table)
        self._settle(evidence if kept else replace(evidence, rows=None))
        if rows is not None:
            if (said := order_in_words(rows.y_proba, rows.y, self.classes_)) is not None:
                warn_user(said, PriorShiftWarning)
            if not (self.outputs in ("calibrated", "ignored") or evidence.given):
                self._warn_of_mismatch(evidence)
        return self

    def partial_fit(
        self,
        y_proba: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        y_pred: ArrayLike | None = None,
        source_priors: Any = None,
        source_label_priors: Any = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add a batch of validation data; only what the method needs of it is kept.

        The first call needs `classes` and accepts source priors as `fit` does. The result does not
        depend on how you cut the data into batches: it is that of one `fit` on all of them. Methods
        that need more than sums over rows, such as Auto, have `fit` alone.
        """
        if self._keeps_rows:
            raise ValueError(
                f"{type(self).__name__} needs the rows of all of validation at once; use fit."
            )
        before = getattr(self, "_evidence", None)
        if before is not None:
            if source_priors is not None or source_label_priors is not None:
                raise ValueError(
                    "source_priors and source_label_priors belong to the first partial_fit; leave "
                    "them out of later ones."
                )
            if classes is not None and list(classes) != before.classes.tolist():  # type: ignore[arg-type]
                raise ValueError(
                    f"classes must stay those of the first partial_fit, in its order: "
                    f"{some(before.classes.tolist())}."
                )
            classes = before.classes
            source_priors, source_label_priors = before.source_priors, before.source_label_priors
        elif classes is None:
            raise ValueError("the first partial_fit needs classes= in the order of columns.")
        evidence = read_evidence(
            self,
            y_proba,
            y,
            y_pred=y_pred,
            source_priors=source_priors,
            source_label_priors=source_label_priors,
            classes=classes,
            sample_weight=sample_weight,
        )
        evidence = replace(evidence, rows=None, named=False)  # batches may be frames or not
        return self._settle(evidence if before is None else before + evidence)

    def _learn(self, evidence: Evidence) -> dict[str, Any]:
        """Return fitted attributes by name: the denominator of the ratio, and where it comes from.

        A method that learns more adds to them. It writes nothing to `self`: if it fails, the
        earlier fit stays.
        """
        labels, soft = evidence.source_label_priors, evidence.soft
        if evidence.decisions_only:
            source, origin = evidence.label_balance()
        elif evidence.source_priors is not None:
            source, origin = evidence.source_priors, GIVEN
        elif labels is None or soft is None:
            source = evidence.predicted.frequencies
            origin = "mean prediction on validation, taken to be drawn as the training set was"
        else:  # a class that validation lacks counts as always recognised
            mean = soft.conditional @ labels + np.where(soft.seen, 0.0, labels)
            source = mean / mean.sum()
            origin = "mean prediction on validation at source_label_priors"
        return {"source_priors_": source, "source_priors_from_": origin}

    def _settle(self, evidence: Evidence) -> Self:
        """Set all fitted attributes together, so that a failed fit changes nothing.

        The priors trained under are known by mean prediction (p^f, the ratio's denominator) and by
        labels (p^N).
        """
        learned = self._learn(evidence)
        source, labels = learned["source_priors_"], evidence.source_label_priors
        self._evidence, self.classes_ = evidence, evidence.classes
        self.n_features_in_ = evidence.classes.size
        self._denominator = source if evidence.source_known else None
        if evidence.confusion is not None:
            self.confusion_ = evidence.confusion
        for name, value in learned.items():
            setattr(self, name, value)
        self.source_label_priors_ = source if labels is None else labels
        return self

    def _warn_of_mismatch(self, evidence: Evidence) -> None:
        """Warn where the mean prediction cannot be the priors that the model was trained under."""
        if (said := find_mismatch(evidence)) is not None:
            warn_user(
                f"{said}. Here the mean prediction is taken for the priors that the model was "
                "trained under. Give "
                f"{argument('source_priors', 'source_priors=')} those priors "
                f"({1 / self.classes_.size:.3g} per class after class_weight='balanced'), or use "
                "Auto or em-bcts, which calibrate.",
                PriorShiftWarning,
            )

    def _labelled_rows(self) -> Validation:
        """Return the validation rows with their labels, or say how to keep them."""
        rows = self._evidence.rows
        if rows is None or rows.y is None:
            raise ValueError(
                f"{type(self).__name__} keeps no validation rows after partial_fit, and an "
                "interval needs their spread; use fit(y_proba, y) on all of them, or estimate "
                f"without {argument('confidence_level')}."
            )
        return rows

    # Estimating

    def estimate(
        self,
        y_proba: ArrayLike | None = None,
        confidence_level: float | None = None,
        random_state: int | np.random.Generator | None = None,
        *,
        y_pred: ArrayLike | None = None,
        y_target: ArrayLike | None = None,
        unlabelled: Any = None,
        sample_weight: ArrayLike | None = None,
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
        y_pred : array-like of shape (n_samples,), optional
            Decisions on the target instead of `y_proba`, for the methods of hard decisions.
        y_target : array-like of shape (n_samples,), optional
            Labels of some rows of the target, for the methods that use them (PPI, which needs
            some, and SemiSupervisedEM): None or NaN where a label is unknown, or -1 where that is
            no class. Choose the rows to label at random.
        unlabelled : object, optional
            What else stands for an unknown label.
        sample_weight : array-like of shape (n_samples,), optional
            For PPI, where rows did not all have the same chance of a label: 1 over that chance, up
            to a factor. Weights of rows without a label do not matter.
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
        array([[0.35, 0.65],
               [0.35, 0.65]])

        Decisions without probabilities do as well:

        >>> cm = ps.CM().fit(y_pred=decisions, y=y_val)
        >>> cm.estimate(y_pred=np.repeat([0, 1], [100, 100])).priors.round(3)
        array([0.5, 0.5])
        """
        check_is_fitted(self)
        request, interval = None, None
        if confidence_level is not None:
            request = IntervalRequest(
                confidence_level, random_state, interval_method, n_resamples, simultaneous, estimand
            )
        target, labels, named = read_target(
            self, y_proba, y_pred, y_target, unlabelled, sample_weight
        )
        if isinstance(target, DecisionCounts):
            return self._from_counts(target, request)
        if labels is not None:
            found = self._estimate_labelled(target, labels, request)
        elif request is None:
            found = self._estimate(target)
        else:
            refuse_wide(self, target)
            found, interval = self._estimate_within(target, dense(target), request)
        if not isinstance(found, PriorEstimate):
            raise ValueError(
                "the method's _estimate must return an estimate, such as self._result(priors, "
                f"Solution(priors, 'direct'), n); got {type(found).__name__}."
            )
        found = replace(found, named=named) if named != found.named else found
        if request is None or interval is None:
            return found
        return found.with_interval(interval, request)

    def estimate_counts(
        self,
        counts: DecisionCounts | ArrayLike,
        confidence_level: float | None = None,
        random_state: int | np.random.Generator | None = None,
        *,
        interval_method: IntervalMethod = "auto",
        n_resamples: int = 300,
        simultaneous: bool = False,
        estimand: Estimand = "population",
    ) -> PriorEstimate:
        """Estimate the target priors from how often each class was decided for.

        The result is that of `estimate` on the rows that were counted. You can count parts of the
        target separately, in any order and on any machine, and add them. It works for methods with
        a confusion matrix, unless validation lacks a class: see `needs_rows`.

        Parameters
        ----------
        counts : DecisionCounts
            Of the kind that the confusion matrix holds, `confusion_.decision`, with the classes in
            the order of `classes_`.
        confidence_level, random_state, interval_method, n_resamples, simultaneous, estimand
            As in `estimate`; for hard decisions, whose noise their counts tell.

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
        request = None
        if confidence_level is not None:
            request = IntervalRequest(
                confidence_level, random_state, interval_method, n_resamples, simultaneous, estimand
            )
        if isinstance(counts, DecisionCounts):
            return self._from_counts(counts, request)
        if self.needs_probabilities:
            raise ValueError(
                "counts must be DecisionCounts, as DecisionCounts.from_arrays(y_proba, "
                f"decision=...) returns; got {type(counts).__name__}."
            )
        values = as_array(counts, "counts")
        values = check_numbers(values, ((values.size,),), "counts", "one per class", least=0)
        if (values % 1).any():
            raise ValueError(
                "counts must be whole numbers, how often each class was decided for; got "
                f"{values}. Multiply shares by the number of rows."
            )
        plain = DecisionCounts(values.astype(np.float64), "hard", int(values.sum()))
        return self._from_counts(plain, request)

    def _from_counts(
        self, counts: DecisionCounts, request: IntervalRequest | None
    ) -> PriorEstimate:
        """Estimate from counts, with an interval if it is asked for."""
        found = self._estimate_decisions(counts)
        if request is not None:
            found = found.with_interval(Bounds(self, found, request).by_counts(counts), request)
        if self._evidence.decisions_only and np.isinf(self.confusion_.sizes).any():
            exact = (
                "error rates that were given without the number of samples they were measured on "
                "are taken to be exact: the interval leaves out what they may be wrong by."
            )
            found = replace(found, cautions=(*found.cautions, exact))
        return found

    def adapt(
        self,
        y_proba: ArrayLike,
        *,
        strength: float = 1.0,
        y_target: ArrayLike | None = None,
        unlabelled: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> NDArray[Any]:
        """Estimate the target priors and adapt the same predictions to them.

        Rows whose label is known are adapted like all others: labels only help the estimate.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities on the target.
        strength : float in [0, 1], default=1
            How far to go: see `PriorEstimate.adapt`.
        y_target, unlabelled, sample_weight
            As for `estimate`.
        """
        shift = self.estimate(
            y_proba, y_target=y_target, unlabelled=unlabelled, sample_weight=sample_weight
        )
        # what there was to warn of is said
        return replace(shift, named=False).adapt(y_proba, strength=strength)

    # How priors are found: a method overrides `_estimate` or `_estimate_counts`

    def _estimate(self, y_proba: Rows) -> PriorEstimate:
        """Turn clean target predictions into an estimate: by default, from their counts."""
        if self._evidence.decisions_only:
            return self._estimate_decisions(DecisionCounts.from_arrays(y_proba, decision="hard"))
        target = self._seen_target(y_proba, "a confusion matrix")
        return self._only_unseen(target) if target.empty else self._estimate_counts(target)

    def _estimate_labelled(
        self, y_proba: Rows, labels: TargetLabels, request: IntervalRequest | None
    ) -> PriorEstimate:
        """Turn clean target predictions and labels of some rows into an estimate."""
        raise NotImplementedError

    def _estimate_counts(self, target: Target) -> PriorEstimate:
        """Turn counts of target decisions into an estimate; validation saw at least one class."""
        raise NotImplementedError

    def _priors_of_groups(self, counts: Vector) -> Solutions:
        """Find the priors of many groups at once, from counts of their decisions: (G, K).

        For methods whose `_batch` is "counts"; validation saw every class, and every group is
        informative.
        """
        raise NotImplementedError

    def _informative(self, counts: Vector) -> Mask:
        """Tell which groups, (G, K), have decisions to learn from."""
        return counts.sum(axis=1) > 0

    def _estimate_decisions(self, counts: DecisionCounts) -> PriorEstimate:
        """Check counts that were made elsewhere; estimate from them."""
        if not self.counts_suffice:
            raise ValueError(
                f"{type(self).__name__} needs the rows of the target, which counts of decisions do "
                "not keep; use estimate(y_proba), or a method with a confusion matrix such as "
                "SCM-L."
            )
        seen = self.confusion_.seen
        if self.needs_rows:
            raise ValueError(
                f"validation has no sample of class {some(self.classes_[~seen].tolist())}, whose "
                "share shows in rows of the target alone, not in counts; use estimate(y_proba)."
            )
        decision, values = self.confusion_.decision, counts.counts
        if counts.decision != decision or values.shape != seen.shape:
            raise ValueError(
                f"{type(self).__name__} needs counts of {decision} decisions on {seen.size} "
                f"classes; got {counts.decision} decisions of shape {values.shape}. Count with "
                f"DecisionCounts.from_arrays(y_proba, decision={decision!r})."
            )
        if not values.any() or not counts.n_samples:
            raise ValueError("counts are 0 for every class, or of no rows; count at least one row.")
        if not self._evidence.decisions_only:
            check_source_mass(
                self.source_priors_,
                counts.frequencies[None],
                self.classes_,
                origin=self.source_priors_from_,
            )
        elif not seen.all():
            warn_user(
                f"no label of validation is {some(self.classes_[~seen].tolist())}: its share is "
                "taken to be 0, as of a verdict such as “unsure” that is never true. If it can be "
                "true, add labelled samples of it.",
                PriorShiftWarning,
            )
        return self._estimate_counts(Target(seen, np.zeros(seen.size), counts))

    def _estimate_within(
        self, y_proba: Rows, dense: Rows, request: IntervalRequest
    ) -> tuple[PriorEstimate, PriorInterval]:
        """Estimate, and bound the estimate; a method may share work between both."""
        found = self._estimate(y_proba)
        return found, self._interval(dense, found, request)

    def _interval(
        self, y_proba: Rows, found: PriorEstimate, request: IntervalRequest
    ) -> PriorInterval:
        """Find the interval of an estimate; a method may override it to supply its own."""
        bounds = Bounds(self, found, request)
        return (bounds.by_moments if self.counts_suffice else bounds.by_resampling)(y_proba)

    # What methods use

    def _seen_target(self, y_proba: Rows, who: str) -> Target:
        """Set aside, softly and with a warning, the classes that validation lacks."""
        seen, known = self.confusion_.seen, self._evidence.given
        if not seen.all():
            how = (
                "EM estimates it from the predictions alone"
                if known
                else f"and without {argument('source_priors')} nothing can: its mean prediction is "
                f"taken. Give {argument('source_priors')}"
            )
            warn_user(
                f"validation has no sample of class {some(self.classes_[~seen].tolist())}: {who} "
                f"cannot identify its prior, {how}.",
                PriorShiftWarning,
            )
        source = self.source_priors_ if known else None
        return Target.of(y_proba, seen, source, self.confusion_.decision)

    def _maximise(
        self,
        problem: Mixture,
        start: Vector,
        published: Mapping[str, Published] | None = None,
    ) -> Solution:
        """Maximise within the method's own `tol` and `max_iter`; warn if that falls short.

        The parameter `solver` may ask for one of the `published` algorithms instead.
        """
        params: Any = self
        tol = check_number(params.tol, "tol")
        max_iter = check_count(params.max_iter, "max_iter")
        if published is not None:
            check_choice(params.solver, ("certified", *published), "solver")
            if params.solver != "certified":
                start = np.maximum(start, np.finfo(np.float64).tiny)  # no step ever leaves 0
                return published[params.solver](problem, start, tol=tol, n_steps=max_iter)
        solution = maximise(problem, tol=tol, max_iter=max_iter, start=start)
        if solution.status == "not_converged":
            self._warn_of_gap(solution)
        return solution

    def _warn_of_gap(self, solution: Solution) -> None:
        """Warn of a solution that fell short of its tolerance."""
        warn_user(
            f"{self.name} is not certified after {solution.n_iter} passes: its gap is "
            f"{solution.gap}; raise max_iter or tol.",
            ConvergenceWarning,
        )

    def _only_unseen(self, target: Target) -> PriorEstimate:
        """Return the estimate of a target that has no class that validation saw."""
        priors = target.unseen_priors / target.unseen_priors.sum()
        return self._result(priors, Solution(priors, "direct"), target)

    def _condition(self, M: Any, seen: Mask, *, singular: bool | None = None) -> dict[str, Any]:
        """Return the condition number of a confusion matrix among the classes that were seen.

        Where it is singular, there is a caution as well: the solution is one of many. A method
        that inverts it warns, too. Others know whether it is `singular`, which costs less.
        """
        if singular is False:
            return {}
        condition = np.inf if singular else condition_number(M)
        if np.isfinite(condition):
            return {"condition_number": condition}
        counts, names = self.confusion_.counts, self.classes_
        never = seen & (np.asarray(counts.sum(axis=1)) <= 0)
        unknown = never.copy()
        unknown[seen] |= undetermined(M)
        said = f"the share of class {some(names[unknown].tolist())}" if unknown.any() else "all"
        because = f" (class {some(names[never].tolist())} is never decided for)"
        instead = "" if self._evidence.decisions_only else ", use EM"
        caution = (
            f"the confusion matrix is singular: decisions do not tell {said}"
            f"{because if never.any() else ''}, and other shares explain them as well as these. "
            f"Add validation samples{instead} or merge classes."
        )
        if singular is None:
            warn_user(f"{self.name}: {caution}", PriorShiftWarning)
        return {"condition_number": condition, "cautions": (caution,)}

    def _result(
        self,
        priors: Vector,
        solution: Solution,
        target: Target | int,
        **more: Any,
    ) -> PriorEstimate:
        """Wrap the priors of all classes; the target tells which of them validation lacks.

        Where that does not matter, its number of rows will do.
        """
        if isinstance(target, Target):
            more["unseen_classes"] = tuple(self.classes_[~target.seen].tolist())
            target = target.counts.n_samples
        source = self._denominator
        # a prior of 1 % is worth a warning if it cannot reach the predictions; what a hyper-prior
        # gives is less
        lost = (priors > 0.01) & (False if source is None else source <= NO_PRIOR)
        if lost.any():
            warn_user(
                f"class {some(self.classes_[lost].tolist())} has a prior in the target but none in "
                "the source: predictions cannot be adapted to it. Give source_priors.",
                PriorShiftWarning,
            )
        if solution.adapts_to is not None:
            lagged = "predictions are adapted to the iterate before these priors, as the released"
            more["cautions"] = (*more.get("cautions", ()), f"{lagged} code does.")
        return PriorEstimate(
            method=self.name,
            classes=self.classes_,
            priors=priors,
            source_priors=source,
            source_priors_from=self.source_priors_from_,
            n_target=target,
            status=solution.status,
            gap=solution.gap,
            n_iter=solution.n_iter,
            objective=solution.objective,
            adapts_to=solution.adapts_to,
            **more,
        )
