"""The command `priorshift`, and what further commands need to look and fail like its own."""

from importlib import import_module

from priorshift.cli._main import main

WHERE = dict.fromkeys(("emit", "note", "progress", "show_table"), "_console") | {
    "Command": "_errors"
}
__all__ = ["Command", "emit", "main", "note", "progress", "show_table"]


def __getattr__(name: str) -> object:
    """Import what commands need when it is asked for: help needs none of it."""
    if name not in WHERE:
        raise AttributeError(f"module 'priorshift.cli' has no attribute {name!r}")
    return getattr(import_module(f"priorshift.cli.{WHERE[name]}"), name)
