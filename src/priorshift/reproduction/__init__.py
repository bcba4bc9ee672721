"""The paper's laboratory: train its classifiers, run its experiments, check its numbers.

It imports public names of priorshift only, so it also shows that these suffice. `priorshift train`
(extra `train`) stores the outputs of a classifier, `priorshift benchmark` runs the experiments on
stored outputs of any classifier.
"""

from priorshift.reproduction.distributions import (
    IMBALANCES,
    LONG_TAILS,
    N_VAL,
    SUPPLEMENT,
    distribution,
    largest_sample,
    long_tailed_counts,
    pareto_counts,
    source_counts,
    split,
)
from priorshift.reproduction.experiments import EXPERIMENTS, WITHOUT_DATA, run_experiment
from priorshift.reproduction.images import (
    LOADERS,
    ArrayImages,
    FileImages,
    ImageData,
    Images,
    load_images,
)
from priorshift.reproduction.outputs import Part, StoredOutputs
from priorshift.reproduction.published import (
    PUBLISHED,
    PublishedCheck,
    check_published,
    load_published,
)
from priorshift.reproduction.supplement import (
    ConfusionStudy,
    Inconsistency,
    RunTime,
    Sensitivity,
    Stage,
    run_convergence,
    run_gaussian,
    run_inconsistent,
    run_sensitivity,
)
from priorshift.reproduction.tables import (
    TABLES,
    Record,
    ResultTable,
    run_samples,
    run_table,
    run_tables,
)
from priorshift.reproduction.training import (
    RECIPES,
    Plan,
    Recipe,
    require_torch,
    train_classifier,
)
from priorshift.reproduction.trials import Setting, Trial, draw_trial

__all__ = [
    "EXPERIMENTS",
    "IMBALANCES",
    "LOADERS",
    "LONG_TAILS",
    "N_VAL",
    "PUBLISHED",
    "RECIPES",
    "SUPPLEMENT",
    "TABLES",
    "WITHOUT_DATA",
    "ArrayImages",
    "ConfusionStudy",
    "FileImages",
    "ImageData",
    "Images",
    "Inconsistency",
    "Part",
    "Plan",
    "PublishedCheck",
    "Recipe",
    "Record",
    "ResultTable",
    "RunTime",
    "Sensitivity",
    "Setting",
    "Stage",
    "StoredOutputs",
    "Trial",
    "check_published",
    "distribution",
    "draw_trial",
    "largest_sample",
    "load_images",
    "load_published",
    "long_tailed_counts",
    "pareto_counts",
    "require_torch",
    "run_convergence",
    "run_experiment",
    "run_gaussian",
    "run_inconsistent",
    "run_samples",
    "run_sensitivity",
    "run_table",
    "run_tables",
    "source_counts",
    "split",
    "train_classifier",
]
