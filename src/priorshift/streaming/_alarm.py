"""The alarm: raised once the evidence of a change is enough, and standing until acknowledged."""

from dataclasses import dataclass, replace

import numpy as np

from priorshift._typing import Vector
from priorshift.streaming._e_process import batch_scores, log_evidence, n_scores
from priorshift.streaming._pools import DyadicPools


@dataclass(frozen=True)
class Alarm:
    """A sequential test of whether the stream goes on as it began.

    Attributes
    ----------
    before : ndarray of shape (n_classes,)
        Hard decisions of all rows so far: those of the reference, and those of the stream since.
    threshold : float
        Log-evidence that raises the alarm: log(1 / level).
    seed : int
        Of the random numbers that break ties.
    run : int
        How many tests came before this one.
    pools : DyadicPools
        Sums of scores, and rows, since each start.
    since : ndarray of shape (n_classes,)
        Decisions of the batches after the one that raised the alarm, to be the next reference.
    log_e_value : float
        Evidence after the last batch.
    largest : float
        The most there has been since the test began.
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
        """Whether the alarm was raised."""
        return self.largest >= self.threshold

    @property
    def p_value(self) -> float:
        """The smallest level at which the alarm would stand by now."""
        return float(np.exp(-self.largest))

    def add(self, counts: Vector) -> "Alarm":
        """Hear the hard decisions of the next batch."""
        # a generator of its own for every batch: what is saved is a number, and all goes on alike
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
        """Begin anew with what came since the alarm; if that is nothing, with what will come.

        The batch that raised the alarm is left out: that it did makes it unlike the others.
        """
        return Alarm.against(self.since, self.threshold, self.seed, self.run + 1)
