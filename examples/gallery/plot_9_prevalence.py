"""
A field test with known error rates
===================================

120 of 1000 people test positive. The test finds 90 % of the ill and clears 95 % of the healthy, so
some of the 120 are healthy, and some of the others are ill. What is the prevalence, and how certain
is it?
"""

# %%
# If the rates are exact, the estimate is that of Rogan and Gladen (1978),
# :math:`(p + Sp - 1) / (Se + Sp - 1)`. The result notes that the rates are treated as exact.

import matplotlib.pyplot as plt
import numpy as np

import priorshift as ps

exact = ps.Confusion.from_rates(sensitivity=0.9, specificity=0.95, classes=["healthy", "ill"])
print(ps.CML().fit(confusion=exact).estimate_counts([880, 120], confidence_level=0.95))

# %%
# In practice, the rates come from a study. Here it tested 100 ill and 200 healthy people, and the
# interval accounts for the uncertainty of such a small study.

study = ps.Confusion.from_rates(
    sensitivity=0.9, specificity=0.95, n_positive=100, n_negative=200, classes=["healthy", "ill"]
)
found = ps.CML().fit(confusion=study).estimate_counts([880, 120], confidence_level=0.95)
print(f"{found.priors[1]:.1%}, interval {found.interval[1][0]:.1%} to {found.interval[1][1]:.1%}")

# %%
# Testing more people helps only until the study limits the precision.

people = np.array([50, 100, 300, 1000, 3000, 10_000, 30_000])
fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
for name, known in (("rates exact", exact), ("rates from 100 ill and 200 healthy", study)):
    fitted = ps.CML().fit(confusion=known)
    bounds = [
        fitted.estimate_counts([n - n * 12 // 100, n * 12 // 100], 0.95).interval[1]
        for n in people.tolist()
    ]
    low, high = np.array(bounds).T
    ax.fill_between(people, low, high, alpha=0.35, label=name)
ax.set_xscale("log")
ax.set_xlabel("people tested")
ax.set_ylabel("prevalence")
ax.set_title("95 % interval where 12 % test positive", loc="left")
ax.legend(frameon=False)
