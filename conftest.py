"""What runs where: doctests that need an extra, and a clock as on a machine just started."""

import time
from importlib.util import find_spec

import pytest

NEEDED = {
    "src/priorshift/torch_sampler.py": "torch",
    "src/priorshift/execution/_dask.py": "distributed",
    "lab/paper/networks.py": "torch",
}

collect_ignore = [path for path, package in NEEDED.items() if not find_spec(package)]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add an option that shows that no test depends on how long the machine has been up."""
    parser.addoption("--just-started", action="store_true", help="begin time.monotonic() at 0")


def pytest_configure(config: pytest.Config) -> None:
    """Set the clock back before anything is imported that might read it."""
    if config.getoption("--just-started"):
        clock, start = time.monotonic, time.monotonic()
        time.monotonic = lambda: clock() - start
