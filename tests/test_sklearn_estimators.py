"""scikit-learn's own checks of an estimator, all of them, with no expected failures."""

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

from priorshift.sklearn import PriorAdaptedClassifier

# old versions of scikit-learn hand pytest a generator, which new versions of pytest deprecate
checks = parametrize_with_checks([PriorAdaptedClassifier(LogisticRegression())])
names, cases = checks.args


# some checks draw labels at random, where calibrators say that they see no pattern, and few rows
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.*fewer samples than there are folds")
@pytest.mark.parametrize(names, list(cases), **checks.kwargs)
def test_scikit_learn_finds_nothing_to_object_to(estimator, check):
    with threadpool_limits(1):  # small models gain nothing from threads
        check(estimator)
