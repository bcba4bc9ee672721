r"""Supplementary C: estimates that do not fit together make priors and ratios negative.

The supplement's example has the joint confusion matrix and decision frequencies

.. math:: C = \begin{pmatrix} 0.4 & 0.1 \\ 0.1 & 0.4 \end{pmatrix}, \quad q = (1, 0), \quad
    w = C^{-1} q = (8/3, -2/3).

How often that happens on real outputs is counted here, for the four methods that invert. A target
row x is adapted to :math:`f_k(x) w_k / \sum_j f_j(x) w_j`. If ratios are left negative, as in the
paper's code, that sum is below 0 where most of the probability is on classes of negative ratio; the
division turns all signs, and the row is decided for the most negative class after all.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from priorshift._typing import Vector
from priorshift.adaptation import prior_ratio
from priorshift.evaluation.paper._outputs import StoredOutputs
from priorshift.evaluation.paper._result import heading
from priorshift.evaluation.paper._tables import Progress, draws, estimator_of
from priorshift.evaluation.paper._trial import SHARE
from priorshift.exceptions import PriorShiftWarning
from priorshift.solvers import solve_linear

METHODS = ("cm", "scm", "bbse", "bbse-s")
EXAMPLE = np.array([[0.4, 0.1], [0.1, 0.4]]), np.array([1.0, 0.0])
"""The joint confusion matrix and the decision frequencies of the supplement."""


@dataclass(frozen=True)
class Inconsistency:
    """How far a method's plain solution leaves the simplex.

    In one trial, `negative` is the share of classes below 0, `clipped` the size of what is below 0
    where all priors together are 1, and `turned` the share of target rows whose adapted values
    would sum to less than 0.
    """

    source: str
    target: str
    calibrated: bool
    method: str
    seed: int
    negative: float
    clipped: float
    turned: float


def example() -> Vector:
    """Return the supplement's ratio.

    Examples
    --------
    >>> example().round(3)
    array([ 2.667, -0.667])
    """
    return solve_linear(*EXAMPLE)


def run_inconsistent(
    outputs: Sequence[StoredOutputs],
    *,
    targets: Sequence[str] = ("UNI",),
    n_seeds: int = 10,
    share: float = SHARE,
    progress: Progress = iter,
) -> list[Inconsistency]:
    """Count the negative entries of CM, SCM, BBSE and BBSE-S on stored outputs."""
    found: list[Inconsistency] = []
    for setting in progress(list(draws(outputs, targets, n_seeds, share))):
        trial = setting.draw()
        where = (setting.outputs.name, setting.target, setting.calibrated)
        for method in METHODS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PriorShiftWarning)
                shift = trial.estimated(estimator_of(method, "certified"))
            by_ratio = method.startswith("bbse")
            raw = shift.priors if shift.raw is None else shift.raw
            mass = raw * trial.label_frequencies if by_ratio else raw
            ratio = raw if by_ratio else prior_ratio(raw, trial.mean_prediction)
            found.append(
                Inconsistency(
                    *where,
                    method,
                    setting.seed,
                    negative=float((raw < 0).mean()),
                    clipped=-float(np.minimum(mass, 0.0).sum()),
                    turned=float((trial.y_proba_target @ ratio < 0).mean()),
                )
            )
    return found


def inconsistency_as_markdown(found: Sequence[Inconsistency]) -> str:
    """Return means by setting: classes below 0, and their mass."""
    lines = [
        "| source -> target | BCTS | " + " | ".join(map(heading, METHODS)) + " |",
        "|---" * (2 + len(METHODS)) + "|",
    ]
    settings: dict[tuple[str, str, bool], dict[str, list[Inconsistency]]] = {}
    for one in found:
        by_method = settings.setdefault((one.source, one.target, one.calibrated), {})
        by_method.setdefault(one.method, []).append(one)
    for (source, target, calibrated), by_method in settings.items():
        cells = [f"{source} -> {target}", "yes" if calibrated else "no"]
        cells += [_cell(by_method[method]) for method in METHODS]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(trials: Sequence[Inconsistency]) -> str:
    negative, turned = (
        100 * np.mean([getattr(one, name) for one in trials]) for name in ("negative", "turned")
    )
    clipped = np.mean([one.clipped for one in trials])
    return f"{negative:.1f} % of classes, mass {clipped:.3f}, {turned:.1f} % of rows turned"
