"""The laboratory: the paper's experiments, benchmarks beside peers, and hostile inputs.

It is no part of the installed package, and imports documented names of priorshift only, so it also
shows that these suffice. `python -m lab --help` lists its commands.
"""
