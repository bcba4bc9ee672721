"""All public names: `priorshift` imports them from here when the first is asked for.

Each is imported as itself, which tells type checkers that it is offered.
"""

from priorshift import datasets as datasets
from priorshift import plotting as plotting
from priorshift._version import __version__ as __version__
from priorshift.adapt import Adapter as Adapter
from priorshift.adapt import ProbaInterval as ProbaInterval
from priorshift.adapt import adapt_proba as adapt_proba
from priorshift.adapt import adapt_proba_interval as adapt_proba_interval
from priorshift.adapt import decide as decide
from priorshift.adapt import priors_from_labels as priors_from_labels
from priorshift.adapt import priors_from_predictions as priors_from_predictions
from priorshift.adapt import renormalise as renormalise
from priorshift.adapt import sample_indices as sample_indices
from priorshift.adapt import sample_weights as sample_weights
from priorshift.assessment import Assessment as Assessment
from priorshift.assessment import assess as assess
from priorshift.border import TopK as TopK
from priorshift.border import join_labels as join_labels
from priorshift.calibration import BCTS as BCTS
from priorshift.calibration import TemperatureScaling as TemperatureScaling
from priorshift.calibration import VectorScaling as VectorScaling
from priorshift.conformal import ConformalSets as ConformalSets
from priorshift.counts import Confusion as Confusion
from priorshift.counts import DecisionCounts as DecisionCounts
from priorshift.estimators import PriorEstimate as PriorEstimate
from priorshift.estimators import PriorEstimator as PriorEstimator
from priorshift.estimators import available_estimators as available_estimators
from priorshift.estimators import get_estimator as get_estimator
from priorshift.estimators import register_estimator as register_estimator
from priorshift.estimators.labelled import labels_needed as labels_needed
from priorshift.estimators.registry import *  # noqa: F403
from priorshift.evidence import AssumptionTest as AssumptionTest
from priorshift.evidence import Backtest as Backtest
from priorshift.evidence import Diagnostics as Diagnostics
from priorshift.evidence import ShiftTest as ShiftTest
from priorshift.evidence import backtest as backtest
from priorshift.evidence import check_assumption as check_assumption
from priorshift.evidence import detect_shift as detect_shift
from priorshift.evidence import diagnose as diagnose
from priorshift.evidence import expected_accuracy as expected_accuracy
from priorshift.exceptions import ConvergenceWarning as ConvergenceWarning
from priorshift.exceptions import PriorShiftWarning as PriorShiftWarning
from priorshift.groups import GroupCounts as GroupCounts
from priorshift.groups import GroupEstimates as GroupEstimates
from priorshift.groups import estimate_groups as estimate_groups
from priorshift.monitor import MonitorHistory as MonitorHistory
from priorshift.monitor import MonitorStep as MonitorStep
from priorshift.monitor import PriorMonitor as PriorMonitor
from priorshift.sklearn import PriorAdaptedClassifier as PriorAdaptedClassifier
