"""
No method is best everywhere
============================

The same classifier, the same validation set, two targets: one shifted, one not. What helps on the
first harms on the second, and the order of the methods changes.
"""

# %%
# First, clothes in winter from a network trained in summer. Since the target has labels, every
# method is scored; ``na`` leaves predictions alone.

import numpy as np

from priorshift.datasets import load_fashion_lt
from priorshift.evaluation import compare
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
# Every method gains. EM gains most: it uses each output, and this network's outputs can be trusted,
# as the reliability diagram on validation shows.

ReliabilityDisplay.from_predictions(data.y_val, data.y_proba_val, classes=data.classes)

# %%
# The confusion-matrix methods pay for 15 coats and 25 ankle boots in validation: those columns are
# estimated from so few samples.

ConfusionDisplay.from_predictions(data.y_val, data.y_proba_val, classes=data.classes)

# %%
# Side by side, with the true shares. Without labels this is all one has: where methods agree, more
# can be believed.

chosen = {name: shifted.estimates[name] for name in ("em", "scm-m", "scm-l", "cm-l", "rlls")}
ComparisonDisplay.from_estimates(chosen, truth=shifted.truth)

# %%
# Now a target without any shift: half of the validation set, adapted with the other half. There is
# nothing to gain, so every estimate is noise, and every method but ``na`` loses a little.

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
