r"""Test whether the target's class priors are those of the source."""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from priorshift._typing import Vector
from priorshift._validation import (
    check_choice,
    check_fraction,
    check_level,
    check_priors,
    check_resamples,
    some,
)
from priorshift.exceptions import PriorShiftWarning, warn_user
from priorshift.shift_test._assumption import N_RESAMPLES, assumption_of
from priorshift.shift_test._effect import estimate_effect
from priorshift.shift_test._noise import column_noise, draw_noise, draw_permutations
from priorshift.shift_test._power import Power, p_value
from priorshift.shift_test._results import AssumptionTest, ShiftTest
from priorshift.shift_test._samples import Samples, read_samples
from priorshift.shift_test._statistic import Moments
from priorshift.statistics import Decision

Resampling = Literal["auto", "permutation", "bootstrap"]

FAR = 0.1
"""Distance between validation's mean prediction and `source_priors` that is worth a warning."""


def detect_shift(
    y_proba_val: ArrayLike,
    y_val: ArrayLike,
    y_proba_target: ArrayLike,
    source_priors: Any = None,
    source_label_priors: Any = None,
    classes: ArrayLike | None = None,
    *,
    decision: Decision = "soft",
    alpha: float = 0.05,
    alternative: float = 0.1,
    resampling: Resampling = "auto",
    n_resamples: int = 999,
    assumption: bool = False,
    random_state: int | np.random.Generator | None = None,
) -> ShiftTest:
    r"""Test whether the target was drawn with the source's label priors.

    .. math:: H_0: q = C p^N, \qquad T = d^T \Sigma^{-1} d, \quad d = q - C p^N

    with the noise of target and validation in the null distribution of T, which is found by
    resampling: a chi-square distribution would reject far too often with few samples a class.

    Parameters
    ----------
    y_proba_val : array-like of shape (n_val, n_classes) or (n_val,)
        Predicted probabilities on validation.
    y_val : array-like of shape (n_val,)
        Validation labels.
    y_proba_target : array-like of shape (n_target, n_classes) or (n_target,)
        Predicted probabilities on the target, from the same classifier.
    source_priors : array-like of shape (n_classes,) or mapping, optional
        Mean prediction on the training set. Not the null hypothesis, which is about labels, but
        it warns where validation was drawn otherwise than the training set.
    source_label_priors : array-like of shape (n_classes,) or mapping, optional
        Label frequencies of the training set, the null hypothesis. By default the target is
        compared with validation, which is taken to be drawn as the training set was.
    classes : array-like of shape (n_classes,), optional
        Class names in the order of the columns.
    decision : {"soft", "hard"}, default="soft"
        Compare mean probabilities, or how often each class is the likeliest.
    alpha : float, default=0.05
        Level of the test.
    alternative : float, default=0.1
        The smallest shift of practical interest, as a total variation distance: power is
        computed for it.
    resampling : {"auto", "permutation", "bootstrap"}, default="auto"
        "permutation" exchanges rows of validation and target: exact, for a validation set drawn
        at random as the source was. "bootstrap" takes the source label priors as known, and the
        number of validation samples of each class as chosen. "auto" permutes if
        `source_label_priors` are not given, unless validation has equally many samples of every
        class, which are chosen rather than drawn.
    n_resamples : int, default=999
        Draws of the null distribution.
    assumption : bool, default=False
        Also test whether a change of priors alone explains the target: see `check_assumption`.
    random_state : None, int or numpy.random.Generator, optional

    Returns
    -------
    ShiftTest

    Examples
    --------
    >>> import priorshift as ps
    >>> from priorshift.shift_test import detect_shift
    >>> data = ps.datasets.load_fashion_lt()
    >>> validation = data.y_proba_val, data.y_val
    >>> target = data.y_proba_target[:500]
    >>> test = detect_shift(*validation, target, classes=data.classes, random_state=0)
    >>> test.rejected, test.method
    (True, 'permutation')
    """
    check_choice(decision, ("soft", "hard"), "decision")
    check_choice(resampling, ("auto", "permutation", "bootstrap"), "resampling")
    alpha, alternative = check_level(alpha), check_fraction(alternative, "alternative")
    n_resamples = check_resamples(n_resamples, alpha)
    samples = read_samples(y_proba_val, y_val, y_proba_target, classes)
    null, notes = _null_priors(samples, source_priors, source_label_priors)
    permute = _permutes(samples, resampling, given=source_label_priors is not None)
    rng = np.random.default_rng(random_state)

    moments = Moments.of(samples, decision, null)
    drawn = (
        draw_permutations(samples, decision, n_resamples, rng)
        if permute
        else draw_noise(samples, decision, null, n_resamples, rng)
    ) @ moments.whitener
    of_columns = column_noise(samples, decision, moments.whitener)
    power = Power(moments, of_columns, drawn, alpha, rng)
    priors, distance, interval = estimate_effect(samples, decision, moments, 1 - alpha, rng)
    return ShiftTest(
        statistic=moments.statistic,
        p_value=p_value((drawn**2).sum(axis=1), moments.statistic),
        degrees_of_freedom=moments.whitener.shape[1],
        alpha=alpha,
        effect_size=distance,
        effect_interval=interval,
        power=power.at(alternative),
        alternative=alternative,
        detectable_effect=power.detectable(),
        method="permutation" if permute else "bootstrap",
        decision=decision,
        n_val=samples.n_val,
        n_target=samples.n_target,
        n_resamples=n_resamples,
        classes=samples.classes,
        source_label_priors=null,
        priors=priors,
        assumption=_check(samples, alpha, n_resamples, rng) if assumption else None,
        notes=notes,
    )


def _check(
    samples: Samples, alpha: float, n_resamples: int, rng: np.random.Generator
) -> AssumptionTest:
    """Test the assumption, with fewer resamples where the level allows, as each is costly."""
    enough = max(N_RESAMPLES, int(np.ceil(1 / alpha)))
    return assumption_of(samples, alpha, min(n_resamples, enough), rng)


def _permutes(samples: Samples, resampling: Resampling, *, given: bool) -> bool:
    """Tell whether rows of validation and target can be exchanged under the null hypothesis."""
    if resampling == "auto":
        counts = samples.class_counts
        return not given and int(counts.min()) < int(counts.max())
    if resampling == "permutation" and given:
        raise ValueError(
            "resampling='permutation' compares the target with validation itself; leave out "
            "source_label_priors, or use resampling='bootstrap'."
        )
    return resampling == "permutation"


def _null_priors(
    samples: Samples, source_priors: Any, source_label_priors: Any
) -> tuple[Vector, tuple[str, ...]]:
    """Settle the null hypothesis, and say what is odd about it."""
    counts, notes = samples.class_counts, []
    if source_label_priors is None:
        null = counts / counts.sum()
        if source_priors is not None:
            source = check_priors(source_priors, samples.classes, "source_priors")
            notes += _far_from_source(samples, source)
    else:
        null = check_priors(source_label_priors, samples.classes, "source_label_priors")
        lost = (counts == 0) & (null > 0)
        if lost.any():
            notes.append(
                f"validation has no sample of class {some(samples.classes[lost].tolist())}, "
                f"{float(null[lost].sum()):.2g} of source_label_priors: the test leaves it out."
            )
            if not null[~lost].any():
                raise ValueError(
                    "validation has no sample of any class of source_label_priors; add such "
                    "samples, or leave out source_label_priors."
                )
            null = np.where(lost, 0.0, null) / float(null[~lost].sum())
    for note in notes:
        warn_user(note, PriorShiftWarning)
    return null, tuple(notes)


def _far_from_source(samples: Samples, source: Vector) -> list[str]:
    """Compare validation's mean prediction with the training set's."""
    mean = samples.y_proba_val.mean(axis=0, dtype=np.float64)
    distance = float(np.abs(mean - source).sum() / 2)
    by_chance = float(np.sqrt(source * (1 - source) / samples.n_val).sum() / 2)
    if distance <= max(FAR, 2 * by_chance):
        return []
    return [
        f"validation's mean prediction is {distance:.2f} from source_priors, so validation was "
        "not drawn as the training set was, yet the target is compared with it; give "
        "source_label_priors, the label frequencies of the training set."
    ]
