"""A PyTorch sampler that follows given class priors (extra `torch`)."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from priorshift.adapt import RandomState, sample_indices
from priorshift.border import as_generator
from priorshift.exceptions import missing

try:
    from torch.utils.data import Sampler
except ImportError:
    raise missing("PriorSampler", "torch", "torch") from None


class PriorSampler(Sampler[int]):
    """Draw training samples so that each epoch follows the target priors.

    Rows of a class repeat only after all of them have been drawn; see `sample_indices`.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Label of each sample of the dataset, in its order.
    target_priors, classes
        As in `priorshift.sample_indices`.
    n_samples : int, optional
        Length of an epoch; by default the size of the dataset.
    random_state : None, int or numpy.random.Generator, optional
        Seed of the first epoch; every epoch draws new samples.

    Examples
    --------
    >>> from torch.utils.data import DataLoader
    >>> from priorshift.torch_sampler import PriorSampler
    >>> y = [0] * 90 + [1] * 10
    >>> sampler = PriorSampler(y, [0.5, 0.5], n_samples=1000, random_state=0)
    >>> drawn = [
    ...     label for batch in DataLoader(y, batch_size=50, sampler=sampler) for label in batch
    ... ]
    >>> len(drawn), abs(sum(drawn) / 1000 - 0.5) < 0.05
    (1000, tensor(True))
    """

    def __init__(
        self,
        y: ArrayLike,
        target_priors: Any,
        n_samples: int | None = None,
        *,
        classes: ArrayLike | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.rng = as_generator(random_state)
        self.y, self.target_priors, self.classes = np.asarray(y), target_priors, classes
        self.n_samples = self.y.size if n_samples is None else n_samples
        # bad arguments should fail here, not inside a training loop
        sample_indices(self.y, target_priors, self.n_samples, classes=classes, random_state=0)

    def __iter__(self) -> Iterator[int]:
        """Draw one epoch's row numbers."""
        drawn = sample_indices(
            self.y,
            self.target_priors,
            self.n_samples,
            classes=self.classes,
            random_state=self.rng,
        )
        return iter(drawn.tolist())

    def __len__(self) -> int:
        """Return the length of an epoch."""
        return self.n_samples
