"""`python -m priorshift` is the command `priorshift`, where scripts are not on the path."""

from priorshift.cli import main

if __name__ == "__main__":
    main(prog_name="priorshift")
