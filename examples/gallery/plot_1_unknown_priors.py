"""
Trained in summer, used in winter
=================================

A network was trained on summer clothes: many T-shirts, few coats. In winter the balance is
reversed. priorshift estimates the new class shares from *unlabelled* winter predictions and adapts
the predictions to them.
"""

# %%
# The bundled data set contains the outputs of a small network trained on a long-tailed sample of
# Fashion-MNIST: on a validation set with the same class shares as training, and on a target with
# the classes in reverse order of frequency.

import priorshift as ps
from priorshift.datasets import load_fashion_lt
from priorshift.plotting import PriorsDisplay

data = load_fashion_lt()
print(data)

# %%
# Fit on validation, which has labels, and estimate on the target, which has none.

scml = ps.SCML().fit(
    data.y_proba_val, data.y_val, source_priors=data.source_priors, classes=data.classes
)
shift = scml.estimate(data.y_proba_target)
print(shift)

# %%
# The plot shows how the share of each class changed from training to target.

PriorsDisplay.from_estimate(shift)

# %%
# The estimate did not use the labels of the target. In this experiment we have them, so we can
# check that adapted predictions are right more often.


def accuracy(y_proba):
    return (data.classes[y_proba.argmax(axis=1)] == data.y_target).mean()


truth = ps.priors_from_labels(data.y_target, classes=data.classes)
best = ps.adapt_proba(data.y_proba_target, data.source_priors, truth)

print(f"unadapted                   {accuracy(data.y_proba_target):.1%}")
print(f"adapted                     {accuracy(shift.adapt(data.y_proba_target)):.1%}")
print(f"adapted to the true shares  {accuracy(best):.1%}")
