"""Files of predictions: npy, npz, csv, parquet, arrow. Written atomically, never unpickled."""

from priorshift.files._atomic import atomic_path, locked, write_text
from priorshift.files._base import PredictionFile
from priorshift.files._open import SUFFIXES, open_predictions, require_file, suffix_of
from priorshift.files._resume import START, Mark, Partial, remove_partial, resumable_path
from priorshift.files._view import ClassView, KeptRows

__all__ = [
    "START",
    "SUFFIXES",
    "ClassView",
    "KeptRows",
    "Mark",
    "Partial",
    "PredictionFile",
    "atomic_path",
    "locked",
    "open_predictions",
    "remove_partial",
    "require_file",
    "resumable_path",
    "suffix_of",
    "write_text",
]
