"""The training loop: train one network epoch by epoch (this module needs PyTorch)."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from priorshift.io import atomic_path
from priorshift.reproduction.distributions import Indices, distribution
from priorshift.reproduction.images import Images, Pixels, augmented, centred
from priorshift.reproduction.networks import as_torch
from priorshift.reproduction.pickles import read_tensors
from priorshift.reproduction.training import BATCH_SIZE, MOMENTUM, WEIGHT_DECAY, Plan
from priorshift.torch_sampler import PriorSampler

N_FOR_SCALE = 5000
"""Training images that the mean and spread of the pixels are measured on."""


@dataclass(frozen=True)
class Step:
    """Progress of training, after a batch."""

    what: str  # which network is trained
    retrained: bool  # whether its batches follow new priors
    epoch: int  # from 1
    n_epochs: int
    done: int  # images of this epoch so far
    total: int
    loss: float  # like the accuracy, a mean over this epoch so far
    accuracy: float


Watcher = Callable[[Step], object]


@dataclass(frozen=True)
class Epoch:
    """Result of one epoch."""

    epoch: int
    learning_rate: float
    loss: float
    accuracy: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Scale:
    """Mean and spread of the pixels per channel."""

    mean: Tensor
    spread: Tensor

    @classmethod
    def of(cls, images: Images, rows: Indices, device: str) -> "Scale":
        """Measure both on the first training images."""
        pixels = images.pixels(np.sort(rows[:N_FOR_SCALE]))
        numbers = (pixels.mean(axis=(0, 1, 2)), np.maximum(pixels.std(axis=(0, 1, 2)), 1.0))
        return cls(*(torch.tensor(n, dtype=torch.float32, device=device) for n in numbers))

    def __call__(self, pixels: Pixels) -> Tensor:
        """Return pixels as (n, channels, height, width), centred on 0."""
        values = torch.from_numpy(np.ascontiguousarray(pixels)).to(self.mean.device).float()
        return ((values - self.mean) / self.spread).permute(0, 3, 1, 2)


def train_network(
    network: nn.Module,
    images: Images,
    rows: Indices,
    plan: Plan,
    scale: Scale,
    *,
    checkpoint: Path | None = None,
    watch: Watcher = lambda _: None,
) -> list[Epoch]:
    """Train a network in place by stochastic gradient descent.

    All randomness of an epoch depends on the plan's seed and the number of the epoch alone.
    Training that resumes from a checkpoint therefore gives the same result as if it had never
    stopped.

    Parameters
    ----------
    network : torch.nn.Module
    images : Images
    rows : ndarray of int
        The training images.
    plan : Plan
    scale : Scale
    checkpoint : Path, optional
        Written after every epoch. If it exists, training continues from it.
    watch : callable, optional
        Called with a `Step` after every batch.

    Returns
    -------
    list of Epoch
    """
    optimiser = torch.optim.SGD(
        network.parameters(), plan.recipe.learning_rate, MOMENTUM, weight_decay=WEIGHT_DECAY
    )
    history = _resume(checkpoint, plan, rows.size, network, optimiser)
    for number in range(len(history), plan.n_epochs):
        rate = plan.recipe.rate(number, plan.n_epochs)
        for group in optimiser.param_groups:
            group["lr"] = rate
        begin = time.monotonic()
        loss, accuracy = _epoch(network, optimiser, images, rows, plan, scale, number, watch)
        history.append(Epoch(number + 1, rate, loss, accuracy, time.monotonic() - begin))
        if checkpoint is not None:
            _save(checkpoint, plan, rows.size, network, optimiser, history)
    return history


def predict_logits(
    network: nn.Module, images: Images, rows: Indices, size: int, scale: Scale
) -> NDArray[np.float32]:
    """Return the network's outputs on some images, without augmentation."""
    network.eval()
    with torch.inference_mode():
        parts = [
            network(scale(centred(images.pixels(some), size))).float().cpu().numpy()
            for some in _batches(rows)
        ]
    return np.concatenate(parts)


def _epoch(
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    images: Images,
    rows: Indices,
    plan: Plan,
    scale: Scale,
    number: int,
    watch: Watcher,
) -> tuple[float, float]:
    rng = np.random.default_rng([plan.seed, number])
    network.train()
    done, loss, right = 0, 0.0, 0
    what = plan.dataset if plan.sampler is None else f"{plan.dataset} for {plan.sampler}"
    order = _order(images.y[rows], plan, rng)
    for some in _batches(rows[order]):
        pixels = augmented(images.pixels(some), plan.recipe.padding, plan.recipe.size, rng)
        y = torch.from_numpy(images.y[some].astype(np.int64)).to(scale.mean.device)
        logits = network(scale(pixels))
        cost = functional.cross_entropy(logits, y)
        optimiser.zero_grad()
        cost.backward()
        optimiser.step()
        done += some.size
        loss += float(cost.detach()) * some.size
        right += int((logits.argmax(dim=1) == y).sum())
        watch(
            Step(
                what,
                plan.sampler is not None,
                number + 1,
                plan.n_epochs,
                done,
                rows.size,
                loss / done,
                right / done,
            )
        )
    return loss / done, right / done


def _order(y: Indices, plan: Plan, rng: np.random.Generator) -> Indices:
    if plan.sampler is None:
        return rng.permutation(y.size)
    n_classes = int(y.max()) + 1
    priors = distribution(plan.sampler, n_classes)
    sampler = PriorSampler(y, priors, classes=np.arange(n_classes), random_state=rng)
    return np.fromiter(sampler, dtype=np.intp, count=len(sampler))


def _batches(rows: Indices) -> list[Indices]:
    """Cut rows into batches; a single last image joins the batch before it."""
    cuts = np.arange(BATCH_SIZE, rows.size - 1, BATCH_SIZE)
    return np.split(rows, cuts)


def _save(
    path: Path,
    plan: Plan,
    n_rows: int,
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    history: list[Epoch],
) -> None:
    state = {
        "plan": plan.to_dict() | {"n_rows": n_rows},
        "network": network.state_dict(),
        "optimiser": optimiser.state_dict(),
        "history": [asdict(epoch) for epoch in history],
    }
    with atomic_path(path) as temporary:
        torch.save(state, temporary)


def _resume(
    path: Path | None,
    plan: Plan,
    n_rows: int,
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
) -> list[Epoch]:
    if path is None or not path.exists():
        return []
    state: dict[str, Any] = as_torch(read_tensors(path))
    if state["plan"] != plan.to_dict() | {"n_rows": n_rows}:
        raise ValueError(
            f"{path} is the checkpoint of another run ({state['plan']}); remove it, or write into "
            "another folder."
        )
    network.load_state_dict(state["network"])
    optimiser.load_state_dict(state["optimiser"])
    return [Epoch(**epoch) for epoch in state["history"]]
