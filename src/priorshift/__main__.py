"""The command `priorshift`; as `python -m priorshift` also where scripts are not on the path.

Nothing that takes time is imported before `main` runs, so that Ctrl-C gets an answer.
"""

import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command."""
    try:
        from priorshift.cli import main as program
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write("Error: stopped.\n")
        sys.exit(INTERRUPTED)
    program(prog_name="priorshift")


if __name__ == "__main__":
    main()
