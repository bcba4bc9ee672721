"""
No method is best everywhere
============================

This example uses the same classifier and the same validation set on two targets: one with a shift,
one without. What helps on the first target harms on the second, and the ranking of the methods
changes.
"""

# %%
# The first target is winter clothes, from a network trained on summer clothes. The target has
# labels, so every method is scored; ``na`` leaves predictions unchanged.

import numpy as np

from priorshift.compare import compare
from priorshift.datasets import load_fashion_lt
from priorshift.plotting import ComparisonDisplay, ConfusionDisplay, ReliabilityDisplay

data = load_fashion_lt()
shifted = compare(
    data.y_proba_val,
    data.y_val,
    data.y_proba_target,
    data.y_target,
    source_priors=data.source_priors,
    classes=data.classes,
)
print(shifted)

# %%
# Every method gains. EM gains most: it uses each output, and the outputs of this network are
# reliable, as the reliability diagram on validation shows.

ReliabilityDisplay.from_predictions(data.y_proba_val, data.y_val, classes=data.classes)

# %%
# Validation has only 15 coats and 25 ankle boots. The confusion-matrix methods suffer from that,
# because those columns are estimated from few samples.

ConfusionDisplay.from_predictions(data.y_proba_val, data.y_val, classes=data.classes)

# %%
# Compare the estimates with the true shares. Without labels, you have only the estimates: where
# methods agree, you can trust them more.

chosen = {name: shifted.estimates[name] for name in ("em", "scm-m", "scm-l", "cm-l", "rlls")}
ComparisonDisplay.from_estimates(chosen, truth=shifted.truth)

# %%
# The second target has no shift: it is half of the validation set, adapted with the other half.
# There is nothing to gain, so every estimate is noise, and every method except ``na`` loses a
# little.

half = np.arange(data.y_val.size) % 2 == 0
unshifted = compare(
    data.y_proba_val[half],
    data.y_val[half],
    data.y_proba_val[~half],
    data.y_val[~half],
    source_priors=data.source_priors,
    classes=data.classes,
)
print(unshifted)
