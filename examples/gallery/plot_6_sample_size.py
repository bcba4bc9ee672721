"""
How many target samples are enough?
===================================

An estimate from few rows is noisy. Drawing ever smaller samples from the target shows how fast
estimates settle, before one trusts them.
"""

# %%
# For each size, samples are drawn from the target and the estimate from the sample is compared with
# the estimate from all rows. No labels are needed.

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
# This is the noise of the *target* alone. That of the confusion matrix, which comes from
# validation, does not shrink however many target rows there are: with all of them SCM-L is still
# further from the truth than EM here.

truth = ps.priors_from_labels(data.y_target, classes=data.classes)
for estimator in (em, scml):
    priors = estimator.estimate(data.y_proba_target).priors
    print(f"{estimator.name}: L1 error {abs(priors - truth).sum():.3f} with all rows")
