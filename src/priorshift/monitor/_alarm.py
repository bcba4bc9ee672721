"""The alarm: raised when the evidence of a change suffices; you acknowledge it to end it."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import binom

from priorshift._typing import Labels, Vector
from priorshift.border import some
from priorshift.counts import Confusion
from priorshift.exceptions import PriorShiftWarning, warn_user
from priorshift.monitor._e_process import batch_scores, log_evidence, n_scores
from priorshift.monitor._past import DyadicPools


@dataclass(frozen=True)
class Alarm:
    """A sequential test of whether the stream is still as it was at the start.

    Attributes
    ----------
    before : ndarray of shape (n_classes,)
        Hard decisions of all rows so far: those of the reference and of the stream since.
    threshold : float
        Log-evidence that raises the alarm: log(1 / level).
    seed : int
        Seed of the random numbers that break ties.
    run : int
        How many tests came before this one.
    pools : DyadicPools
        Sums of scores, and rows, since each start.
    since : ndarray of shape (n_classes,)
        Decisions of the batches after the one that raised the alarm: the next reference.
    log_e_value : float
        Evidence after the last batch.
    largest : float
        Largest evidence since the test began.
    """

    before: Vector
    threshold: float
    seed: int
    run: int
    pools: DyadicPools
    since: Vector
    log_e_value: float = 0.0
    largest: float = 0.0

    @classmethod
    def against(cls, reference: Vector, threshold: float, seed: int, run: int = 0) -> "Alarm":
        """Return a test that begins with the next batch."""
        K = reference.size
        pools = DyadicPools.empty(n_scores(K) + 1)
        return cls(reference, threshold, seed, run, pools, np.zeros(K))

    @property
    def standing(self) -> bool:
        """Whether the alarm stands."""
        return self.largest >= self.threshold

    @property
    def p_value(self) -> float:
        """The smallest level at which the alarm would have been raised by now."""
        return float(np.exp(-self.largest))

    def add(self, counts: Vector) -> "Alarm":
        """Return the test after the hard decisions of the next batch."""
        # every batch has its own generator, so that a number is all that a saved test needs
        rng = np.random.default_rng([self.seed, self.run, self.pools.n_batches])
        scores, rows = batch_scores(counts, self.before, rng), counts.sum()
        pools = self.pools.add(np.append(np.sqrt(rows) * scores, rows))
        sums = pools.sums[:, None, :-1]
        evidence = float(log_evidence(pools.starts, sums, pools.sums[:, -1], counts.size)[0])
        return replace(
            self,
            before=self.before + counts,
            pools=pools,
            since=self.since + counts if self.standing else self.since,
            log_e_value=evidence,
            largest=max(self.largest, evidence),
        )

    def acknowledge(self) -> "Alarm":
        """Start again from the batches since the alarm or, if there are none, from those to come.

        The batch that raised the alarm is left out, because raising it makes it unlike the others.
        """
        return Alarm.against(self.since, self.threshold, self.seed, self.run + 1)


def source_decisions(
    confusion: Confusion,
    label_priors: Vector | None,
    classes: Labels,
    rng: np.random.Generator,
) -> Vector:
    """Return the decisions of a reference sample with the class balance of the source.

    Without `label_priors` that is validation itself. With them it is a part of validation, drawn
    without replacement: labels by those priors, and rows of each label at random. Weighting rows
    instead would not give a sample whose noise is known.

    Parameters
    ----------
    confusion : Confusion
        Hard decisions on validation, unweighted.
    label_priors : ndarray of shape (n_classes,) or None
    classes : ndarray of shape (n_classes,)
    rng : numpy.random.Generator
    """
    rows, K = confusion.class_weights, classes.size
    drawn = confusion.counts.sum(axis=1)
    if label_priors is not None:
        # as many labels as can be drawn with hardly any chance to run out of rows
        low, high = 0, int(rows.sum())
        while low < high:
            middle = (low + high + 1) // 2
            if binom.sf(rows, middle, label_priors).sum() <= 1e-6:
                low = middle
            else:
                high = middle - 1
        wanted = rng.multinomial(low, label_priors)
        by_class = confusion.counts.T.ravel().astype(np.intp)  # decisions of class 0, of class 1...
        label, decision = np.divmod(np.repeat(np.arange(K * K), by_class), K)
        order = np.lexsort((rng.random(label.size), label))
        first = np.searchsorted(label, np.arange(K))
        chosen = order[np.arange(label.size) - first[label] < wanted[label]]
        drawn = np.bincount(decision[chosen], minlength=K).astype(np.float64)
    if drawn.sum() < 50:  # hardly any change can be noticed
        why = ""
        if label_priors is not None:
            wide = np.full_like(rows, np.inf)
            enough_for = np.divide(rows, label_priors, out=wide, where=label_priors > 0)
            scarce = classes[np.argmin(enough_for)].item()
            why = f" (class {some([scarce])} is the scarcest)"
        warn_user(
            f"alarms rest on {drawn.sum():.0f} validation rows drawn as the source was{why}: only "
            "large shifts will be noticed. Use a larger validation set.",
            PriorShiftWarning,
        )
    return drawn
