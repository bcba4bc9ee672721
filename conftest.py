"""Doctests of modules that need an extra run where the extra is installed."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["src/priorshift/torch_sampler.py"]
