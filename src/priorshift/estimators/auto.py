r"""Auto: decide whether and how to adapt, from validation and target alone.

It adapts where it expects a gain in accuracy, or lower costs, judged without target labels. Under
prior shift what a rule's decisions cost on each class is the same on validation and target. With
d_k what adapting saves on validation samples of class k, out of fold, and p the target priors, the
gain is

.. math:: G = \sum_k p_k d_k.

Few samples of a class say little, so 20 more join them, as the target's own posteriors expect them.
The variance has four parts: that of the differences, that of the priors, that of the gains that
each of the averaged maps would expect, and that of the target's own rows, of which few may lose
where many would gain. Where validation has few rows of the classes it rests on, the priors are read
twice, from the likelihood and from the moments of calibrated outputs; the gain is as uncertain as
these readings contradict each other, and as fits without each fold do.

Where adapting in full is too uncertain, half the way may still help: with the square root of the
ratio of priors, decisions change less, and rest less on the shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from priorshift._typing import Floats, Indices, Vector
from priorshift.adapt import Goal, GoalName, log_savings, prior_ratio
from priorshift.border import (
    NO_PRIOR,
    Rows,
    check_number,
    row_blocks,
    sample_rows,
    some,
    times,
)
from priorshift.calibration import CalibrationAverage, apply_each
from priorshift.counts import Confusion, model_columns, shrunk_columns
from priorshift.estimators.confusion_likelihood import SCML
from priorshift.estimators.data import GIVEN, find_mismatch, posterior_problem
from priorshift.estimators.mean import JACKKNIFE_ROWS, CalibratedMean
from priorshift.estimators.references import ALEXANDARI
from priorshift.estimators.result import PriorEstimate
from priorshift.estimators.shares import (
    PSEUDO_COUNT,
    TOL,
    Shares,
    estimate_shares,
    share_interval,
)
from priorshift.exceptions import PriorShiftWarning, argument, warn_user
from priorshift.intervals import IntervalRequest, PriorInterval, Votes
from priorshift.solvers import Mixture, Solution, Status, maximise
from priorshift.verdict import CAUTION, WORTH, Gain, Ruling, judge_gain
from priorshift.words import fact, headline, say

MODEL_SAMPLES = 20.0
"""Samples of each class that the model's own expectation counts for."""

RAW_ODDS = np.exp(4.0)
RAW_ROWS = 300.0
"""Odds of outputs as they came against calibrated ones when shares are estimated, where labels
tell no difference; and how many rows the difference counts for at the most. Validation and target
are seldom quite alike (often one is predicted out of fold), so a calibrator that is better by very
little may be worse on the target."""

LEAST_RAW = 0.02
"""Below this weight, shares are not estimated from outputs as they came."""

FEW_ROWS = 15.0
"""Rows of a class at which a second reading of the shares, by moments, has half of the weight that
it has without any, which is as much as the first; so many rows of the model's own account join
those of each class."""

LEAST_SHARE = 0.01
"""With a smaller share there is no second reading."""

MOMENTS_ALPHA = 3.0
MOMENTS_TOL = 1e-4
"""Hyper-prior of the second reading, as in MAP and SCM-M: two more rows of each class. And how many
nats it may be from the best."""

STRENGTHS = (1.0, 0.5)
"""Powers of the ratio of priors that are tried in turn, until adapting is expected to help."""

MOMENTS_SHARE = 0.2
"""Share of an interval's error that belongs to the moments of calibrated outputs."""

THIN_ROWS, MANY_CLASSES = 10, 50
"""Validation rows per class below which, with so many classes, intervals may be too narrow."""

ACCURACY = Goal("accuracy")


class ExpectedGain(NamedTuple):
    """Expected gain, its standard error, and the share of decisions that change."""

    mean: float
    standard_error: float
    changed: float


class Sample(NamedTuple):
    """Validation: outputs calibrated out of fold, decisions without adaptation, labels, weights.

    `of_truth` is what outputs gave the true class as they came; for log loss.
    """

    y_proba: Floats
    decisions: Indices
    y: Indices
    weight: Vector
    of_truth: Vector | None = None


class Target(NamedTuple):
    """The target: outputs as they came, and calibrated."""

    y_proba: Floats
    calibrated: Floats


class Belief(NamedTuple):
    """What one of the averaged maps says of some rows of the target, and its weight."""

    weight: float
    priors: Vector
    y_proba: Floats


class Reading(NamedTuple):
    """The target as Auto reads it: shares, calibrated outputs, and some rows by each map."""

    shares: Shares
    calibrated: Floats
    sample: Target
    beliefs: tuple[Belief, ...]


def _variance(values: Any, weights: Sequence[float]) -> Any:
    """Return the variance of what each map says, by the weights of maps."""
    mean = np.average(values, axis=0, weights=weights)
    return np.average((np.asarray(values) - mean) ** 2, axis=0, weights=weights)


def expected_gain(
    priors: Vector,
    noise: Vector,
    source_priors: Vector,
    sample: Sample,
    target: Target,
    goal: Goal = ACCURACY,
    *,
    strength: float = 1.0,
    part: Target | None = None,
    beliefs: Sequence[Belief] = (),
) -> ExpectedGain:
    """Return what adapting to `priors` gains; `noise` is their covariance.

    The ratio of priors is raised to `strength`. `beliefs` are what each of the averaged maps says
    of a part of the target.
    """
    full, goal = prior_ratio(priors, source_priors), goal.at(priors)
    ratio = full**strength
    K, y, weight = priors.size, sample.y, sample.weight
    if goal.name != "log_loss" or sample.of_truth is None:
        difference = goal.saved(y, sample.decisions, decide(sample.y_proba, ratio, goal))
    else:
        after = np.empty(y.size)
        for rows in row_blocks(*sample.y_proba.shape):
            adapted = _adapted(sample.y_proba[rows], ratio)
            after[rows] = adapted[np.arange(adapted.shape[0]), y[rows]]
        difference = log_savings(sample.of_truth, after)
    saved = np.bincount(y, weight * difference, K)
    own = Belief(1.0, priors, target.calibrated)
    n_changed, found = expected_savings(target, ratio, goal, [own], source_priors)
    mean, square = found[0]
    n = np.bincount(y, weight, K) + MODEL_SAMPLES
    d = (saved + MODEL_SAMPLES * mean) / n
    square = (np.bincount(y, weight * difference**2, K) + MODEL_SAMPLES * square) / n
    variance = float((priors**2 * np.maximum(square - d**2, 0.0) / n).sum())
    by_shares = goal.name != "balanced_accuracy"  # in which classes count alike
    if by_shares:
        variance += float(d @ noise @ d)
    if beliefs:
        assert part is not None
        _, found = expected_savings(part, ratio, goal, beliefs, source_priors)
        gains = []
        for one, (account, _) in zip(beliefs, found, strict=True):
            shares = one.priors if by_shares else priors
            gains.append(float(shares @ ((saved + MODEL_SAMPLES * account) / n)))
        variance += float(_variance(gains, [one.weight for one in beliefs]))
    n_target, gain = target.calibrated.shape[0], float(priors @ d)
    variance += max(float(priors @ square) - gain**2, 0.0) / n_target
    return ExpectedGain(gain, float(np.sqrt(variance)), n_changed / n_target)


def decide(y_proba: Floats, ratio: Vector, goal: Goal = ACCURACY) -> Indices:
    """Return the class that each row is decided for after adapting."""
    factor = ratio.astype(y_proba.dtype)
    decisions: Any = np.empty(y_proba.shape[0], np.int32)
    for rows in row_blocks(*y_proba.shape):
        decisions[rows] = goal.decide(y_proba[rows] * factor)
    return decisions


def expected_savings(
    target: Target, ratio: Vector, goal: Goal, beliefs: Sequence[Belief], source_priors: Vector
) -> tuple[int, list[tuple[Vector, Vector]]]:
    """Return how many decisions adapting changes; by each belief what it saves on each class.

    Savings are a mean and a mean square. Posteriors are outputs, as a belief has them calibrated,
    times its ratio of priors. Adapting makes a difference on the rows whose decision changes; for
    log loss on all rows.
    """
    old = decide(target.y_proba, np.ones(ratio.size), goal)
    new = decide(target.calibrated, ratio, goal)
    changed, savings = np.flatnonzero(new != old), []
    rows = changed if goal.name != "log_loss" else np.arange(old.size)
    for _, priors, y_proba in beliefs:
        believed, (n, K) = prior_ratio(priors, source_priors), y_proba.shape
        mean, square, mass = np.zeros((3, K))
        for block in row_blocks(n, K):
            total = times(y_proba[block], believed)
            # a row of less is impossible as believed: in float32 its posterior is not known
            inverse = np.divide(1, total, out=np.zeros_like(total), where=total > 1e-30)
            mass += believed * times(inverse, y_proba[block])
        for block in row_blocks(rows.size, K):
            part = rows[block]
            adapted = _adapted(y_proba[part], believed)
            if goal.name != "log_loss":
                saved = goal.savings(old[part], new[part], K)
            else:
                saved = log_savings(target.y_proba[part], _adapted(target.calibrated[part], ratio))
            mean += np.einsum("ij,ij->j", adapted, saved)
            square += np.einsum("ij,ij,ij->j", adapted, saved, saved)
        mass = np.maximum(mass, 1e-12)
        savings.append((mean / mass, square / mass))
    return changed.size, savings


def _adapted(y_proba: Any, ratio: Vector) -> Vector:
    adapted = y_proba * ratio
    total = np.maximum(adapted.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return np.asarray(adapted / total)


class Auto(CalibratedMean):
    r"""Calibrate, estimate, and adapt only where that is expected to help.

    1. Outputs are calibrated by an average of maps: as they came, a temperature with a bias per
       class, and up to 40 classes a matrix of slopes, each with several penalties. Weights are
       their likelihoods out of fold. Without source priors, validation's own class balance is the
       source's, so a model that was trained with class weights or on resampled data is simply one
       that needs a bias per class.
    2. The priors are the posterior mean from calibrated outputs, shrunk towards the source priors
       or the uniform ones as far as the evidence supports. Five more fits, each without a fold,
       say how uncertain the calibrator is: the less certain, the less the target's rows count.
    3. Under prior shift the accuracy on each class is the same on validation and target. So the
       gain over no adaptation is known without target labels, with a standard error; predictions
       are adapted only if it exceeds `caution` standard errors, in full or else half the way.

    `priors` are the best estimate of the target's class shares, adapted or not. Where Auto does
    not adapt, `adapt` leaves predictions as they are; `with_action` calibrates or adapts them all
    the same. `decision` says what was decided and why: `decision["sentence"]` in words.

    Parameters
    ----------
    caution : float, default=1.0
        Standard errors by which adapting must be expected to help, as in `assess`.
    cv : int, default=5
        Folds for calibrating validation out of fold.
    random_state : None, int or Generator, default=None
        Shuffles rows into folds; None is the same shuffle every time.
    costs : array-like of shape (n_classes, n_classes) or mapping, default=None
        What errors cost, as for `decide`. Decisions are then those of least expected cost, and
        adapting must be expected to lower that cost.
    goal : {"accuracy", "balanced_accuracy", "log_loss"}, default="accuracy"
        What adapting must be expected to improve, without `costs`. For balanced accuracy an error
        costs 1 over the share of its class, and decisions stay those for the most probable class.

    Examples
    --------
    >>> import priorshift as ps
    >>> from priorshift.datasets import load_fashion_lt
    >>> data = load_fashion_lt()
    >>> auto = ps.Auto(random_state=0).fit(
    ...     data.y_proba_val, data.y_val, source_priors=data.source_priors, classes=data.classes
    ... )
    >>> shift = auto.estimate(data.y_proba_target)
    >>> shift.decision["adapt"]
    True
    >>> truth = ps.priors_from_labels(data.y_target, classes=data.classes)
    >>> float(abs(shift.priors - truth).sum()) < 0.1
    True
    """

    name = "auto"
    summary = (
        "calibrates, estimates, shrinks towards the source priors as far as the evidence supports, "
        "and adapts only where that is expected to help"
    )
    reference = ALEXANDARI
    _batch = "calibrated"

    def __init__(
        self,
        *,
        caution: float = CAUTION,
        cv: int = 5,
        random_state: int | np.random.Generator | None = None,
        costs: Any = None,
        goal: GoalName = "accuracy",
    ) -> None:
        self.caution, self.cv, self.random_state = caution, cv, random_state
        self.costs, self.goal = costs, goal

    def fit(
        self, y_proba: ArrayLike | None = None, y: ArrayLike | None = None, **given: Any
    ) -> Self:
        """Calibrate on a labelled validation set; arguments as in `PriorEstimator.fit`."""
        check_number(self.caution, "caution")
        super().fit(y_proba, y, **given)
        self._goal = Goal.of(self.costs, self.goal, self.classes_)
        rows, evidence, seen = self._evidence.rows, self._evidence, self.confusion_.seen
        found = None if self._balance.given else find_mismatch(evidence)
        self._mismatch = None if found is None else f"{found}; Auto corrects for it."
        order, calibrated = self._calibration.order, self._calibration.y_proba
        label, weight = rows.y[order], rows.weight[order]
        decisions = decide(rows.y_proba, np.ones(self.classes_.size), self._goal)[order]
        of_truth = rows.y_proba[order, label].astype(np.float64)
        self._sample = Sample(calibrated, decisions, label, weight, of_truth)
        self._soft = Confusion.from_arrays(calibrated, label, decision="soft", sample_weight=weight)
        # mean calibrated outputs of each class, with some of the model's own account
        balanced = rows.balanced_weight(self._balance.priors)[order]
        model = model_columns(calibrated, balanced, "soft")
        self._class_outputs = shrunk_columns(self._soft, model, FEW_ROWS)
        # the weight of outputs as they came in the estimate of shares
        nats = self._calibration.excess * min(1.0, RAW_ROWS / order.size)
        self._raw_weight = float(expit(np.log(RAW_ODDS) - nats))
        if evidence.source_priors is None and not seen.all():
            # they stand for their mean on validation, which lacks a class: worse than label
            # priors that you gave, better than no label at all
            self._raw_weight = 0.0 if self._balance.given else 1.0
        elif self._balance.words == GIVEN:
            # outputs as they came may find other shares on validation than its labels have, by four
            # standard errors and a factor of two, as those of boosted trees after class weights
            labelled = np.bincount(rows.y, minlength=self.classes_.size) / rows.y.size
            part = sample_rows(rows.y_proba, JACKKNIFE_ROWS).astype(np.float32)
            shares = estimate_shares(part, np.maximum(self.source_priors_, NO_PRIOR))
            error = np.sqrt(shares.noise.diagonal() + labelled / rows.y.size)
            high, low = np.maximum(shares.priors, labelled), np.minimum(shares.priors, labelled)
            if ((high - low > 4 * error) & (high > 2 * low)).any():
                self._raw_weight = 0.0
        return self

    def _estimate_within(
        self, y_proba: Rows, dense: Rows, request: IntervalRequest
    ) -> tuple[PriorEstimate, PriorInterval]:
        known = self._read(sample_rows(y_proba))
        found = self._estimate(y_proba, known)
        return found, self._interval(dense, found, request, known)

    def _estimate(self, y_proba: Rows, known: Reading | None = None) -> PriorEstimate:
        n_target, y_proba = y_proba.shape[0], sample_rows(y_proba)
        n, source = y_proba.shape[0], self._balance.priors
        read = known or self._read(y_proba)
        shares = read.shares
        # whether shares differ from the source's beyond noise, all classes together
        whole = shares.noise + shares.jackknife
        noise = np.sqrt(np.maximum(whole.diagonal(), 0.0)).sum()
        moved = bool(np.abs(shares.priors - source).sum() > 2 * noise)
        worth = WORTH * self._goal.cost_of_error(shares.priors)
        gains: dict[float, ExpectedGain] = {}
        rulings: dict[float, Ruling] = {}
        for strength in STRENGTHS:
            gains[strength] = gain = expected_gain(
                shares.priors,
                shares.noise + shares.doubt,
                source,
                self._sample,
                Target(y_proba, read.calibrated),
                self._goal,
                strength=strength,
                part=read.sample,
                beliefs=read.beliefs,
            )
            rulings[strength] = judge_gain(
                Gain(gain.mean, gain.standard_error),
                shifted=moved,
                caution=self.caution,
                worth=worth,
            )
            if rulings[strength].action == "adapt":
                break
        else:
            strength = 1.0
        ruling = rulings[strength]
        unknown = [] if self._balance.given else self.classes_[~self.confusion_.seen].tolist()
        if ruling.action == "adapt" and unknown:
            warn_user(
                f"validation has no sample of class {some(unknown)}, and without "
                f"{argument('source_priors')} nothing says how often it was in training: "
                f"predictions are left alone. Give {argument('source_priors')}.",
                PriorShiftWarning,
            )
            ruling = Ruling("unclear", "none", "unknown_class", ruling.gain)
        gain = gains[strength]
        reach = 1.96 * gain.standard_error
        status: Status = "stationary" if shares.converged else "not_converged"
        solution = Solution(shares.priors, status, None, shares.n_iter)
        unseen = tuple(self.classes_[~self.confusion_.seen].tolist())
        result = self._result(shares.priors, solution, n, unseen_classes=unseen)
        average, adapts, weights = self._calibration.average, ruling.action == "adapt", {}
        if adapts:
            for one, weight in zip(average.maps, average.weights, strict=True):
                weights[one.name] = weight
        bounds = gain.mean, gain.mean - reach, gain.mean + reach
        told = [str(headline(ruling, self._goal.name, bounds, unknown=unknown))]
        if adapts:
            told.append(say(fact("calibrated_first", changed=gain.changed)))
        if adapts and strength < 1:
            told.append(say(fact("half_way")))
        if self._mismatch is not None:
            told.append(say(fact("mismatch", text=self._mismatch)))
        if n < n_target:
            told.append(say(fact("sampled", n=n, n_target=n_target)))
        decision = {
            "adapt": adapts,
            "reason": ruling.why,
            "unknown_classes": unknown,
            "expected_gain": float(gain.mean),
            "expected_gain_se": float(gain.standard_error),
            "strength": strength if adapts else 0.0,
            "full_gain": float(gains[1.0].mean),
            "full_gain_se": float(gains[1.0].standard_error),
            "changed_decisions": float(gain.changed),
            "calibration": average.name if adapts else "none",
            "calibration_weights": weights,
            "mismatch": self._mismatch,
            "raw_weight": self._raw_weight,
            "row_weight": shares.tempering,
            "rows_looked_at": n,
            "goal": self._goal.name,
            "sentence": " ".join(told),
        }
        cautions, (n_val, K) = result.cautions, self._sample.y_proba.shape
        if K >= MANY_CLASSES and n_val < THIN_ROWS * K:
            cautions += (
                f"validation is thin, {n_val:,} rows for {K:,} classes: intervals and the expected "
                f"gain may be too sure. Label at least {THIN_ROWS} rows per class.",
            )
        return replace(
            result,
            source_priors_from=self._balance.words,
            calibrator=average if adapts else None,
            calibration=average,
            strength=strength if adapts else 0.0,
            decision=decision,
            cautions=cautions,
        )

    def _read(self, y_proba: Floats) -> Reading:
        r"""Estimate shares from calibrated outputs, and what each map would say by itself.

        The estimate from outputs as they came has a share s in them, and so has, of classes with
        few rows, the reading by moments. Where two differ is uncertain: with d their difference,
        s (1 - s) d d^T joins the noise. With moments it is doubted instead, by

        .. math:: D = 2 s \left( d d^T + 2 J \right)

        where J is doubled as in intervals (see `share_interval`); 2 s is 1 at the most.
        """
        average, source = self._calibration.average, self._balance.priors
        calibrated = np.empty(y_proba.shape, np.float32)
        for rows in row_blocks(*y_proba.shape):
            block = y_proba[rows].astype(np.float32, copy=False)
            calibrated[rows] = average.apply(block)
        K = y_proba.shape[1]
        drawn = sample_rows(y_proba, JACKKNIFE_ROWS).astype(np.float32)
        shares = estimate_shares(calibrated, source, apply_each(self._calibration.folds, drawn))
        # as they came, outputs stand for the mean prediction: EM's own denominator
        raw = np.maximum(self.source_priors_, NO_PRIOR)
        # they say nothing of classes that they never gave any probability
        known = np.where(raw > NO_PRIOR, 1.0, 0.0)
        share = min(self._raw_weight * float(times(y_proba, known).mean()), 1.0)  # sums are rounded
        if share > LEAST_RAW:
            other = estimate_shares(y_proba, raw / raw.sum())
            apart = other.priors - shares.priors
            noise = (1 - share) * shares.noise + share * other.noise
            shares = replace(
                shares,
                priors=shares.priors + share * apart,
                noise=noise + share * (1 - share) * np.outer(apart, apart),
                jackknife=(1 - share) * shares.jackknife + share * other.jackknife,
                n_iter=shares.n_iter + other.n_iter,
                converged=shares.converged and other.converged,
            )
        few = FEW_ROWS / (FEW_ROWS + self.confusion_.class_weights)
        moments_share = float(shares.priors @ few) / 2
        if moments_share > LEAST_SHARE:
            apart = np.zeros(K)
            if self.confusion_.seen.all():  # of a class that it lacks, moments say nothing
                # the mean calibrated outputs, of classes and target, as SCM-M reads them
                sums = calibrated.sum(axis=0, dtype=np.float64)
                problem = Mixture(self._class_outputs, weights=sums, alpha=MOMENTS_ALPHA)
                apart = maximise(problem, tol=MOMENTS_TOL, start=source).value - shares.priors
            shares = replace(
                shares,
                priors=shares.priors + moments_share * apart,
                doubt=2 * moments_share * (np.outer(apart, apart) + 2 * shares.jackknife),
            )
        # each of the averaged maps calibrates a million numbers of the target by itself
        n_drawn = min(JACKKNIFE_ROWS, max(1, 1_000_000 // K))
        drawn = sample_rows(y_proba, n_drawn).astype(np.float32)
        part = Target(drawn, sample_rows(calibrated, n_drawn))  # the same rows
        beliefs = []
        start = np.maximum(shares.priors, 1e-9)  # from 0 a class never comes back
        start /= start.sum()
        by_map = apply_each(average.maps, drawn)
        for weight, outputs in zip(average.weights, by_map, strict=True):
            problem = posterior_problem(outputs, source, 1 + PSEUDO_COUNT)
            priors = maximise(problem, tol=TOL, start=start).value
            beliefs.append(Belief(weight, priors, outputs))
        return Reading(shares, calibrated, part, tuple(beliefs))

    def _interval(
        self,
        y_proba: Rows,
        found: PriorEstimate,
        request: IntervalRequest,
        known: Reading | None = None,
    ) -> PriorInterval:
        """Bound shares by all that is uncertain about them, or by moments if these say more.

        Moments alone suppose nothing of the calibrator. The narrower interval of the two is
        returned, so they share the error between them.
        """
        if request.method == "bootstrap":
            return super()._interval(y_proba, found, request)
        if request.method == "bayesian":
            raise ValueError("Auto has no Bayesian interval; use CM-M or SCM-M for a posterior.")
        looked_at = sample_rows(y_proba)
        shares, calibrated, _, beliefs = known or self._read(looked_at)
        spread = _variance([one.priors for one in beliefs], [one.weight for one in beliefs])
        sizes = looked_at.shape[0], len(self._calibration.folds)
        if not self.confusion_.seen.all():  # moments cannot tell of a class without labels
            return share_interval(found.priors, shares, spread, None, *sizes, request)
        sample = self._sample  # moments hold even if calibration does not
        votes = Votes.of(self._soft, calibrated, sample.y_proba, sample.y, sample.weight)
        error = 1 - request.confidence_level
        # their levels may be nearer to 1 than users may ask for, so they are not checked anew
        ours, theirs = copy(request), copy(request)
        ours.confidence_level = 1 - (1 - MOMENTS_SHARE) * error
        theirs.confidence_level = 1 - MOMENTS_SHARE * error
        bounds = share_interval(found.priors, shares, spread, votes, *sizes, ours)
        return bounds.narrower(votes.interval(found.priors, theirs), found.priors)

    def _soft_decisions(self) -> tuple[SCML, CalibrationAverage]:
        """Return SCM-L fitted on calibrated outputs, and what calibrates them, to solve groups."""
        soft = SCML().fit(
            self._sample.y_proba,
            self.classes_[self._sample.y],
            source_priors=self._balance.priors,
            classes=self.classes_,
            sample_weight=self._sample.weight,
        )
        return soft, self._calibration.average
