"""Results that nobody can write to by accident."""

from dataclasses import fields
from typing import Any

import numpy as np


class FrozenArrays:
    """Base of frozen dataclasses whose arrays are copied, and read-only, also after unpickling.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, eq=False)
    ... class Found(FrozenArrays):
    ...     priors: np.ndarray
    >>> Found(np.ones(2)).priors.flags.writeable
    False
    """

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                frozen = value.copy()
                frozen.setflags(write=False)
                object.__setattr__(self, field.name, frozen)

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild through `__init__`: NumPy's own pickles forget that arrays are read-only."""
        return type(self), tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]
