"""The group of commands."""

import click

from priorshift._version import __version__
from priorshift.cli._adapt import adapt
from priorshift.cli._assess import assess
from priorshift.cli._check import check
from priorshift.cli._compare import compare
from priorshift.cli._demo import demo
from priorshift.cli._errors import Program
from priorshift.cli._estimate import estimate
from priorshift.cli._groups import groups
from priorshift.cli._monitor import monitor
from priorshift.cli._prevalence import plan, prevalence
from priorshift.cli._report import report
from priorshift.cli._shift import test


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: priorshift assess --validation validation.csv --target target.csv\n\n"
    "To try it on example data: priorshift demo --save-data .",
)
@click.version_option(__version__, prog_name="priorshift")
def main() -> None:
    """Estimate the class priors of unlabelled data, and adapt a classifier's predictions to them.

    Exit codes: 0 done, 1 bad data, 2 bad usage, 3 a shift (test and monitor with --fail-on-shift).
    """


for command in (
    demo,
    check,
    assess,
    estimate,
    adapt,
    groups,
    compare,
    test,
    report,
    monitor,
    prevalence,
    plan,
):
    main.add_command(command)
