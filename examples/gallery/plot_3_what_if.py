"""
What if the illness were rare?
==============================

A diagnostic test does not change with prevalence, but the meaning of a positive result does. This
example predicts how many alerts the test would give elsewhere, and how many of them would be true.
"""

# %%
# Start with a score from a study with equal numbers of ill and healthy people, converted to a
# probability that is calibrated for the study.

import matplotlib.pyplot as plt
import numpy as np

import priorshift as ps

rng = np.random.default_rng(0)
ill = np.repeat([0, 1], 20_000)
score = rng.normal(loc=2.0 * ill)
y_proba = 1 / (1 + np.exp(2 - 2 * score))

# %%
# For each prevalence, weight the people of the study so that they have that prevalence. Alert when
# the risk is above 30 %, once by the probability of the study and once by the adapted one.

prevalences = np.geomspace(0.005, 0.5, 25)
THRESHOLD = 0.3


def alerts(prevalence, probability):
    weight = ps.sample_weights(ill, [1 - prevalence, prevalence])
    alert = probability > THRESHOLD
    share_of_alerts = np.average(alert, weights=weight)
    share_true = np.average(ill[alert], weights=weight[alert])
    return share_of_alerts, share_true, alert[ill == 1].mean()


raw = np.array([alerts(p, y_proba) for p in prevalences])
adapted = np.array([alerts(p, ps.adapt_proba(y_proba, 0.5, p)) for p in prevalences])

# %%
# Without adapting, most alerts are false as soon as the illness is rare. With adapting, an alert
# means the same at every prevalence, but fewer ill people are found: that is what a threshold of 30
# % risk implies. To find more of them, lower the threshold and accept more false alerts.

fig, axes = plt.subplots(1, 3, figsize=(9, 3.4), layout="constrained", sharex=True)
titles = ["people alerted", "alerts that are true", "ill people found"]
for ax, before, after, title in zip(axes, raw.T, adapted.T, titles, strict=True):
    ax.plot(prevalences, before, color="#d55e00", label="unadapted")
    ax.plot(prevalences, after, color="#0072b2", label="adapted")
    ax.set_xscale("log")
    ax.set_xticks([0.01, 0.05, 0.2, 0.5], ["1 %", "5 %", "20 %", "50 %"])
    ax.minorticks_off()
    ax.set_ylim(0, 1)
    ax.set_title(title)
    ax.set_xlabel("prevalence")
axes[0].legend()
