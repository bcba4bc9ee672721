"""Adapt each row to the priors of its group."""

import numpy as np

from priorshift._blocks import row_blocks
from priorshift._typing import Floats, Indices, Labels, Vector
from priorshift.exceptions import PriorShiftWarning, warn_user
from priorshift.groups._labels import match_groups


def codes_of(labels: Labels, groups: Labels, *, or_pooled: bool) -> Indices:
    """Return the position of each label among sorted groups; one behind the last if unknown."""
    if not or_pooled:
        return match_groups(labels, groups)
    known = np.isin(labels, groups)
    codes = np.full(labels.size, groups.size, dtype=np.intp)
    if known.any():
        codes[known] = match_groups(labels[known], groups)
    return codes


def reweight_by_group(values: Floats, ratios: Vector, codes: Indices) -> Floats:
    """Multiply each row by its group's ratio and normalise, in blocks."""
    adapted, n_kept = np.empty_like(values), 0
    for rows in row_blocks(*values.shape):
        block = values[rows] * ratios[codes[rows]]
        sums = block.sum(axis=1)
        lost = sums == 0
        if lost.any():
            block[lost] = values[rows][lost]
            sums[lost] = block[lost].sum(axis=1)
            n_kept += int(np.count_nonzero(lost))
        adapted[rows] = block / sums[:, None]
    if n_kept:
        warn_user(
            f"{n_kept} of {values.shape[0]} rows have no class left that the priors of their group "
            "allow; they keep their original probabilities.",
            PriorShiftWarning,
        )
    return adapted
