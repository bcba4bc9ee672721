"""The version of priorshift, kept here and nowhere else."""

__version__ = "1.0.0rc1"
