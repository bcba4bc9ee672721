"""
Can I trust it?
===============

An estimate without an error is only half an answer. This example computes priors with intervals, a
test for shift, a test of the assumption, and the expected accuracy, all without target labels.
"""

# %%
# SCM-L uses a confusion matrix measured on validation. Its intervals include the noise of
# validation as well as that of the target.

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
# EM uses each row more efficiently, because it treats the outputs as posterior probabilities. Its
# intervals are much narrower, but correct only if the outputs are calibrated. In this example we
# have the target labels, so we can plot the true shares next to both.

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
    print(f"{estimate.method}: {held} of {truth.size} intervals contain the true share")

# %%
# Two tests answer whether there is a shift, and whether a change of priors alone explains the
# target.

test = ps.detect_shift(
    *validation, data.y_proba_target, classes=data.classes, assumption=True, random_state=0
)
print(test.sentence)
print(test.assumption.sentence)

# %%
# A change of priors cannot make outputs less confident within every decision. The test of the
# assumption detects such a change, here with a part of validation as the target.

unsure = 0.7 * data.y_proba_val[2000:] + 0.03
found = ps.check_assumption(
    data.y_proba_val[:2000], data.y_val[:2000], unsure, classes=data.classes, random_state=0
)
print(found.sentence)

# %%
# How much will adapting help? The accuracy per class on validation, weighted by the estimated
# priors, answers this without target labels.

print(ps.diagnose(*validation, data.y_proba_target, shift))

# %%
# How certain is each adapted prediction, given the uncertainty of the priors?

proba, lower, upper = shift.adapt_interval(data.y_proba_target[:200])
rows = np.arange(200)
best = proba.argmax(axis=1)
order = np.argsort(proba[rows, best])

figure, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
ax.fill_between(rows, lower[rows, best][order], upper[rows, best][order], alpha=0.3)
ax.plot(rows, proba[rows, best][order])
ax.set(
    xlabel="200 target samples, least certain first",
    ylabel="adapted probability\nof the decision",
    ylim=(0, 1.02),
)
