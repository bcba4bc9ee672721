"""What adapting does to the target, counted block by block: no adapted copy of it is held."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from priorshift._typing import Floats, Indices, Vector
from priorshift._validation import Predictions
from priorshift.estimators import PriorEstimate
from priorshift.evaluation import Scores
from priorshift.execution import Block, Rows, Table, map_reduce

KEPT = "rows have no class left that the target priors allow; they keep their original "
KEPT_SOMEWHERE = f"Some {KEPT}probabilities."


@dataclass(frozen=True, eq=False)
class Counted:
    """Decisions before and after adapting, and how good both are where labels are known.

    Attributes
    ----------
    routes : csr_array of shape (n_classes, n_classes)
        Rows by decision before and after.
    truth : ndarray of shape (n_classes,) or None
        Labels of each class.
    before, after : Scores or None
    """

    routes: Any
    truth: Vector | None = None
    before: Scores | None = None
    after: Scores | None = None


def count_target(
    estimate: PriorEstimate, rows: Rows, label: Indices | None
) -> tuple[Counted, list[str]]:
    """Go through the target once; return what adapting does to it, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        whole = isinstance(rows, np.ndarray)  # then a warning counts the rows of all of it
        adapted = estimate.adapt(Predictions.from_checked(rows)) if whole else None
        found = map_reduce(_Count(estimate, label, adapted), rows)
    told = [str(warning.message) for warning in caught]
    if isinstance(rows, Table):
        told = [KEPT_SOMEWHERE if KEPT in message else message for message in told]
    routes, hits_before, hits_after, loss_before, loss_after = found
    if label is None:
        return Counted(routes), told
    counts = np.bincount(label, minlength=estimate.classes.size)
    before = _scores(hits_before, loss_before, counts, estimate.source_priors)
    after = _scores(hits_after, loss_after, counts, estimate.priors)
    return Counted(routes, counts / counts.sum(), before, after), told


def _scores(hits: Vector, loss: float, counts: Indices, priors: Vector) -> Scores:
    present, n = counts > 0, int(counts.sum())
    return Scores(
        accuracy=float(hits.sum() / n),
        balanced_accuracy=float((hits[present] / counts[present]).mean()),
        log_loss=float(loss / n),
        l1_error=float(np.abs(priors - counts / n).sum()),
    )


@dataclass(frozen=True)
class _Count:
    """Count a block's decisions before and after; right ones by class, and add up log losses."""

    estimate: PriorEstimate
    label: Indices | None
    adapted: Floats | None

    def __call__(self, block: Block, rows: slice) -> tuple[Any, Vector, Vector, float, float]:
        if self.adapted is None:
            adapted = self.estimate.adapt(Predictions.from_checked(block))
        else:
            adapted = self.adapted[rows]
        before, after = block.argmax(axis=1), adapted.argmax(axis=1)
        K = block.shape[1]
        routes = csr_array((np.ones(before.size), (before, after)), shape=(K, K))
        if self.label is None:
            return routes, np.zeros(0), np.zeros(0), 0.0, 0.0
        truth = self.label[rows]
        hits = [
            np.bincount(truth[chosen == truth], minlength=K).astype(np.float64)
            for chosen in (before, after)
        ]
        loss_before, loss_after = (_log_loss(values, truth) for values in (block, adapted))
        return routes, *hits, loss_before, loss_after


def _log_loss(values: Floats, truth: Indices) -> float:
    of_truth = values[np.arange(truth.size), truth].astype(np.float64)
    return float(-np.log(of_truth.clip(min=np.finfo(np.float64).eps)).sum())
