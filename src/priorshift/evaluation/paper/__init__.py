"""The paper's experiments, on stored outputs of any classifier: `priorshift benchmark`."""

from priorshift.evaluation.paper._convergence import RunTime, Stage, run_convergence
from priorshift.evaluation.paper._distributions import (
    IMBALANCES,
    SUPPLEMENT,
    distribution,
    largest_sample,
    long_tailed_counts,
)
from priorshift.evaluation.paper._experiments import EXPERIMENTS, WITHOUT_DATA, run_experiment
from priorshift.evaluation.paper._gaussian import ConfusionStudy, run_gaussian
from priorshift.evaluation.paper._inconsistent import Inconsistency, run_inconsistent
from priorshift.evaluation.paper._outputs import Part, StoredOutputs
from priorshift.evaluation.paper._result import Record, Table
from priorshift.evaluation.paper._samples import run_samples
from priorshift.evaluation.paper._tables import TABLES, Setting, run_table, run_tables
from priorshift.evaluation.paper._trial import Trial, draw_trial

__all__ = [
    "EXPERIMENTS",
    "IMBALANCES",
    "SUPPLEMENT",
    "TABLES",
    "WITHOUT_DATA",
    "ConfusionStudy",
    "Inconsistency",
    "Part",
    "Record",
    "RunTime",
    "Setting",
    "Stage",
    "StoredOutputs",
    "Table",
    "Trial",
    "distribution",
    "draw_trial",
    "largest_sample",
    "long_tailed_counts",
    "run_convergence",
    "run_experiment",
    "run_gaussian",
    "run_inconsistent",
    "run_samples",
    "run_table",
    "run_tables",
]
