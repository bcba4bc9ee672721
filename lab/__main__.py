"""Run a command of the laboratory: `python -m lab COMMAND ...`."""

import sys
from importlib import import_module

COMMANDS = {
    "benchmark": ("paper.commands", "run an experiment of the paper on stored outputs"),
    "train": ("paper.commands", "train a classifier of the paper (extra train)"),
    "hours": ("paper.hours", "how long the paper's classifiers train, here and on a GPU"),
    "networks": ("paper.runs", "train the networks of the reproduction, and store their outputs"),
    "reproduction": ("paper.reproduction", "the paper's tables on real outputs, and its claims"),
    "summary": ("paper.claims", "the tables that `reproduction` wrote, side by side"),
    "applications": ("paper.applications", "the paper's best practice on imbalanced tasks"),
    "data": ("data", "build the pools of the quality tables from public packages"),
    "quality": ("quality", "what every method gains under simulated shifts"),
    "leaderboard": ("leaderboard", "ours beside QuaPy, mlquantify and the usual recipes"),
    "verdicts": ("verdicts", "how often each verdict of `assess` is right"),
    "coverage": ("coverage", "whether intervals, tests and diagnostics keep their promises"),
    "labels": ("labels", "intervals from a few target labels"),
    "prevalence": ("prevalence", "intervals of a prevalence with known error rates"),
    "conformal": ("conformal", "prediction sets under prior shift"),
    "monitor": ("monitor", "errors, false alarms and delays of monitoring"),
    "speed": ("speed", "time and memory of the core, beside peers"),
    "scale": ("scale", "files larger than memory"),
    "wide": ("wide", "very many classes with few scores per row"),
    "groups": ("groups", "many groups at once"),
    "clusters": ("clusters", "passes on Dask and Spark"),
    "exports": ("exports", "every way an adapter can travel"),
    "fuzz": ("fuzz.runner", "hostile inputs for every public entry point"),
    "mutants": ("mutants", "how many swapped operators the tests notice"),
    "fashion-lt": ("fashion_lt", "make the bundled data set again"),
}
"""Each command: its module, and what it does."""


def main() -> object:
    """Import the module of the command, and hand it the other arguments."""
    name, arguments = [*sys.argv, ""][1], sys.argv[2:]
    if name in COMMANDS:
        try:
            module = import_module(f"lab.{COMMANDS[name][0]}")
            return getattr(module, name if name in ("benchmark", "train") else "main")(arguments)
        except ModuleNotFoundError as error:
            return f"Error: {error}. `make .venv-extras/.stamp` makes an environment that has it."
        except (ValueError, ImportError, OSError) as error:
            return f"Error: {error}"
    width = max(map(len, COMMANDS))
    lines = [f"  {each:{width}}  {what}" for each, (_, what) in COMMANDS.items()]
    print("Usage: python -m lab COMMAND [OPTIONS]", "", *lines, "", sep="\n")
    print("python -m lab COMMAND --help says more.")
    return 0 if name in ("", "-h", "--help") else f"there is no command {name!r}."


if __name__ == "__main__":
    sys.exit(main())
