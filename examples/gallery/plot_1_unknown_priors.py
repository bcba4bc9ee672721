"""
Trained in summer, used in winter
=================================

A network learnt clothes from a summer's sales: many T-shirts, few coats. In winter the balance is
the other way round. From *unlabelled* winter predictions the new shares can be estimated, and the
predictions adapted to them.
"""

# %%
# The data set that comes with priorshift holds the outputs of a small network trained on a
# long-tailed draw of Fashion-MNIST: on a validation set balanced as training was, and on a
# target with the classes in reverse order of frequency.

import priorshift as ps
from priorshift.datasets import load_fashion_lt
from priorshift.plotting import PriorsDisplay

data = load_fashion_lt()
print(data)

# %%
# Fit on validation, where labels are known; estimate on the target, where they are not.

scml = ps.SCML().fit(
    data.y_proba_val, data.y_val, source_priors=data.source_priors, classes=data.classes
)
shift = scml.estimate(data.y_proba_target)
print(shift)

# %%
# Each class moves from its share in training to its share in the target.

PriorsDisplay.from_estimate(shift)

# %%
# The labels of the target were never used. Since this is an experiment we have them, and can see
# that adapted predictions are right more often.


def accuracy(y_proba):
    return (data.classes[y_proba.argmax(axis=1)] == data.y_target).mean()


truth = ps.priors_from_labels(data.y_target, classes=data.classes)
best = ps.adapt_proba(data.y_proba_target, data.source_priors, truth)

print(f"unadapted                   {accuracy(data.y_proba_target):.1%}")
print(f"adapted                     {accuracy(shift.adapt(data.y_proba_target)):.1%}")
print(f"adapted to the true shares  {accuracy(best):.1%}")
