r"""Numbers in, verdict out: the one rule that says whether to adapt.

With :math:`g` the expected gain, :math:`s` its standard error, and :math:`u` the share of the
target that no change of priors explains, the gain may be off by :math:`e = \sqrt{s^2 + u^2}`.
Labels of the target measure the gain directly; both are averaged by precision. Then

- **adapt** if :math:`g > 1.2\, e`, unless there is no evidence that the class balance changed and g
  is below one point of accuracy;
- **leave** if there is nothing to gain: there is no evidence that the class balance changed, or
  :math:`g + 1.64\, e` is below one point of accuracy;
- **unclear** otherwise, and always where an obstacle stands in the way of judging: a class that
  nothing is known of, labels that have nothing to do with the predictions, columns in the wrong
  order.

Gains are in accuracy, or in what the goal names; `worth` is then one point's equivalent.
"""

from math import ceil, hypot, sqrt
from typing import Literal, NamedTuple

Verdict = Literal["adapt", "leave", "unclear"]
"""What to do."""

Action = Literal["none", "calibrate", "adapt"]
"""What is done to predictions: "leave" goes with none, "adapt" with calibrate or adapt, "unclear"
with none or calibrate."""

CAUTION = 1.2
"""Standard errors that a gain must exceed."""

WORTH = 0.01
"""Gain in accuracy below which adapting is not worth it."""

SURE = 1.64
"""Standard errors from which on a gain is ruled out, at 95 % on one side."""

FEWEST_LABELS = 30
"""Labels below which nothing is settled: the expected gain may be wrong."""


class Gain(NamedTuple):
    """What adapting gains on the target, and its standard error."""

    mean: float
    error: float


class Ruling(NamedTuple):
    """The verdict, what is done, the name of the reason, and the gain by all evidence."""

    verdict: Verdict
    action: Action
    why: str
    gain: Gain


def judge(
    expected: Gain,
    *,
    shifted: bool,
    doubt: float = 0.0,
    measured: Gain | None = None,
    obstacle: str | None = None,
    worth: float = WORTH,
    caution: float = CAUTION,
) -> Ruling:
    """Say whether to adapt.

    Parameters
    ----------
    expected : Gain
        By validation, without labels of the target.
    shifted : bool
        Whether there is evidence that the class balance changed.
    doubt : float, default=0
        How far the gain may be off beside its standard error, because more changed.
    measured : Gain, optional
        By labels of the target.
    obstacle : str, optional
        Why nothing can be judged: the reason of an "unclear" verdict.
    worth : float, default=0.01
        Gain below which adapting is not worth it.
    caution : float, default=1.2
        Standard errors that the gain must exceed.

    Examples
    --------
    >>> judge(Gain(0.05, 0.01), shifted=True).verdict
    'adapt'
    >>> judge(Gain(0.05, 0.01), shifted=True, doubt=0.2)[:3]
    ('unclear', 'none', 'more_changed')
    """
    gain = Gain(expected.mean, hypot(expected.error, doubt))
    if measured is not None:
        weight = gain.error**2 / (gain.error**2 + measured.error**2)
        mean = gain.mean + weight * (measured.mean - gain.mean)
        gain = Gain(mean, sqrt(weight) * measured.error)
    if obstacle is not None:
        return Ruling("unclear", "none", obstacle, gain)
    if gain.mean > caution * gain.error and (shifted or gain.mean >= worth):
        return Ruling("adapt", "adapt", "helps", gain)
    if not shifted:
        return Ruling("leave", "none", "no_shift", gain)
    if gain.mean + SURE * gain.error < worth:
        return Ruling("leave", "none", "no_gain", gain)
    why = "more_changed" if doubt > expected.error else "unsure"
    return Ruling("unclear", "none", why, gain)


def labels_to_settle(gain: float, changed: float) -> int:
    r"""Return how many labelled target rows would tell whether adapting helps.

    A changed decision adds 1, 0 or -1 to what adapting gains, so with a share c of changed
    decisions, n labels measure a gain g with variance c / n at most. The verdict is "adapt" if g
    exceeds `CAUTION` standard errors; that happens 4 times out of 5 from

    .. math:: n = (\text{caution} + 0.84)^2 \, c / g^2

    on. Gains below one point of accuracy are not worth the labels: g counts as at least that.

    Examples
    --------
    >>> labels_to_settle(0.04, 0.1)
    261
    """
    four_in_five = 0.8416212335729143  # quantile of the normal distribution
    needed = (CAUTION + four_in_five) ** 2 * changed / max(abs(gain), WORTH) ** 2
    return max(FEWEST_LABELS, ceil(needed))
