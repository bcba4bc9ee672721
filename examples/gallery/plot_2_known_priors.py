"""
Real probabilities after undersampling
======================================

After undersampling the common class, a classifier says "50 %" when it should say "2 %". If you know
the true share, one call corrects the probabilities without re-training.
"""

# %%
# One sample in fifty is positive, but the classifier is trained on equal shares.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression

import priorshift as ps

rng = np.random.default_rng(0)


def draw(n_negative, n_positive):
    y = np.repeat([0, 1], [n_negative, n_positive])
    return rng.normal(loc=1.5 * y[:, None], size=(y.size, 2)), y


X, y = draw(1000, 1000)
X_real, y_real = draw(98_000, 2000)

model = LogisticRegression().fit(X, y)
raw = model.predict_proba(X_real)[:, 1]
adapted = ps.adapt_proba(raw, source_priors=0.5, target_priors=0.02)

# %%
# Among samples with similar probabilities, the share of positives should equal the probability. The
# raw outputs predict far more positives than there are; the adapted ones are calibrated.

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot([0, 1], [0, 1], color="#999999", linestyle=":", label="calibrated")
for y_proba, label, colour in [(raw, "raw", "#d55e00"), (adapted, "adapted", "#0072b2")]:
    observed, predicted = calibration_curve(y_real, y_proba, n_bins=8)
    ax.plot(predicted, observed, "o-", color=colour, label=label)
ax.set_xlabel("predicted probability")
ax.set_ylabel("share of positives")
ax.legend()

# %%
# Adapting does not change the ranking of the samples, so measures that depend only on the ranking,
# such as the area under the ROC curve, stay the same. The mean prediction is now close to the true
# share.

print(f"share of positives       {y_real.mean():.3f}")
print(f"mean of raw outputs      {raw.mean():.3f}")
print(f"mean of adapted outputs  {adapted.mean():.3f}")
