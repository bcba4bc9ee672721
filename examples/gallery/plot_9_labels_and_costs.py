"""
A few target labels, and errors with different costs
====================================================

Two hundred target labels are enough to estimate the class shares, whatever changed. And if a missed
case costs more than a false alarm, decisions should take both the costs and the prevalence into
account.
"""

# %%
# A judge was validated, and then its error rates drifted. CM-L relies on validation; PPI does not
# need it.

import numpy as np

import priorshift as ps
from priorshift.plotting import CostDisplay

rng = np.random.default_rng(0)


def judged(n, share, specificity, sensitivity):
    """Return true classes, and what the judge says."""
    bad = rng.random(n) < share
    right = rng.random(n) < np.where(bad, sensitivity, specificity)
    return np.where(bad, "bad", "good"), np.where(bad == right, "bad", "good")


y_val, verdict_val = judged(1000, 0.5, 0.95, 0.90)
y, verdict = judged(5000, 0.3, 0.85, 0.95)
some = np.where(np.arange(5000) < 200, y.astype(object), None)
cml = ps.CML().fit(y_pred=verdict_val, y=y_val).estimate(y_pred=verdict, confidence_level=0.95)
ppi = ps.PPI().fit(classes=["bad", "good"])
alone = ps.PPI(weight=0).fit(classes=["bad", "good"])
asked = {"y_pred": verdict, "y_target": some, "confidence_level": 0.95}
for name, found in (
    ("CM-L, no labels", cml),
    ("labels alone", alone.estimate(**asked)),
    ("PPI", ppi.estimate(**asked)),
):
    low, high = found.interval[0]
    print(f"{name}: {low:.1%} to {high:.1%} are bad; in truth {np.mean(y == 'bad'):.1%}")

# %%
# How many labels do you need for an interval of plus or minus two points?

needed = ps.labels_needed(width=0.04, priors=[0.3, 0.7], confusion=[[0.95, 0.15], [0.05, 0.85]])
print(f"{needed:,} labels alone, {needed.with_predictions:,} with the judge's verdicts")

# %%
# Sending a sick patient home costs ten times as much as an unnecessary test. The plot shows the
# cost of decisions at every prevalence, with the original test results and with adapted ones.

ill = np.repeat([0, 1], 2000)
risk = 1 / (1 + np.exp(2 - 2 * rng.normal(loc=2.0 * ill)))
CostDisplay.from_predictions(
    risk, np.where(ill, "ill", "well"), {("ill", "well"): 10}, classes=["well", "ill"]
)
