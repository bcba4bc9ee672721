r"""Adapt predictions to target priors that are known only within bounds.

"Prevalence here is 20 % (18-22 %)": the adapted probability then has bounds too. Where one prior
alone is uncertain, and the others share the rest, every adapted probability rises or falls with it,
so the bounds are those of the prior put through Bayes' rule, exactly. Else many vectors of priors
are drawn, each adapts the predictions, and the bounds are quantiles:

.. math:: \text{adapted}^{(b)}_k = \frac{f_k\, p^{(b)}_k / s_k}{\sum_j f_j\, p^{(b)}_j / s_j}.
"""

from priorshift.uncertain_priors._adapt import ProbaInterval, adapt_proba_interval

__all__ = ["ProbaInterval", "adapt_proba_interval"]
