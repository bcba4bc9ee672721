"""What others need to know about a method lives on its class; see tests/test_plugins.py too."""

import pytest

import priorshift as ps
from priorshift.estimators import traits_of


def test_every_method_says_what_it_is():
    for name in ps.available_estimators():
        method = traits_of(name)
        assert type(method) is type(ps.get_estimator(name))
        assert method.summary
        assert not method.summary.endswith(".")
        assert method.reference.url.startswith("https://")
        assert not method._wide or method._takes_sparse
        assert not method.fit_is_counts or method.counts_suffice


def test_a_subclass_that_finds_priors_in_another_way_is_not_batched_as_its_base_is():
    class Other(ps.SCML):
        def _estimate_counts(self, target):
            return super()._estimate_counts(target)

    class Batched(Other):
        _batch = "counts"

    assert Other().batch is None
    assert Batched().batch == "counts"


def test_results_under_another_name_find_their_method():
    assert type(traits_of("em-vs")) is ps.CalibratedEM


def test_a_name_that_is_no_method_has_plain_traits():
    assert type(traits_of("known")) is ps.PriorEstimator
    assert traits_of("known").reference is None


def test_seven_attributes_describe_a_method():
    attributes = {
        name
        for name, value in vars(ps.PriorEstimator).items()
        if not name.startswith(("_", "set_")) and isinstance(value, str | None)
    }
    assert attributes | {"name"} == {
        *("name", "summary", "reference", "decision", "outputs", "target_labels", "raw_is")
    }


def test_a_kind_of_decision_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="decision must be one of 'hard', 'soft'"):
        ps.RLLS(decision="firm").fit([[1.0, 0.0], [0.0, 1.0]], [0, 1])
