"""
Adapt a scikit-learn classifier
===============================

``PriorAdaptedClassifier`` wraps a classifier or a pipeline. It fits and predicts as before. After
you call ``adapt`` with unlabelled rows, predictions follow the class shares of those rows.
"""

# %%
# The classifier is trained on equal shares of all digits. The target has mostly small digits.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import priorshift as ps

X, y = load_digits(return_X_y=True)
X_train, X_rest, y_train, y_rest = train_test_split(X, y, test_size=0.5, random_state=0)
truth = np.array([0.28, 0.22, 0.16, 0.10, 0.08, 0.06, 0.04, 0.03, 0.02, 0.01])
rows = ps.sample_indices(y_rest, truth, 2000, random_state=0)
X_target, y_target = X_rest[rows], y_rest[rows]

# %%
# Naive Bayes is fast but overconfident, so calibrate it. Put the pipeline inside the wrapper, so
# that cross-validation includes the scaling.

model = make_pipeline(StandardScaler(), GaussianNB(var_smoothing=0.1))
clf = ps.PriorAdaptedClassifier(model, calibrator=ps.BCTS()).fit(X_train, y_train)
before = clf.score(X_target, y_target)
after = clf.adapt(X_target).score(X_target, y_target)
print(f"accuracy on the target: {before:.1%} before adapt, {after:.1%} after")

# %%
# ``target_priors_`` contains the estimated shares, and ``shift_`` the full estimate with its
# certificate.

fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
ax.bar(clf.classes_ - 0.2, truth, width=0.4, color="#999999", label="true")
ax.bar(clf.classes_ + 0.2, clf.target_priors_, width=0.4, color="#0072b2", label="estimated")
ax.set_xticks(clf.classes_)
ax.set_xlabel("digit")
ax.set_ylabel("share in the target")
ax.legend()

# %%
# If you know the priors, set them without an estimate. To undo the adaptation, set the source
# priors.

clf.set_target_priors(truth)
print(f"with the true shares: {clf.score(X_target, y_target):.1%}")
clf.set_target_priors(clf.source_priors_)
print(f"as trained: {clf.score(X_target, y_target):.1%}")
