"""
Can I trust it?
===============

An estimate without an error is half an answer. Priors with intervals, a test for shift, a test of
the assumption, and the accuracy to expect: all without labels of the target.
"""

# %%
# SCM-L rests on a confusion matrix, which is measured on validation. Its intervals hold the noise
# of validation as well as that of the target.

import numpy as np
from matplotlib import pyplot as plt

import priorshift as ps
from priorshift.datasets import load_fashion_lt
from priorshift.plotting import PriorsDisplay

data = load_fashion_lt()
validation = data.y_proba_val, data.y_val
given = {"source_priors": data.source_priors, "classes": data.classes}
scml = ps.SCML().fit(*validation, **given)
shift = scml.estimate(data.y_proba_target, confidence_level=0.95)
PriorsDisplay.from_estimate(shift)

# %%
# EM makes more of each row, because it takes outputs for posteriors. Its intervals are much
# narrower, and right only as far as that is true. Here the labels of the target are at hand, so the
# true shares can be drawn beside both.

em = ps.EM().fit(**given).estimate(data.y_proba_target, confidence_level=0.95)
truth = ps.priors_from_labels(data.y_target, classes=data.classes)
place = np.arange(data.classes.size)

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for estimate, offset in ((shift, -0.15), (em, 0.15)):
    low, high = estimate.interval.T
    error = estimate.priors - low, high - estimate.priors
    ax.errorbar(estimate.priors, place + offset, xerr=error, fmt="o", label=estimate.method)
ax.plot(truth, place, "|", markersize=16, color=plt.rcParams["text.color"], label="truth")
ax.set(yticks=place, yticklabels=data.classes, xlabel="class prior, with its 95 % interval")
ax.invert_yaxis()
ax.legend()

for estimate in (shift, em):
    low, high = estimate.interval.T
    held = np.count_nonzero((low <= truth) & (truth <= high))
    print(f"{estimate.method}: {held} of {truth.size} intervals hold the true share")

# %%
# Two tests: is there a shift, and does a change of priors alone explain the target?

test = ps.detect_shift(
    *validation, data.y_proba_target, classes=data.classes, assumption=True, random_state=0
)
print(test.sentence)
print(test.assumption.sentence)

# %%
# Outputs that are less sure within every decision cannot come from other priors. The test of the
# assumption notices, here on a half of validation that plays the target.

unsure = 0.7 * data.y_proba_val[2000:] + 0.03
found = ps.check_assumption(
    data.y_proba_val[:2000], data.y_val[:2000], unsure, classes=data.classes, random_state=0
)
print(found.sentence)

# %%
# What is adapting expected to bring? The accuracy of each class on validation, weighted by the
# estimated priors, needs no labels of the target.

print(ps.diagnose(*validation, data.y_proba_target, shift))

# %%
# And how sure is each single adapted prediction, given what the priors may be?

proba, lower, upper = shift.adapt_interval(data.y_proba_target[:200])
rows = np.arange(200)
best = proba.argmax(axis=1)
order = np.argsort(proba[rows, best])

figure, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
ax.fill_between(rows, lower[rows, best][order], upper[rows, best][order], alpha=0.3)
ax.plot(rows, proba[rows, best][order])
ax.set(
    xlabel="200 target samples, least sure first",
    ylabel="adapted probability\nof the decision",
    ylim=(0, 1.02),
)
