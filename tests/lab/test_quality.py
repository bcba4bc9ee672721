"""The benchmark of quality: its figures against ones by hand, and the part that needs no data."""

import math
import warnings
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from lab import ablation, quality, small
from lab.peers import plain_em
from lab.quality import Judged, Score, figures, judge, kept_promises, report, score
from lab.rare import NATURAL, outcomes, rare_events, sample
from lab.shifts import ShiftTask, shifted_tasks
from lab.show import parse
from lab.uci import BAG_ROWS, PUBLISHED, bags, errors_on, published_protocol
from priorshift import Auto, PriorShiftWarning


def task_of(y_proba, y, *, shift="uniform", source=(0.5, 0.5)):
    y_proba, y, source = np.array(y_proba), np.array(y), np.array(source)
    return ShiftTask("toy", shift, y_proba, y, y_proba, y, source, source)


def judged(after, *, before=70.0, shift="uniform", n=1000, promise=None):
    scores = {name: Score(accuracy, 0.5, 0.1) for name, accuracy in after.items()}
    return Judged("toy", shift, n, Score(before, 0.7, 0.3), scores, promise, {})


def toy_tasks(n=400):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=n)
    logits = 2.0 * np.eye(3)[y] + rng.normal(size=(n, 3))
    y_proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    half = n // 2
    yield from shifted_tasks(
        "toy", (y_proba[:half], y[:half]), (y_proba[half:], y[half:]), sizes=[60]
    )


def test_scores_by_hand():
    task = task_of([[0.8, 0.2], [0.4, 0.6], [0.3, 0.7], [0.5, 0.5]], [0, 0, 1, 1])
    found = score(task, task.y_proba_target, np.array([0.7, 0.3]))
    assert found.accuracy == 50.0  # ties go to the first class
    assert found.log_loss == pytest.approx(-math.log(0.8 * 0.4 * 0.7 * 0.5) / 4)
    assert found.l1_error == pytest.approx(0.4)


def test_a_probability_of_0_costs_a_finite_loss():
    task = task_of([[1.0, 0.0]], [1])
    assert score(task, task.y_proba_target, np.array([0.5, 0.5])).log_loss == pytest.approx(
        12 * math.log(10)
    )


def test_figures_by_hand():
    tasks = [
        judged({"auto": 75.0, "em": 80.0, "map": 60.0}),
        judged({"auto": 69.0, "em": 65.0, "map": 66.0}, n=500),
        judged({"auto": 72.0, "em": 70.0, "map": 71.0}, shift="none"),
    ]
    found = figures(tasks, "auto", ["em", "map"])
    gain, regret, worst, worst_large, no_shift, log_loss, l1_error = found.values()
    assert gain == pytest.approx((5 - 1 + 2) / 3)
    assert regret == pytest.approx((5 + 1 - 1) / 3)  # leaving alone is best on the second
    assert (worst, worst_large, no_shift) == (-1.0, 2.0, 2.0)
    assert log_loss == pytest.approx(-0.2)
    assert l1_error == pytest.approx(0.1)


def test_promises_by_hand():
    tasks = [
        judged({"auto": 75.0}, promise=(5.0, 1.0)),
        judged({"auto": 70.0}, promise=(4.0, 1.0)),
        judged({"auto": 70.0}),
    ]
    text = kept_promises(tasks)
    assert "adapted 2 of 3 tasks" in text
    assert "-2.00 points" in text
    assert "in 50%" in text  # the second is 4 standard errors off
    assert "square 2.83" in text


def test_validation_is_fitted_once_for_all_targets(monkeypatch):
    made = []
    monkeypatch.setattr(quality, "seeded", lambda name: made.append(name) or Auto(random_state=0))
    tasks = list(toy_tasks())
    assert len(judge(tasks, ["auto"], plain=True)) == len(tasks) == 14
    assert len(made) == 2  # all of validation, and 10 of each class


def test_a_refusal_counts_as_no_adaptation():
    task = replace(
        task_of([[0.0, 1.0], [0.5, 0.5]], [0, 1]), y_proba_val=np.array([[0.0, 1.0]] * 2)
    )
    (found,) = judge([task], ["em"], plain=True)  # the source prior of class 0 would be 0
    assert "source_priors=" in found.refused["em"]
    assert found.after["em"] == found.before
    assert "em refused 1 tasks" in "".join(report([found], ["em"]))


def test_source_priors_are_given_or_kept_back(monkeypatch):
    class Spy:
        def fit(self, y_proba, y, **given):
            seen.append(given)
            raise ValueError("enough is seen")

    seen = []
    monkeypatch.setattr(quality, "seeded", lambda _: Spy())
    task = next(toy_tasks())
    for plain in (False, True):
        judge([task], ["em"], plain=plain)
    np.testing.assert_allclose(seen[0]["source_priors"], task.source_priors)
    assert list(seen[1]) == ["classes"]


def test_every_table_has_a_row_per_method():
    methods = ["auto", "em"]
    text = "\n\n".join(report(judge(list(toy_tasks())[:3], methods, plain=False), methods))
    assert "| family | auto | em | oracle |" in text
    for method in methods:
        assert f"\n| {method} | " in text
    assert "All 3 tasks" in text


def test_models_trained_balanced():
    with pytest.warns(PriorShiftWarning, match="contradict"):
        text = rare_events(["auto", "em"], repeats=1)
    gains, shares = text.split("**The same")
    assert [gains.count(f"| {name} | ") for name in ("auto", "em", "true priors")] == [1, 1, 1]
    assert shares.count("| auto | ") == 1


def test_the_simulated_model_is_right_at_the_balance_it_was_trained_on():
    rng = np.random.default_rng(0)
    balanced, _ = sample(rng, 20_000, 0.5)
    assert balanced[:, 1].mean() == pytest.approx(0.5, abs=0.01)
    natural, positive = sample(rng, 20_000, NATURAL)
    assert natural[:, 1].mean() > 10 * positive.mean()


def test_auto_reads_the_balance_off_validation():
    found = list(outcomes("auto", 2000, 0.05, repeats=2))
    for one in found:
        assert one.share == pytest.approx(0.05, abs=0.03)
        assert one.gain == pytest.approx(one.oracle, abs=3.0)


def test_bags_have_the_shares_that_are_said():
    y = np.repeat(np.arange(3), [400, 400, 5])
    for rows, shares in bags(y, 3, 4):
        np.testing.assert_allclose(np.bincount(y[rows], minlength=3) / BAG_ROWS, shares)
        if (shares[:2] * BAG_ROWS <= 400).all():
            common = rows[y[rows] < 2]
            assert np.unique(common).size == common.size


def test_em_by_hand_takes_the_steps_it_is_told():
    y_proba = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    source = np.array([0.5, 0.5])
    q = source
    for _ in range(3):
        joint = y_proba * (q / source)
        q = (joint / joint.sum(axis=1, keepdims=True)).mean(axis=0)
    still = np.array([[0.5, 0.5]])
    np.testing.assert_allclose(plain_em(still, source, least=11), source)
    longer = plain_em(y_proba, source, least=999)
    assert abs(longer[0] - q[0]) > 1e-3  # three steps are not the maximum


def test_the_published_protocol_on_a_set_of_our_own(tmp_path):
    task = next(toy_tasks(1200))
    file = tmp_path / "cmc.npz"
    parts = {"val_proba": task.y_proba_val, "val_y": task.y_val}
    np.savez(file, **parts, test_proba=task.y_proba_val, test_y=task.y_val)
    by_hand, em = errors_on(file, ["em"], 3)
    assert by_hand == pytest.approx(em, abs=0.02)
    text = published_protocol(tmp_path, ["em"], 3)
    assert f"| cmc | {PUBLISHED['cmc'][0]:.4f} | " in text
    assert f" | {by_hand:.4f} | {em:.4f} |\n| mean | " in text


def test_the_published_means_are_those_of_the_publication():
    means = np.mean(list(PUBLISHED.values()), axis=0)
    np.testing.assert_allclose(means, [0.0318, 0.0333, 0.0293], atol=5e-5)


def test_every_part_of_auto_can_be_taken_away():
    text = quality.ablation(lambda: islice(toy_tasks(), 2, 3))
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(ablation.VARIANTS)


def test_auto_without_its_parts():
    (validation, y), (target, _) = (sample(np.random.default_rng(s), 600, 0.2) for s in (0, 1))

    def decided(**params):
        fitted = Auto(**params).fit(validation, y.astype(int), classes=[0, 1])
        return fitted.estimate(target).decision

    assert decided()["row_weight"] < 1
    with ablation.VARIANTS["no jackknife: a row counts as one"]:
        assert decided()["row_weight"] == 1
    assert not decided(caution=1e9)["adapt"]
    with ablation.VARIANTS["always adapt, in full"]:
        assert decided(caution=1e9)["adapt"]


def test_constants_are_chosen_on_one_half(monkeypatch):
    strengths = ablation.GATE["STRENGTHS"]
    never = {"today": nullcontext(), "never": ablation.cautious(1e9)}
    monkeypatch.setattr(quality, "GATE", {"CAUTION": never, "STRENGTHS": strengths})
    monkeypatch.setattr(quality, "TARGET_ROWS", (100,))
    (task,) = islice(toy_tasks(), 2, 3)
    tasks = [replace(task, family=name) for name in ("one", "two")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        text = quality.halves(lambda: iter(tasks), 2)
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert [row[1].strip("*") for row in rows[1:]] == [*never, *strengths]
    assert rows[2][2:] == ["0.00", "0.00", *["+0.00, +0.0"] * 3]
    assert rows[1][1] == "**today**"  # the toy gains by adapting
    assert float(rows[1][3]) > 0


def test_without_pools_the_simulations_remain(tmp_path, capsys):
    def tables(part, *words):
        options = parse("", list(words), every=1, methods=str)
        return quality.run(part, tmp_path / "none", options)

    for part in ("further", "held-out", "zoo", "zoo-plain", "uci", "natural", "ablation"):
        words = ["--ablation"] if part == "ablation" else ["--part", "networks", part]
        with pytest.raises(SystemExit, match=f"{part} needs stored outputs"):
            quality.main([*words, "--data", str(tmp_path / "none")])
    assert capsys.readouterr().out == ""
    (text,) = tables("rare", "--every", "20", "--methods", "em-bcts")
    assert "mean of 1 runs" in text
    assert "cifar-10-LT450" in next(tables("networks", "--every", "28", "--methods", "em"))


def test_small_cells_have_a_row_each(monkeypatch):
    monkeypatch.setattr(small, "CLASSES", (2, 3))
    monkeypatch.setattr(small, "VALIDATION_ROWS", (60,))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        text = small.small_cells(1)
        again = [small.outcome(2, 60, n, 0) for n in small.TARGET_ROWS]
    rows = [line for line in text.splitlines() if line.startswith("| ")][-3:]
    assert [row.split(" | ")[0] for row in rows] == ["| 2, 60", "| 3, 60", "| all"]
    assert f"{np.mean([one.gain for one in again]):+.2f}" in rows[0]
    known = (-2.0, 3.0, 1.0, -1.5), (4.0, 5.0, 1.0, 4.0), (0, None, 9, None)
    cell = [small.Outcome(*one) for one in known]
    assert small.shown(cell) == ["+0.67", "-2.0", "-2.0", "67%", "50%", "0.50", "50%"]
