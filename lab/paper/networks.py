"""The networks, weights to start from, and the training loop (this module needs PyTorch)."""

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

from lab.paper.distributions import Indices, distribution, require_known
from lab.paper.images import Images, Pixels, augmented, centred
from lab.paper.training import BATCH_SIZE, MOMENTUM, WEIGHT_DECAY, Plan
from priorshift.files import atomic_file
from priorshift.torch_sampler import PriorSampler

N_FOR_SCALE = 5000
"""Training images that the mean and spread of the pixels are measured on."""


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut.

    The parts have torchvision's names, so that its weights can be loaded.
    """

    def __init__(self, n_in: int, n_out: int, stride: int, shortcut: nn.Module | None) -> None:
        super().__init__()
        self.conv1 = _convolution(n_in, n_out, stride)
        self.bn1 = nn.BatchNorm2d(n_out)
        self.conv2 = _convolution(n_out, n_out, 1)
        self.bn2 = nn.BatchNorm2d(n_out)
        self.downsample = shortcut

    def forward(self, x: Tensor) -> Tensor:
        """Add the output of the convolutions to the input."""
        found = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(found + (x if self.downsample is None else self.downsample(x)))


class PaddedShortcut(nn.Module):
    """Option A of He et al.: every other pixel and channels of zeros, without weights."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.missing = n_out - n_in

    def forward(self, x: Tensor) -> Tensor:
        """Halve the sides and add channels at both ends."""
        before = self.missing // 2
        return functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, before, self.missing - before))


class SmallImageResNet(nn.Module):
    """The residual network for 32x32 images: three stages of n blocks, 6 n + 2 layers.

    Five blocks per stage make Idelbayev's ResNet-32: 16, 32 and 64 channels, shortcuts without
    weights, 0.46 million parameters for ten classes.
    """

    def __init__(self, n_classes: int, n_channels: int = 3, n_blocks: int = 5) -> None:
        super().__init__()
        self.conv1 = _convolution(n_channels, 16, 1)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = _stage(16, 16, n_blocks, 1, PaddedShortcut)
        self.layer2 = _stage(16, 32, n_blocks, 2, PaddedShortcut)
        self.layer3 = _stage(32, 64, n_blocks, 2, PaddedShortcut)
        self.fc = nn.Linear(64, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        x = functional.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean(dim=(2, 3)))


class ResNet18(nn.Module):
    """ResNet-18 for 224x224 images; its parts have torchvision's names."""

    def __init__(self, n_classes: int, n_channels: int = 3) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n_channels, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = _stage(64, 64, 2, 1, _projection)
        self.layer2 = _stage(64, 128, 2, 2, _projection)
        self.layer3 = _stage(128, 256, 2, 2, _projection)
        self.layer4 = _stage(256, 512, 2, 2, _projection)
        self.fc = nn.Linear(512, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        x = functional.max_pool2d(functional.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean(dim=(2, 3)))


class SmallNetwork(nn.Sequential):
    """Three convolutions and a linear layer for 28x28 images: seconds per epoch on one core."""

    def __init__(self, n_classes: int, n_channels: int = 1) -> None:
        parts: list[nn.Module] = []
        for n_in, n_out in ((n_channels, 16), (16, 32), (32, 64)):
            parts += [
                _convolution(n_in, n_out, 1),
                nn.BatchNorm2d(n_out),
                nn.ReLU(),
                nn.MaxPool2d(2),
            ]
        super().__init__(*parts, nn.Flatten(), nn.Linear(64 * 3 * 3, n_classes))


NETWORKS: dict[str, Callable[[int, int], nn.Module]] = {
    "small": SmallNetwork,
    "resnet-32": SmallImageResNet,
    "resnet-18": ResNet18,
}
"""Networks by name; each is called with the number of classes and of channels."""


def make_network(name: str, n_classes: int, n_channels: int, seed: int) -> nn.Module:
    """Make a network whose random weights depend on the seed alone.

    Convolutions start as in He et al. The last layer starts with PyTorch's smaller weights, because
    the short schedules here have no time to unlearn large logits.
    """
    require_known(name, NETWORKS, "network")
    with torch.random.fork_rng(devices=[]):  # leave the user's own generator alone
        torch.manual_seed(seed)
        network = NETWORKS[name](n_classes, n_channels)
        for part in network.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight)
    return network.to(memory_format=torch.channels_last)


def load_weights(network: nn.Module, path: Path) -> None:
    """Load weights by name from a file like torchvision's.

    The last layer, `fc`, keeps its random weights if the file has another number of classes.
    """
    state = load_tensors(path)
    own = network.state_dict()
    if not isinstance(state, dict) or not state.keys() & own.keys():
        raise ValueError(
            f"{path} does not hold weights of this network: it should be a file of tensors named "
            f"{', '.join(list(own)[:3])}, ..."
        )
    fitting = {
        name: value
        for name, value in state.items()
        if not name.startswith("fc.") or value.shape == own[name].shape
    }
    missing = [name for name in own if name not in fitting and not name.startswith("fc.")]
    strange = [name for name in fitting if name not in own]
    differing = [name for name in fitting if name in own and fitting[name].shape != own[name].shape]
    for what, names in [("lacks", missing), ("also has", strange), ("differs in", differing)]:
        if names:
            raise ValueError(f"{path} is of another network: it {what} {', '.join(names[:3])}.")
    network.load_state_dict(fitting, strict=False)


def load_tensors(path: Path) -> Any:
    """Read tensors in plain containers; PyTorch refuses a file that asks for anything else."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except Exception as error:  # PyTorch may raise anything on a damaged file
        raise ValueError(f"{path} is not a PyTorch file of tensors alone: {error}") from None


def _stage(
    n_in: int, n_out: int, n_blocks: int, stride: int, shortcut: Callable[[int, int], nn.Module]
) -> nn.Sequential:
    first = BasicBlock(n_in, n_out, stride, None if stride == 1 else shortcut(n_in, n_out))
    others = (BasicBlock(n_out, n_out, 1, None) for _ in range(n_blocks - 1))
    return nn.Sequential(first, *others)


def _convolution(n_in: int, n_out: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)


def _projection(n_in: int, n_out: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(n_in, n_out, 1, 2, bias=False), nn.BatchNorm2d(n_out))


@dataclass(frozen=True)
class Epoch:
    """Result of one epoch."""

    epoch: int
    learning_rate: float
    loss: float
    accuracy: float
    seconds: float


Watcher = Callable[[Plan, Epoch], object]


@dataclass(frozen=True, eq=False)
class Scale:
    """Mean and spread of the pixels per channel."""

    mean: Tensor
    spread: Tensor

    @classmethod
    def of(cls, images: Images, rows: Indices, device: str) -> "Scale":
        """Measure both on the first training images, by batches: large images fill the memory."""
        n, total, squares = 0, 0, 0
        for some in _batches(np.sort(rows[:N_FOR_SCALE])):
            pixels = images.pixels(some)
            n += pixels[..., 0].size
            total += pixels.sum(axis=(0, 1, 2), dtype=np.int64)
            squares += np.einsum("nhwc,nhwc->c", pixels, pixels, dtype=np.int64)
        mean = total / n
        numbers = (mean, np.maximum(np.sqrt(np.maximum(squares / n - mean**2, 0.0)), 1.0))
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
    watch: Watcher = lambda *_: None,
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
        Called with the plan and an `Epoch` after every epoch, before the checkpoint.

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
        loss, accuracy = _epoch(network, optimiser, images, rows, plan, scale, number)
        history.append(Epoch(number + 1, rate, loss, accuracy, time.monotonic() - begin))
        watch(plan, history[-1])
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
) -> tuple[float, float]:
    rng = np.random.default_rng([plan.seed, number])
    network.train()
    loss, right = 0.0, 0
    order = _order(images.y[rows], plan, rng)
    for some in _batches(rows[order]):
        pixels = augmented(images.pixels(some), plan.recipe.padding, plan.recipe.size, rng)
        y = torch.from_numpy(images.y[some].astype(np.int64)).to(scale.mean.device)
        logits = network(scale(pixels))
        cost = functional.cross_entropy(logits, y)
        optimiser.zero_grad()
        cost.backward()
        optimiser.step()
        loss += float(cost.detach()) * some.size
        right += int((logits.argmax(dim=1) == y).sum())
    return loss / rows.size, right / rows.size


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
        "plan": asdict(plan) | {"n_rows": n_rows},
        "network": network.state_dict(),
        "optimiser": optimiser.state_dict(),
        "history": [asdict(epoch) for epoch in history],
    }
    with atomic_file(path) as stream:
        torch.save(state, stream)


def _resume(
    path: Path | None,
    plan: Plan,
    n_rows: int,
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
) -> list[Epoch]:
    if path is None or not path.exists():
        return []
    state: dict[str, Any] = load_tensors(path)
    if state["plan"] != asdict(plan) | {"n_rows": n_rows}:
        raise ValueError(
            f"{path} is the checkpoint of another run ({state['plan']}); remove it, or write into "
            "another folder."
        )
    network.load_state_dict(state["network"])
    optimiser.load_state_dict(state["optimiser"])
    return [Epoch(**epoch) for epoch in state["history"]]
