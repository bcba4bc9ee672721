"""The command `priorshift`."""

from priorshift.cli._main import main

__all__ = ["main"]
