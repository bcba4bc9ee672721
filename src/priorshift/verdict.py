r"""Numbers in, verdict out: the one rule that says whether to adapt.

A target can be read in two ways. Under *prior shift* each class looks as it did and the class
balance moved; under *covariate shift* a prediction means what it did and other cases came.
Predictions alone seldom tell them apart, and what helps under one may harm under the other. Three
things can be done: nothing, calibrating, adapting in full. What decides, in this order:

1. **Labels of the target.** They measure what each action gains, :math:`g \pm s`. Before them, the
   gain is :math:`G_p` under prior shift and :math:`G_x` under covariate shift, of which prior shift
   is given the weight explained / 2; that is a guess of mean :math:`\mu` and spread :math:`\tau`,
   hardly ever sharper than two points. Both are averaged by precision. The action of the largest
   gain less its standard error is taken, if that is above 0.
2. **Labelled history**, where the target has moved no further than past groups did: the action
   whose mean gain over these groups has the largest bound (one-sided 95 %, Student's), if above 0.
3. **Otherwise what holds under either reading.** Adapting: the change is well explained (85 %,
   surely 60 %), prior shift moves the shares at most twice as far as the calibrated mean does, and
   adapting gains by both shares. Calibrating: it gains beyond its error at unchanged shares,
   under covariate shift, and under prior shift too, unless nothing changed measurably or the size
   of the misfit rules prior shift out. Where both hold, the larger mean of both readings.

With ``assumed``, the user's word that each class looks as it did, prior shift alone is asked.

The verdict is **adapt** where an action is taken; **leave** if nothing changed or no action can
gain a point; **unclear** otherwise: with calibrating where that pays anyway, but adapting might
gain more.
"""

from collections.abc import Mapping
from math import sqrt
from typing import Literal, NamedTuple

Verdict = Literal["adapt", "leave", "unclear"]
"""What to do."""

Action = Literal["none", "calibrate", "adapt"]
"""What is done to predictions: "leave" goes with none, "adapt" with calibrate or adapt, "unclear"
with none or calibrate."""

CAUTION = 1.0
"""Standard errors that a gain must exceed: by the estimate, as labels measure it, and that of
calibrating under each reading."""

WELL, SURELY, REFUTED = 0.85, 0.6, 0.9
"""A change is well explained from this share on, with this lower bound; prior shift is out of the
question where the upper bound is below the last."""

AMPLIFIED = 2.0
"""How much further the estimate may move than the calibrated mean."""

LEAST_SPREAD = 0.02
"""Spread of a gain before any label: two points, however sure a reading may be of itself."""

WORTH = 0.01
"""Gain in accuracy below which adapting is not worth it."""

SURE = 1.64
"""Standard errors from which on a gain is ruled out, at 95 % on one side."""


class Gain(NamedTuple):
    """What an action gains on the target, and its standard error."""

    mean: float
    error: float

    def less(self, errors: float) -> float:
        """Return the bound that many errors below the mean."""
        return self.mean - errors * self.error

    def joined(self, other: "Gain") -> "Gain":
        """Return the average of two by precision."""
        if not self.error or not other.error:
            return self if not self.error else other
        weight = self.error**2 / (self.error**2 + other.error**2)
        mean = self.mean + weight * (other.mean - self.mean)
        return Gain(mean, sqrt(weight) * other.error)


class Promise(NamedTuple):
    """What an action gains under each reading of the shift.

    Where nothing changed; where predictions mean what they did; where classes look as they did, at
    the shares of the calibrated mean, and at those of the estimate.
    """

    unchanged: Gain
    covariate: Gain
    mean: Gain
    prior: Gain
    changed: float = 1.0
    """Share of the rows on which the action makes a difference."""

    def read(self, weight: float, least: float = 0.0) -> Gain:
        """Return the gain if prior shift has this weight, covariate shift the rest."""
        (x, x_error), (p, p_error) = self.covariate, self.prior
        variance = weight * p_error**2 + (1 - weight) * x_error**2
        variance += weight * (1 - weight) * (p - x) ** 2 + least**2
        return Gain(weight * p + (1 - weight) * x, sqrt(variance))


class Kind(NamedTuple):
    """Which kind of shift: how much of the change in predictions a change of balance explains.

    `explained` is between 0 and 1, and None where predictions changed no more than noise does;
    `low` and `high` are its bounds. `amplification` is how much further prior shift moves the
    shares than the calibrated mean does. `unexplained` bounds the share of the target that is like
    no mixture of validation's classes.
    """

    explained: float | None = None
    low: float = 0.0
    high: float = 1.0
    amplification: float = 1.0
    unexplained: float = 0.0

    @property
    def well_explained(self) -> bool:
        """Whether prior shift explains the change, and the answer hardly hinges on the reading."""
        well = self.explained is not None and self.explained >= WELL and self.low >= SURELY
        return well and self.amplification <= AMPLIFIED

    @property
    def possible(self) -> bool:
        """Whether there was a change that prior shift may explain: it is not refuted."""
        return self.explained is not None and self.high >= REFUTED


class Ruling(NamedTuple):
    """The verdict, what is done, the name of the reason, and the gain by all evidence."""

    verdict: Verdict
    action: Action
    why: str
    gain: Gain


def judge(
    promises: Mapping[Action, Promise],
    kind: Kind,
    *,
    shifted: bool,
    measured: Mapping[Action, Gain] | None = None,
    past: Mapping[Action, Gain] | None = None,
    assumed: bool = False,
    obstacle: str | None = None,
    worth: float = WORTH,
) -> Ruling:
    """Say whether to adapt, and how.

    Parameters
    ----------
    promises : mapping from action to Promise
        What "calibrate" and "adapt" gain by validation and the target's predictions.
    kind : Kind
        How much of the change a change of class balance explains.
    shifted : bool
        Whether predictions or class balance changed beyond noise.
    measured : mapping from action to Gain, optional
        By labels of the target.
    past : mapping from action to Gain, optional
        By labelled history, of groups that moved as far as the target; the error is scaled so that
        `SURE` of them bound the mean.
    assumed : bool, default=False
        Whether each class is known to look as it did.
    obstacle : str, optional
        Why nothing can be judged: the reason of an "unclear" verdict.
    worth : float, default=0.01
        Gain below which adapting is not worth it.

    Examples
    --------
    >>> gain, loss, none = Gain(0.05, 0.01), Gain(-0.04, 0.01), Gain(0.0, 0.001)
    >>> promises = {"calibrate": Promise(none, none, none, none)}
    >>> promises["adapt"] = Promise(loss, loss, gain, gain)
    >>> judge(promises, Kind(0.97, 0.9, 1.0, 1.5), shifted=True).verdict
    'adapt'
    >>> judge(promises, Kind(0.5, 0.4, 0.6, 1.5), shifted=True)[:3]
    ('unclear', 'none', 'more_changed')
    >>> judge(promises, Kind(0.97, 0.9, 1.0, 4.0), shifted=True)[:3]
    ('unclear', 'none', 'hinges')
    """
    calibrates, adapts = promises["calibrate"], promises["adapt"]
    weight = 1.0 if assumed else kind.explained or 0.0
    calibrated, full = calibrates.read(weight), adapts.read(weight)
    if obstacle is not None:
        return Ruling("unclear", "none", obstacle, full)
    if measured is not None:
        gains = {}
        for action, gain in measured.items():
            least = min(LEAST_SPREAD, promises[action].changed) * worth / WORTH
            gains[action] = promises[action].read(weight / 2, least).joined(gain)
        return take_best(gains, CAUTION, "labels", worth)
    if past is not None and not assumed:
        return take_best(past, SURE, "history", worth)
    if assumed:
        priors: dict[Action, Gain] = {"calibrate": calibrates.prior, "adapt": adapts.prior}
        ruling = take_best(priors, CAUTION, "assumed", worth)
        if ruling.action == "none" and not shifted:
            return Ruling("leave", "none", "no_shift", ruling.gain)
        return ruling
    at_least = adapts.prior.less(CAUTION)
    agreed = kind.well_explained and at_least > 0 and adapts.mean.mean > 0
    if not shifted:
        agreed = agreed and adapts.prior.mean >= worth
    pays = calibrates.unchanged.less(CAUTION) > 0 and calibrates.covariate.less(CAUTION) > 0
    if kind.possible:
        pays = pays and calibrates.prior.less(CAUTION) > 0
    if agreed and pays:
        agreed = adapts.read(0.5).mean >= calibrates.read(0.5).mean
    if agreed:
        return Ruling("adapt", "adapt", "helps", full)
    if pays and kind.possible and at_least > calibrated.mean + worth:
        return Ruling("unclear", "calibrate", "calibrate_first", calibrated)
    if pays:
        return Ruling("adapt", "calibrate", "calibrate", calibrated)
    if not shifted:
        return Ruling("leave", "none", "no_shift", full)
    if adapts.prior.less(-SURE) < worth and full.mean < worth and calibrated.mean < worth:
        return Ruling("leave", "none", "no_gain", full)
    if kind.explained is not None and kind.high < WELL:
        return Ruling("unclear", "none", "more_changed", full)
    return Ruling("unclear", "none", "unsure" if at_least <= 0 else "hinges", full)


def judge_gain(
    gain: Gain, *, shifted: bool, worth: float = WORTH, caution: float = CAUTION
) -> Ruling:
    """Say whether to adapt if each class looks as it did, as estimators assume.

    Examples
    --------
    >>> judge_gain(Gain(0.05, 0.01), shifted=True)[:3]
    ('adapt', 'adapt', 'helps')
    """
    if gain.mean > caution * gain.error and (shifted or gain.mean >= worth):
        return Ruling("adapt", "adapt", "helps", gain)
    if not shifted:
        return Ruling("leave", "none", "no_shift", gain)
    if gain.mean + SURE * gain.error < worth:
        return Ruling("leave", "none", "no_gain", gain)
    return Ruling("unclear", "none", "unsure", gain)


def take_best(gains: Mapping[Action, Gain], errors: float, by: str, worth: float) -> Ruling:
    """Take the action of the largest bound, if that is above 0 and the gain not next to nothing."""
    best = max(gains, key=lambda action: gains[action].less(errors))
    if gains[best].less(errors) > 0 and gains[best].mean >= worth / 10:
        return Ruling("adapt", best, f"{by}_{best}", gains[best])
    if all(gain.mean + SURE * gain.error < worth for gain in gains.values()):
        return Ruling("leave", "none", f"{by}_leave", gains["adapt"])
    return Ruling("unclear", "none", f"{by}_unsure", gains["adapt"])
