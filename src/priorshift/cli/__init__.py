"""The command `priorshift`, and what further commands need to look and fail like its own."""

from typing import TYPE_CHECKING

from priorshift.cli._main import main

if TYPE_CHECKING:
    from priorshift.cli._console import emit, note, progress, show_table
    from priorshift.cli._errors import Command
else:

    def __getattr__(name: str) -> object:
        """Import what commands need when it is asked for: help needs none of it."""
        if name not in __all__:
            raise AttributeError(f"module 'priorshift.cli' has no attribute {name!r}")
        from priorshift.cli import _console, _errors

        return _errors.Command if name == "Command" else getattr(_console, name)


__all__ = ["Command", "emit", "main", "note", "progress", "show_table"]
