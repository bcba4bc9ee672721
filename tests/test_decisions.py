"""Decisions without probabilities on the surfaces: groups, monitor, assess, report."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import priorshift as ps
from priorshift.border import Predictions, Table
from priorshift.report import render_report
from priorshift.text import listed, short_percent

VERDICTS = np.array(["bad", "fair", "good"])
JUDGE = np.array([[0.8, 0.1, 0.05], [0.15, 0.8, 0.15], [0.05, 0.1, 0.8]])
SOURCE, SHIFTED = np.array([0.3, 0.4, 0.3]), np.array([0.1, 0.6, 0.3])


def judge(priors, n, rng):
    y = rng.choice(3, n, p=priors)
    return VERDICTS[(rng.random(n)[:, None] > np.cumsum(JUDGE.T[y], axis=1)).sum(axis=1)], (
        VERDICTS[y]
    )


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def validation(rng):
    return judge(SOURCE, 500, rng)


@pytest.fixture
def cm_l(validation):
    return ps.CML().fit(y_pred=validation[0], y=validation[1])


def test_groups_are_estimated_from_decisions(cm_l, rng):
    north, south = judge(SOURCE, 3000, rng)[0], judge(SHIFTED, 3000, rng)[0]
    target, site = np.concatenate([north, south]), np.repeat(["north", "south"], 3000)
    found = ps.estimate_groups(cm_l, y_pred=target, groups=site, confidence_level=0.999)
    for truth, low, high in zip([SOURCE, SHIFTED], *np.moveaxis(found.interval, 2, 0), strict=True):
        assert ((low <= truth) & (truth <= high)).all()
    alone = ps.estimate_groups(cm_l, y_pred=target, groups=site, pooling=None)
    assert_allclose(alone.priors[0], cm_l.estimate(y_pred=north).priors, atol=1e-4)
    with pytest.raises(ValueError, match="pass one of them"):
        ps.estimate_groups(cm_l, np.eye(3), site, y_pred=target)
    soft = ps.SCML().fit(np.eye(3), VERDICTS)
    with pytest.raises(ValueError, match="SCML needs predicted probabilities"):
        ps.estimate_groups(soft, y_pred=target, groups=site)


def test_groups_of_a_judge_that_abstains_are_estimated_one_by_one(validation, rng):
    decided, y = validation
    decided = np.where(rng.random(500) < 0.1, "unsure", decided)
    fitted = ps.CML().fit(y_pred=decided, y=y)
    target, _ = judge(SHIFTED, 2000, rng)
    target = np.where(rng.random(2000) < 0.1, "unsure", target)
    site = np.repeat(["north", "south"], 1000)
    with pytest.warns(UserWarning, match="'unsure'"):
        found = ps.estimate_groups(fitted, y_pred=target, groups=site, pooling=None)
    assert_allclose(found.priors[:, 3], 0)
    assert_allclose(found.priors[:, :3], [SHIFTED] * 2, atol=0.1)
    with pytest.raises(ValueError, match="pooling=None"):
        ps.estimate_groups(fitted, y_pred=target, groups=site)


def test_a_judge_that_abstains_is_assessed_with_labels_of_the_target(validation, rng):
    decided, y = validation
    decided = np.where(rng.random(500) < 0.1, "unsure", decided)
    target, truth = judge(SHIFTED, 2000, rng)
    target = np.where(rng.random(2000) < 0.1, "unsure", target)
    labels = np.where(rng.random(2000) < 0.2, truth, None)
    found = ps.assess(y_pred_val=decided, y_val=y, y_pred_target=target, y_target=labels)
    assert found.verdict == "leave"
    shift = ps.PPI().fit(y_pred=decided, y=y)
    shift = shift.estimate(y_pred=target, y_target=labels, confidence_level=0.99)
    low, high = shift.interval.T
    assert ((low[:3] <= SHIFTED) & (high[:3] >= SHIFTED)).all()
    assert low[3] == 0


def test_a_monitor_follows_decisions(validation, rng, tmp_path):
    monitor = ps.PriorMonitor().fit(y_pred=validation[0], y=validation[1])
    assert monitor.estimator_.name == "cm-l"
    for priors in (SOURCE, SOURCE, SHIFTED, SHIFTED, SHIFTED):
        step = monitor.update(y_pred=judge(priors, 1000, rng)[0])
    assert step.alarm
    assert step.y_proba is None
    assert_allclose(step.priors, SHIFTED, atol=0.1)
    monitor.save(tmp_path / "state.npz")
    again = ps.PriorMonitor.load(tmp_path / "state.npz")
    batch, _ = judge(SHIFTED, 500, rng)
    assert_allclose(again.update(y_pred=batch).priors, monitor.update(y_pred=batch).priors)
    rows = np.eye(3)[np.searchsorted(VERDICTS, batch)]
    assert monitor.update(rows).y_proba.shape == (500, 3)
    with pytest.raises(ValueError, match="SCML needs predicted probabilities"):
        ps.PriorMonitor(ps.SCML()).fit(y_pred=validation[0], y=validation[1])


def test_decisions_that_say_nothing_are_not_corrected(rng, tmp_path):
    y, guesses = rng.integers(3, size=(2, 2000))
    found = ps.assess(y_pred_val=guesses, y_val=y, y_pred_target=rng.integers(3, size=1000))
    assert np.ptp(found.estimate.interval, axis=1).max() > 0.9
    assert "say too little to report class shares" in found.sentence
    assert "Report" not in found.sentence
    assert len(found.sentence) < 200
    page = found.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "they say too little of the shares" in page
    assert "Label some target rows before you report class shares" in page
    assert "Report the corrected shares" not in page


def test_an_assessment_of_decisions_is_about_shares(validation, rng):
    data = {"y_pred_val": validation[0], "y_val": validation[1]}
    target, _ = judge(SHIFTED, 5000, rng)
    found = ps.assess(**data, y_pred_target=target)
    assert found.estimate.method == "cm-l"
    assert found.verdict == "leave"
    assert found.gain.value == found.gain.low == found.gain.high == 0
    counted = {name: np.mean(target == name) for name in found.estimate.classes.tolist()}
    assert found.decided_shares.tolist() == list(counted.values())
    assert found.sentence == (
        "Leave: your decisions stay as they are. Report these corrected shares: "
        + listed(
            [
                f"“{name}” {short_percent(share)} (decided: {short_percent(counted[name])})"
                for name, share in zip(counted, found.estimate.priors, strict=True)
            ]
        )
        + "."
    )
    assert "The class balance changed" in found.reasons[0]
    assert found.score_after is None
    fitted = ps.CML().fit(y_pred=validation[0], y=validation[1])
    expected = fitted.estimate(y_pred=target, confidence_level=0.95)
    assert_allclose(found.estimate.interval, expected.interval)
    same = ps.assess(**data, y_pred_target=judge(SOURCE, 5000, rng)[0], method="cm")
    assert same.estimate.method == "cm"
    assert "no evidence that the class balance changed" in same.reasons[0]


def test_an_assessment_uses_labels_of_the_target(validation, rng):
    target, truth = judge(SHIFTED, 3000, rng)
    some = truth.astype(object)
    some[200:] = None
    found = ps.assess(
        y_pred_val=validation[0], y_val=validation[1], y_pred_target=target, y_target=some
    )
    assert found.measured.n_labelled == 200
    assert found.measured.before.value == pytest.approx((target[:200] == truth[:200]).mean())
    assert any("200 labelled rows" in reason for reason in found.reasons)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"y_pred_val": ["a", "b"], "y_val": ["a", "b"]}, "y_pred_target; one is missing"),
        (
            {"y_proba_val": np.eye(2), "y_pred_target": ["a", "b"], "y_val": ["a", "b"]},
            "pass one of them",
        ),
        (
            {
                "y_pred_val": ["a", "b"],
                "y_val": ["a", "b"],
                "y_pred_target": ["a", "b"],
                "method": "em",
            },
            "EM needs predicted probabilities",
        ),
    ],
)
def test_a_bad_assessment_is_refused(given, said):
    with pytest.raises(ValueError, match=said):
        ps.assess(**given)


def test_a_report_of_decisions(cm_l, validation, rng):
    pytest.importorskip("jinja2")
    target, truth = judge(SHIFTED, 3000, rng)
    estimate = cm_l.estimate(y_pred=target, confidence_level=0.95)
    page = render_report(
        estimate,
        y_pred_val=validation[0],
        y_val=validation[1],
        y_pred_target=target,
        y_target=truth,
    )
    assert "your decisions stay as they are" in page
    assert "reliability" not in page.lower().split("<script")[0].split("<main")[-1][:2000]
    with pytest.raises(ValueError, match="not both"):
        render_report(estimate, y_pred_val=validation[0], y_proba_val=np.eye(3))


def test_many_decisions_are_rows_that_are_made_block_by_block():
    decided = np.zeros(10_000_000, dtype=np.int64)
    rows = Predictions.from_decisions(decided, 3)
    assert isinstance(rows.values, Table)
    few = rows.take(np.array([5, 7]))
    assert few.values.tolist() == [[1.0, 0.0, 0.0]] * 2
    assert few.decided.tolist() == [0, 0]


def test_verdicts_with_names_of_their_own_have_no_share(rng):
    """True classes are pass and fail; the judge says good, bad or unsure."""
    says = {"pass": [0.75, 0.1, 0.15], "fail": [0.1, 0.7, 0.2]}

    def judged(shares, n):
        y = rng.choice(["pass", "fail"], n, p=shares)
        return np.array([rng.choice(["good", "bad", "unsure"], p=says[one]) for one in y]), y

    y_pred_val, y_val = judged([0.5, 0.5], 600)
    data = {"y_pred_val": y_pred_val, "y_val": y_val, "y_pred_target": judged([0.7, 0.3], 2000)[0]}
    found = ps.assess(**data)
    assert "no label of validation is 'bad', 'good', 'unsure'" in " ".join(found.warnings)
    shares = dict(zip(found.estimate.classes.tolist(), found.estimate.priors, strict=True))
    assert found.sentence == (
        "Leave: your decisions stay as they are. Report these corrected shares: “fail” "
        f"{short_percent(shares['fail'])} and “pass” {short_percent(shares['pass'])}."
    )

    assert "Class shares to report" in repr(found)
    known = ps.CML().fit(y_pred=y_pred_val, y=y_val).confusion_
    needed = ps.labels_needed(width=0.05, confusion=known)
    assert 0 < needed.with_predictions <= needed
    with pytest.raises(ValueError, match="no sample of some class that has a prior"):
        ps.labels_needed(width=0.05, priors=[0.2] * 5, confusion=known)


def test_labels_that_show_a_drift_are_heeded(validation, rng):
    """A judge that became lenient still fits a mixture of classes; labels tell."""
    y_pred_val, y_val = validation
    target, truth = judge(SHIFTED, 3000, rng)
    lenient = np.where(rng.random(3000) < 0.4, np.unique(y_val)[0], target)
    labels = np.where(np.arange(3000) < 600, truth, None)
    data = {"y_pred_val": y_pred_val, "y_val": y_val, "y_pred_target": lenient}
    found = ps.assess(**data, y_target=labels)
    assert found.measured.p_value < 0.05
    assert found.sentence.startswith(
        "Leave: your decisions stay as they are, but they make other mistakes than on "
        "validation. Report"
    )
    assert "nothing suggests that they make other mistakes" not in " ".join(found.reasons)
    assert found.shares_to_report.method == "ppi"
    assert not found.shares_to_report.simultaneous


def test_a_verdict_that_no_label_names_has_no_share_by_labels_either(rng):
    """Beside labels of the target, the headline is about true classes alone."""
    y = rng.choice(["fail", "pass"], 3000, p=[0.3, 0.7])
    said = np.where(rng.random(3000) < 0.2, "unsure", y)
    labels = np.where(np.arange(3000) % 5 == 0, y, None)
    val = rng.choice(["fail", "pass"], 300)
    unsure = np.where(rng.random(300) < 0.02, "unsure", val)
    found = ps.assess(y_pred_val=unsure, y_val=val, y_pred_target=said, y_target=labels)
    assert found.shares_to_report.method == "ppi"
    assert "“pass”" in found.sentence
    assert "unsure" not in found.sentence
