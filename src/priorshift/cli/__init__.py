"""The command `priorshift`, and what further commands need to look and fail like its own."""

from priorshift.cli._console import emit, note, progress, show_table
from priorshift.cli._errors import Command
from priorshift.cli._main import main

__all__ = ["Command", "emit", "main", "note", "progress", "show_table"]
