"""PyTorch, if it is there."""

from typing import Any


def require_torch() -> Any:
    """Import PyTorch, or say how to get it."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "training needs PyTorch, which is missing: pip install 'priorshift[torch]'"
        ) from error
    return torch
