"""
A judge with three verdicts
===========================

A language model grades the answers of a chatbot as *good*, *fair* or *bad*. It returns a verdict
without probabilities, and it is sometimes wrong, so counting its verdicts also counts its mistakes.
With 300 answers that people graded too, you can correct the shares and compute intervals for them.
"""

# %%
# We simulate a judge, so that we know the truth. It is too lenient: a third of the bad answers pass
# as fair, and one in six fair answers as good.

import matplotlib.pyplot as plt
import numpy as np

import priorshift as ps

VERDICTS = np.array(["bad", "fair", "good"])
JUDGE = np.array([[0.62, 0.04, 0.01], [0.33, 0.80, 0.06], [0.05, 0.16, 0.93]])  # column: truth


def graded(shares, n, rng):
    """Return the judge's verdicts and the truth."""
    truth = rng.choice(3, n, p=shares)
    verdict = (rng.random(n)[:, None] > np.cumsum(JUDGE.T[truth], axis=1)).sum(axis=1)
    return VERDICTS[verdict], VERDICTS[truth]


rng = np.random.default_rng(7)
verdicts_val, labels_val = graded([0.2, 0.3, 0.5], 300, rng)
verdicts, truth = graded([0.4, 0.3, 0.3], 10_000, rng)

# %%
# Methods that need only decisions accept them as ``y_pred``. CM-L finds the shares under which the
# verdicts are most likely, given the errors of the judge.

judge = ps.CML().fit(y_pred=verdicts_val, y=labels_val)
shares = judge.estimate(y_pred=verdicts, confidence_level=0.95)
print(shares)

# %%
# The raw counts are far from the truth, and more verdicts would not help. The corrected shares are
# close to it. Their intervals include the noise of both the 300 labels and the verdicts.

raw = ps.DecisionCounts.from_decisions(np.searchsorted(VERDICTS, verdicts), 3).frequencies
true = ps.priors_from_labels(truth, classes=VERDICTS)
for name, count, estimate, share in zip(VERDICTS, raw, shares.priors, true, strict=True):
    print(f"{name:5} counted {count:5.1%}   corrected {estimate:5.1%}   true {share:5.1%}")

# %%

fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
at = np.arange(3)
low, high = shares.interval.T
ax.bar(at - 0.2, raw, 0.36, color="0.75", label="counted")
ax.errorbar(
    at + 0.2,
    shares.priors,
    [shares.priors - low, high - shares.priors],
    fmt="o",
    capsize=4,
    label="corrected, 95 % interval",
)
ax.scatter(at + 0.2, true, marker="_", s=400, color="black", zorder=3, label="true")
ax.set_xticks(at, VERDICTS)
ax.set_ylabel("share of answers")
ax.set_title("Counting verdicts makes bad answers look rarer than they are", loc="left")
ax.legend(frameon=False)

# %%
# You can pass the same verdicts to groups, a monitor, an assessment and a report.

print(ps.assess(y_pred_val=verdicts_val, y_val=labels_val, y_pred_target=verdicts).sentence)
