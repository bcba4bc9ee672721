"""Begin with the weights of another network (this module needs PyTorch)."""

from pathlib import Path

from torch import nn

from priorshift.training._tensors import read_tensors
from priorshift.training._torch import as_torch


def load_weights(network: nn.Module, path: Path) -> None:
    """Load weights by name, as torchvision's files have them; nothing is unpickled.

    The last layer, `fc`, keeps its random weights if the file's has another number of classes.
    """
    state = as_torch(read_tensors(path))
    own = network.state_dict()
    if not isinstance(state, dict) or not state.keys() & own.keys():
        raise ValueError(
            f"{path} does not hold weights of this network: it should be a file of tensors named "
            f"as {', '.join(list(own)[:3])}, ..."
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
