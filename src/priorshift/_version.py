"""The version of priorshift, kept here and nowhere else."""

__version__ = "0.9.0"
