"""PyTorch, if it is there."""

from typing import Any

import numpy as np


def require_torch() -> Any:
    """Import PyTorch, or say how to get it."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "training needs PyTorch, which is missing: pip install 'priorshift[torch]'"
        ) from error
    return torch


def as_torch(value: Any) -> Any:
    """Return containers of arrays as containers of tensors."""
    torch = require_torch()
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    if isinstance(value, dict):
        return {key: as_torch(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(as_torch, value))
    return value
