"""The border: whatever is given becomes checked rows here, and nothing behind it asks what it was.

Behind it, probabilities are a float32 or float64 matrix `(n_samples, n_classes)` in the order of
`classes`, in memory or in blocks, and labels are indices into `classes`. Predictions are checked
once: see `Predictions`. Their type follows one rule: see `float_type`.
"""

from priorshift.border.adapted import mark_adapted, warn_if_adapted
from priorshift.border.check import (
    MOST_DRAWS,
    Predictions,
    as_array,
    as_float,
    as_generator,
    as_mapping,
    check_choice,
    check_count,
    check_level,
    check_number,
    check_numbers,
    check_outputs,
    check_proba,
    check_resamples,
    check_rounded,
    check_sample_weight,
    check_square,
    column_of,
    divided_by_sums,
    is_missing,
    read_groups,
    read_labels,
    read_scores,
    require_keys,
    rounding,
)
from priorshift.border.classes import (
    NO_PRIOR,
    as_decisions,
    check_classes,
    check_priors,
    check_source_mass,
    classes_of_priors,
    encode_labels,
    known_labels,
    like_input,
    order_in_words,
    ordered,
    read_decisions,
    read_labelled,
    read_proba,
    settle_classes,
    warn_of_missing_names,
)
from priorshift.border.clusters import DaskTable, SparkTable, apply_to
from priorshift.border.columns import HEAD_ROWS, as_text
from priorshift.border.join import join_labels
from priorshift.border.rows import (
    SUM_TOLERANCE,
    ArrayTable,
    Block,
    Blocks,
    Rows,
    Table,
    draw_rows,
    map_blocks,
    map_reduce,
    sample_rows,
    slices,
    sum_by,
    take_rows,
)
from priorshift.border.sparse import (
    DENSE_CLASSES,
    SparseTable,
    dense,
)
from priorshift.border.tensors import Tensor, is_tensor, to_numpy
from priorshift.border.threads import (
    BLOCK_BYTES,
    SERIAL_WORK,
    LockFree,
    map_parts,
    map_rows,
    multiply,
    n_threads,
    row_blocks,
    single_threaded_blas,
    times,
)
from priorshift.border.topk import TopK
from priorshift.text import some
