"""Files of predictions: npy, npz, csv, parquet, arrow. Written atomically, never unpickled.

A further format is a subclass of `PredictionFile` (`_base`) that `_open` lists by its suffix.
"""

from priorshift.files._atomic import (
    atomic_file,
    is_device,
    locked,
    read_private,
    refuse_link,
    write_text,
)
from priorshift.files._base import PANDAS_INDEX, PredictionFile
from priorshift.files._classes import (
    by_class,
    common_classes,
    explain_classes,
    match_table,
    say_different,
)
from priorshift.files._open import SUFFIXES, open_predictions, require_file, suffix_of
from priorshift.files._resume import Partial, remove_partial, resumable_file
from priorshift.files._signed import (
    array_from_json,
    array_to_json,
    read_json,
    sign,
    verify,
    write_json,
)
