"""What runs where: doctests that need an extra, and a clock as on a machine just started."""

import time
from importlib.util import find_spec

import pytest

NEEDED = {
    "src/priorshift/torch_sampler.py": "torch",
    "src/priorshift/border/clusters.py": "distributed",
    "lab/paper/networks.py": "torch",
}

collect_ignore = [path for path, package in NEEDED.items() if not find_spec(package)]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options: all frozen numbers, and a clock as on a machine that was just started."""
    parser.addoption("--golden", action="store_true", help="recompute all frozen numbers")
    parser.addoption("--just-started", action="store_true", help="begin time.monotonic() at 0")


def pytest_configure(config: pytest.Config) -> None:
    """Set the clock back before anything is imported that might read it."""
    if config.getoption("--just-started"):
        clock, start = time.monotonic, time.monotonic()
        time.monotonic = lambda: clock() - start
