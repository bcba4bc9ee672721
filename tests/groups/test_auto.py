"""Auto by group: its calibration, then soft decisions."""

import numpy as np
import pytest

import priorshift as ps
from priorshift.groups import estimate_groups


@pytest.fixture
def overconfident(grouped):
    """Make outputs that need a temperature."""

    def make(**more):
        data = grouped(**more)

        def sharpen(y_proba):
            sharp = y_proba**2.5
            return sharp / sharp.sum(axis=1, keepdims=True)

        auto = ps.Auto(random_state=0).fit(
            sharpen(data.y_proba_val), data.y_val, source_priors=data.source_priors
        )
        return data, auto, sharpen(data.y_proba)

    return make


def test_groups_that_differ_are_adapted_to_their_own(overconfident):
    data, auto, y_proba = overconfident(sizes=(600, 700, 800, 20, 3), concentration=3.0)
    found = estimate_groups(auto, y_proba, data.groups, confidence_level=0.95)
    whole = auto.estimate(y_proba)
    np.testing.assert_array_equal(found.whole.priors, whole.priors)
    assert found.method == "auto"
    assert np.isfinite(found.pooling)
    assert found.pooled.calibrator is not None
    own = np.abs(found.priors[:3] - data.truth[:3]).sum(axis=1)
    alike = np.abs(whole.priors - data.truth[:3]).sum(axis=1)
    assert own.mean() < 0.4 * alike.mean()
    adapted = found.adapt(y_proba, data.groups)
    one = data.groups == 1
    np.testing.assert_allclose(adapted[one], found[1].adapt(y_proba[one]), atol=1e-12)
    right = (adapted.argmax(axis=1) == data.y).mean()
    assert right > (whole.adapt(y_proba).argmax(axis=1) == data.y).mean()


def test_groups_that_are_alike_get_what_auto_says(overconfident):
    _, auto, y_proba = overconfident(sizes=(300,), concentration=3.0)
    copies = np.tile(y_proba, (4, 1))
    found = estimate_groups(auto, copies, np.repeat(np.arange(4), 300))
    whole = auto.estimate(copies)
    np.testing.assert_array_equal(found.priors, np.tile(whole.priors, (4, 1)))
    np.testing.assert_allclose(
        found.adapt(copies, np.repeat(np.arange(4), 300)), whole.adapt(copies), atol=1e-12
    )
    assert found[2].decision["sentence"] == whole.decision["sentence"]


def test_weights_are_refused(overconfident):
    data, auto, y_proba = overconfident()
    with pytest.raises(ValueError, match="Auto takes no sample_weight"):
        estimate_groups(auto, y_proba, data.groups, sample_weight=np.ones(data.groups.size))
