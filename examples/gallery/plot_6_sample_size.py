"""
How many target samples are enough?
===================================

An estimate from few rows is noisy. Estimates from smaller and smaller samples of the target show
how many rows you need for a stable estimate.
"""

# %%
# For each size, ``SampleSizeDisplay`` draws samples from the target and compares their estimates
# with the estimate from all rows. This needs no labels.

import priorshift as ps
from priorshift.datasets import load_fashion_lt
from priorshift.plotting import SampleSizeDisplay

data = load_fashion_lt()
em = ps.EM().fit(source_priors=data.source_priors, classes=data.classes)
SampleSizeDisplay.from_predictions(em, data.y_proba_target, random_state=0)

# %%
# A confusion-matrix method needs more rows for the same precision.

scml = ps.SCML().fit(
    data.y_proba_val, data.y_val, source_priors=data.source_priors, classes=data.classes
)
display = SampleSizeDisplay.from_predictions(scml, data.y_proba_target, random_state=0)

# %%
# This is only the noise of the *target*. The noise of the confusion matrix comes from validation
# and does not decrease with more target rows: with all of them, SCM-L is still further from the
# truth than EM here.

truth = ps.priors_from_labels(data.y_target, classes=data.classes)
for estimator in (em, scml):
    priors = estimator.estimate(data.y_proba_target).priors
    print(f"{estimator.name}: L1 error {abs(priors - truth).sum():.3f} with all rows")
