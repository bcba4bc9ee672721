"""Doctests of modules that need an extra run where the extra is installed."""

from importlib.util import find_spec

NEEDED = {
    "src/priorshift/torch_sampler.py": "torch",
    "src/priorshift/execution/_dask.py": "distributed",
    "src/priorshift/training/_loop.py": "torch",
    "src/priorshift/training/_networks.py": "torch",
    "src/priorshift/training/_weights.py": "torch",
}

collect_ignore = [path for path, package in NEEDED.items() if not find_spec(package)]
