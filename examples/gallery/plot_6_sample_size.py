"""
How many target samples are enough?
===================================

An estimate from few rows is noisy. Estimates from smaller and smaller samples of the target show
how many rows you need for a stable estimate.
"""

# %%
# Draw samples of several sizes from the target, and compare their estimates with the estimate from
# all rows. This needs no labels.

import matplotlib.pyplot as plt
import numpy as np

import priorshift as ps
from priorshift.datasets import load_fashion_lt

data = load_fashion_lt()
known = {"source_priors": data.source_priors, "classes": data.classes}
em = ps.EM().fit(**known)
scml = ps.SCML().fit(data.y_proba_val, data.y_val, **known)
rng = np.random.default_rng(0)
sizes = [50, 100, 200, 400, 800, 1200]
for estimator in (em, scml):
    full = estimator.estimate(data.y_proba_target).priors
    distances = []
    for size in sizes:
        samples = (rng.choice(data.y_proba_target, size, replace=False) for _ in range(10))
        found = [abs(estimator.estimate(sample).priors - full).sum() for sample in samples]
        distances.append(np.median(found))
    plt.loglog(sizes, distances, "o-", label=estimator.name)
plt.xlabel("target samples")
plt.ylabel("L1 distance to the estimate from all rows")
plt.legend()

# %%
# A confusion-matrix method needs more rows for the same precision.
#
# Samples show only the noise of the *target*. The noise of the confusion matrix comes from
# validation and does not decrease with more target rows. Intervals include it, so they tell
# whether more target rows would help: here, four times as many hardly do.

for size in (200, 800):
    shift = scml.estimate(data.y_proba_target[:size], confidence_level=0.95)
    print(f"{size} rows: standard errors of up to {shift.standard_error.max():.3f}")

# %%
# With all rows, SCM-L is still further from the truth than EM here.

truth = ps.priors_from_labels(data.y_target, classes=data.classes)
for estimator in (em, scml):
    priors = estimator.estimate(data.y_proba_target).priors
    print(f"{estimator.name}: L1 error {abs(priors - truth).sum():.3f} with all rows")
