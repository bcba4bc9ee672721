"""ClassifierWrapper: what scikit-learn asks of a classifier around another, but fit and predict."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Bunch, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import has_fit_parameter

from priorshift._typing import Labels, Vector
from priorshift._validation import some
from priorshift.exceptions import PriorShiftWarning, warn_user


class ClassifierWrapper(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Pass on features, tags and fit parameters of the classifier `estimator`, with folds `cv`."""

    estimator: Any
    estimator_: Any
    cv: Any

    @property
    def n_features_in_(self) -> int:
        """Number of features seen in fit."""
        return self.estimator_.n_features_in_

    @property
    def feature_names_in_(self) -> Labels:
        """Names of features seen in fit."""
        return self.estimator_.feature_names_in_

    def get_metadata_routing(self) -> MetadataRouter:
        """Say which metadata `fit` takes itself and passes to estimator and splitter."""
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        to_split = MethodMapping().add(caller="fit", callee="split")
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(estimator=self.estimator, method_mapping=to_fit)
        return router.add(splitter=self.cv, method_mapping=to_split)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        try:
            inner = get_tags(self.estimator)
        except (AttributeError, TypeError):  # a model that only looks like scikit-learn's
            return tags
        tags.input_tags = deepcopy(inner.input_tags)
        tags.non_deterministic = inner.non_deterministic
        return tags

    @property
    def _frozen(self) -> bool:
        return isinstance(self.estimator, FrozenEstimator)

    def _route(self, weight: Vector | None, fit_params: Mapping[str, Any]) -> Bunch:
        """Settle which parameters go where: by requests if routing is on, else all to `fit`."""
        if get_config()["enable_metadata_routing"]:
            return process_routing(self, "fit", sample_weight=weight, **fit_params)
        to_fit = dict(fit_params)
        if self._frozen and to_fit:
            raise ValueError(
                f"the estimator is frozen and will not be fitted, so fit takes no {some(to_fit)}."
            )
        if weight is not None and has_fit_parameter(self.estimator, "sample_weight"):
            to_fit["sample_weight"] = weight
        elif weight is not None and not self._frozen and not _weighs_a_step(to_fit):
            warn_user(
                f"{type(self.estimator).__name__}.fit takes no sample_weight: the weights count "
                "for the source statistics alone, and the classifier is fitted without them. A "
                "pipeline takes them as <step>__sample_weight too, or by metadata routing.",
                PriorShiftWarning,
            )
        return Bunch(estimator=Bunch(fit=to_fit), splitter=Bunch(split={}))


def _weighs_a_step(to_fit: Mapping[str, Any]) -> bool:
    return any(name.endswith("__sample_weight") for name in to_fit)
