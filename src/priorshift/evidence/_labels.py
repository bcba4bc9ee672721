r"""Few labels, where they matter: which rows to label, and what their labels say.

Nothing, calibrating and adapting differ on few rows, the *changed* ones; labels elsewhere say
nothing of what an action gains. So three quarters of the labels go to rows drawn among the changed
ones, the rest to others, which tell of the class shares. Labels are weighed by stratum: with
M of n rows in a stratum and m of them labelled, at random,

.. math:: \hat g = \sum_h \frac{M_h}{n} \bar s_h, \qquad
          \operatorname{Var} \hat g = \sum_h \frac{M_h^2}{n^2} \frac{v_h}{m_h}
          \Big(1 - \frac{m_h}{M_h}\Big)

with :math:`s_i` what an action saves on row i, and v its variance with one success and one failure
added: few rows without a difference are no proof of none. The last factor makes a stratum exact
whose rows are all labelled. Rows that were labelled at random for other reasons are used the same
way. Labels never refit the rule that they judge.
"""

from typing import NamedTuple

import numpy as np

from priorshift._typing import Floats, Indices, Mask, Vector
from priorshift.adapt import Goal
from priorshift.border import as_generator
from priorshift.evidence._promises import Acted, differences
from priorshift.verdict import Action, Gain

ON_CHANGED = 0.75
"""Share of the labels that goes to rows where actions differ."""


class Strata(NamedTuple):
    """Which rows of a target are changed by an action, which have labels, and their classes."""

    changed: Mask
    labelled: Indices
    y: Indices

    @property
    def tell(self) -> bool:
        """Whether labels tell what actions gain: whether any is on a changed row."""
        return bool(self.changed[self.labelled].any()) or not self.changed.any()

    def mean(
        self, values: Vector, added: float, *, elsewhere: bool = True
    ) -> tuple[Vector, Vector]:
        """Return the mean over all rows of values known on labelled ones, and its variance.

        Parameters
        ----------
        values : ndarray of shape (n_labelled,) or (n_labelled, k)
        added : float
            Size of the values of one success and one failure that are added to the variance.
        elsewhere : bool, default=True
            Whether values differ from 0 on rows that are not changed.
        """
        mean, variance = np.zeros(values.shape[1:]), np.zeros(values.shape[1:])
        for stratum in (self.changed, ~self.changed)[: 2 if elsewhere else 1]:
            some, size = values[stratum[self.labelled]], int(stratum.sum())
            m, part = len(some), size / stratum.size
            if m:
                centre = some.sum(axis=0) / (m + 2)
                spread = ((some**2).sum(axis=0) + 2 * added**2) / (m + 2) - centre**2
                mean = mean + part * some.mean(axis=0)
                variance = variance + part**2 * spread / m * (1 - m / size)
            elif size:  # nothing is known of these rows
                variance = variance + (part * added) ** 2
        return mean, variance


def rows_that_differ(goal: Goal, target: Acted) -> Mask:
    """Tell on which rows nothing, calibrating and adapting do not all decide alike.

    Where probabilities themselves are the goal, every row counts as changed.
    """
    if not goal.by_decisions:
        return np.ones(len(target.y_proba), bool)
    raw, *others = (goal.decide(one) for one in target)
    return np.asarray(np.any([raw != other for other in others], axis=0))


def draw_rows_to_label(
    goal: Goal, target: Acted, n: int, random_state: int | np.random.Generator | None
) -> Indices:
    """Draw n rows to label, sorted: three quarters among changed rows, as far as there are any.

    Rows of a stratum have the same chance. They are drawn at even distances from a random start,
    sorted by what adapting should save on them, so that no draw consists of lucky rows alone.
    """
    rng = as_generator(random_state)
    changed, q = rows_that_differ(goal, target), target.calibrated
    rows, savings = differences(goal, target.y_proba, target.adapted)
    expected = np.zeros(changed.size)
    expected[rows] = np.einsum("ij,ij->i", q[rows], savings)
    order = np.lexsort((q.max(axis=1), q.argmax(axis=1), expected))
    strata = order[changed[order]], order[~changed[order]]
    n = min(n, changed.size)
    first = min(strata[0].size, max(round(ON_CHANGED * n), n - strata[1].size))
    drawn = [
        some[((rng.uniform() + np.arange(m)) * some.size / max(m, 1)).astype(np.intp)]
        for some, m in zip(strata, (first, n - first), strict=True)
    ]
    return np.sort(np.concatenate(drawn))


def measure_gains(goal: Goal, target: Acted, strata: Strata) -> dict[Action, Gain]:
    """Measure what calibrating and adapting gain, by labels of the target.

    Each action is judged by the rows that it changes, which are a random part of those drawn;
    elsewhere it gains exactly nothing.
    """
    y, before = strata.y, target.y_proba[strata.labelled]
    after: dict[Action, Floats] = {"calibrate": target.calibrated, "adapt": target.adapted}
    found: dict[Action, Gain] = {}
    for action, new in after.items():
        rows, own = new[strata.labelled], strata
        if goal.by_decisions:
            saved = goal.saved(y, goal.decide(before), goal.decide(rows))
            own = strata._replace(changed=goal.decide(new) != goal.decide(target.y_proba))
        else:
            saved = goal.scores(y, before) - goal.scores(y, rows)
        mean, variance = own.mean(saved, goal.scale, elsewhere=False)
        found[action] = Gain(float(mean), float(np.sqrt(variance)))
    return found


def measure_shares(y_proba: Floats, strata: Strata) -> tuple[Vector, Vector]:
    """Return class shares by labels and all predictions (PPI), by stratum, and their variance."""
    surprise = np.eye(y_proba.shape[1])[strata.y] - y_proba[strata.labelled]
    mean, variance = strata.mean(surprise, 0.5)
    return np.asarray(y_proba.mean(axis=0, dtype=np.float64) + mean), np.asarray(variance)
