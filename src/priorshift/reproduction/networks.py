"""The networks, and weights to start from (this module needs PyTorch)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from priorshift.reproduction.distributions import require_known
from priorshift.reproduction.pickles import read_tensors


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
    """Load weights by name from a file like torchvision's; nothing is unpickled.

    The last layer, `fc`, keeps its random weights if the file has another number of classes.
    """
    state = as_torch(read_tensors(path))
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


def as_torch(value: Any) -> Any:
    """Return containers of arrays as containers of tensors."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    if isinstance(value, dict):
        return {key: as_torch(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(as_torch, value))
    return value


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
