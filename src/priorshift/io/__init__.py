"""Files of predictions: npy, npz, csv, parquet, arrow. Written atomically, never unpickled."""

from priorshift.io._atomic import atomic_path, write_text
from priorshift.io._base import PredictionFile, as_text
from priorshift.io._open import SUFFIXES, open_predictions

__all__ = ["SUFFIXES", "PredictionFile", "as_text", "atomic_path", "open_predictions", "write_text"]
