"""How the paper trains each data set (its supplement A), and what one run of ours is."""

from dataclasses import asdict, dataclass
from typing import Any

from priorshift._validation import check_choice, check_count
from priorshift.evaluation.paper import IMBALANCES

BATCH_SIZE = 256
MOMENTUM = 0.9
WEIGHT_DECAY = 1e-4


@dataclass(frozen=True)
class Recipe:
    """Network, schedule and augmentation of a data set.

    Attributes
    ----------
    network : {"small", "resnet-32", "resnet-18"}
    n_epochs : int
        Of the paper; fewer scale the schedule.
    learning_rate : float
        At the beginning.
    decay_every : int
        Epochs, of the paper's, after which the learning rate falls to a tenth.
    size : int
        Side of the images that the network sees.
    padding : int
        Before they are cut out at random.
    n_runs : int
        Networks that the paper trains.

    Examples
    --------
    >>> recipe = RECIPES["cifar-100"]
    >>> [round(recipe.rate(epoch, 200), 4) for epoch in (0, 79, 80, 160)]
    [0.1, 0.1, 0.01, 0.001]
    >>> [round(recipe.rate(epoch, 10), 4) for epoch in (0, 3, 4, 8)]
    [0.1, 0.1, 0.01, 0.001]
    """

    network: str
    n_epochs: int
    learning_rate: float
    decay_every: int
    size: int
    padding: int
    n_runs: int

    def rate(self, epoch: int, n_epochs: int) -> float:
        """Return the learning rate of an epoch, out of `n_epochs`."""
        return self.learning_rate * 0.1 ** (epoch * self.n_epochs // (n_epochs * self.decay_every))


RECIPES = {
    "fashion-mnist": Recipe("small", 30, 0.1, 12, 28, 2, 10),  # ours: the paper has no such data
    "cifar-10": Recipe("resnet-32", 200, 0.1, 80, 32, 4, 10),
    "cifar-100": Recipe("resnet-32", 200, 0.1, 80, 32, 4, 10),
    "places365-lt": Recipe("resnet-18", 30, 0.01, 10, 224, 0, 5),
    "imagenet-lt": Recipe("resnet-18", 90, 0.1, 30, 224, 0, 5),
}
"""By data set."""


@dataclass(frozen=True)
class Plan:
    """One network to train.

    Attributes
    ----------
    dataset : str
        One of `RECIPES`.
    source : str
        Class distribution of the training images.
    sampler : str or None
        Class distribution that batches are drawn by, with replacement; None takes every image once.
    seed : int
        Of the subset, the initial weights, the batches and their augmentation.
    n_epochs : int
    largest : int or None
        Training images of the most frequent class; None is as many as there are.
    """

    dataset: str
    source: str = "LT"
    sampler: str | None = None
    seed: int = 0
    n_epochs: int = 1
    largest: int | None = None

    def __post_init__(self) -> None:
        check_choice(self.dataset, tuple(RECIPES), "dataset")
        check_choice(self.source, tuple(IMBALANCES), "source")
        if self.sampler is not None:
            check_choice(self.sampler, tuple(IMBALANCES), "sampler")
        check_count(self.n_epochs, "n_epochs")
        if self.largest is not None:
            check_count(self.largest, "largest")

    @property
    def recipe(self) -> Recipe:
        """How the paper trains this data set."""
        return RECIPES[self.dataset]

    @property
    def name(self) -> str:
        """What its files are called: data set and source, with `largest` if it is given."""
        return f"{self.dataset}-{self.source}{self.largest or ''}"

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        return asdict(self)
