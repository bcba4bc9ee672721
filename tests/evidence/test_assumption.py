"""The test of the assumption: features, precision, repeated rows, level and power."""

import pickle

import numpy as np
import pytest
from scipy.stats import binom, rankdata

from priorshift.evidence import AssumptionTest, check_assumption
from priorshift.evidence._assumption import N_POOLED, Comparison, draw_deviations
from priorshift.evidence._samples import (
    Precision,
    at_one_precision,
    precision_of,
    ranks,
    read_samples,
    without_repeats,
)


def test_ranks_are_mean_ranks_within_groups(rng):
    score, group = rng.integers(0, 9, 60).astype(float), rng.integers(0, 3, 60)
    lower, equal = ranks(score, group)
    for one in range(3):
        here = group == one
        expected = rankdata(score[here]) - 0.5
        np.testing.assert_allclose((lower + equal / 2)[here], expected)


def test_features_have_no_mean_within_a_decision(simulate, rng):
    world = simulate(4)
    f, y = world.draw(world.source_priors, 200, rng)
    g, _ = world.draw(world.source_priors, 100, rng)
    found = Comparison(read_samples(f, y, g))
    first = found.features[:, 4]
    for k in found.compared:
        assert abs(first[found.predicted == k].mean()) < 1e-12
    by_decision = found.features[:, 4 + N_POOLED :]
    assert by_decision.shape[1] == found.compared.size
    np.testing.assert_allclose(
        by_decision.sum(axis=1)[found.predicted == 0].std(), first[found.predicted == 0].std()
    )


def test_noise_is_that_of_new_samples(simulate):
    """The spread of draws is the spread of deviations over repeated samples."""
    world, seen, drawn = simulate(3), [], []
    for seed in range(120):
        rng = np.random.default_rng([seed, 3])
        f, y = world.draw(world.source_priors, 300, rng)
        g, _ = world.draw(np.array([0.6, 0.1, 0.3]), 300, rng)
        found = Comparison(read_samples(f, y, g, np.arange(3)))
        seen.append(found.deviation[:4])
        drawn.append(draw_deviations(found, 20, rng)[:, :4])
    ratio = np.std(seen, axis=0) / np.concatenate(drawn).std(axis=0)
    assert (ratio > 0.8).all()
    assert (ratio < 1.2).all()


def test_few_predictions_give_no_answer():
    rows = np.tile([[0.9, 0.1], [0.8, 0.2]], (4, 1))
    test = check_assumption(rows, [0, 1] * 4, rows, n_resamples=19, random_state=0)
    assert test.p_value is None
    assert not test.rejected
    assert "cannot be checked: there are too few rows" in test.sentence
    assert test.to_dict()["p_value"] is None
    assert "  p_value" not in repr(test)


def divided(rows):
    """Divide rows by their sums."""
    return rows / rows.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("decimals", [2, 3, 4, 5])
def test_decimals_are_recognised(simulate, rng, decimals):
    f, _ = simulate(7, spread=2.5).draw(np.full(7, 1 / 7), 400, rng)
    assert precision_of(f) is None
    assert precision_of(f.astype(np.float32)) is None
    rounded = f.round(decimals)
    assert precision_of(rounded) == precision_of(rounded.astype(np.float32)) == Precision(decimals)
    assert precision_of(divided(rounded)) == Precision(decimals, normalised=True)


@pytest.mark.parametrize(("decimals", "normalise"), [(2, True), (3, True), (4, True), (4, False)])
def test_the_finer_side_is_rounded_as_the_coarser_one_was(simulate, decimals, normalise):
    """A saturated classifier, of which a file keeps few decimals."""
    world, rejected = simulate(3, spread=2.2), 0
    for seed in range(10):
        rng = np.random.default_rng([seed, 4])
        f, y = world.draw(world.source_priors, 500, rng)
        g, _ = world.draw(np.array([0.6, 0.1, 0.3]), 500, rng)
        coarse, alike = g.round(decimals), f.round(decimals)
        if normalise:
            coarse, alike = divided(coarse), divided(alike)
        test = check_assumption(f, y, coarse, n_resamples=99, random_state=seed)
        same = check_assumption(alike, y, coarse, n_resamples=99, random_state=seed)
        assert test.statistic == pytest.approx(same.statistic, rel=1e-6)
        assert test.p_value is not None
        assert f"rounded to {decimals} decimals" in test.notes[0]
        rejected += test.rejected
    assert rejected <= binom(10, 0.07).ppf(0.999)


def test_a_classifier_that_is_always_sure_gets_no_p_value(simulate, rng):
    """Every row is 1 to six decimals: confidence says nothing, and rows do not repeat."""
    world = simulate(3, spread=9.0)
    f, y = world.draw(world.source_priors, 300, rng)
    g, _ = world.draw(world.source_priors, 300, rng)
    for target in (g, g.round(4), g.astype(np.float32)):
        test = check_assumption(f, y, target, random_state=0)
        assert test.p_value is None
        assert test.n_repeated_target == 0
        assert "equally sure of all rows" in test.sentence


@pytest.mark.parametrize("spread", [1.5, 4.0])
def test_the_decimals_of_a_file_do_not_change_the_answer(simulate, spread):
    """What is 1.0000 in a file is a tie, whatever its digits were, and so is what is left of it."""
    world = simulate(4, spread=spread)
    for seed in range(5):
        rng = np.random.default_rng([seed, 5])
        f, y = world.draw(world.source_priors, 400, rng)
        g, _ = world.draw(np.array([0.5, 0.1, 0.2, 0.2]), 400, rng)
        whole, *others = (
            check_assumption(a, y, b, n_resamples=99, random_state=seed)
            for a, b in (
                (f, g),
                (f.round(4), g.round(4)),
                (divided(f.round(4)), divided(g.round(4))),
                (f, g.round(4)),
            )
        )
        assert whole.p_value is not None
        for one in others:
            assert one.p_value == pytest.approx(whole.p_value, abs=0.015)
            assert one.statistic == pytest.approx(whole.statistic, rel=0.01)


def test_a_target_finer_than_validation_is_rounded_too(simulate, rng):
    world = simulate(3)
    f, y = world.draw(world.source_priors, 300, rng)
    g, _ = world.draw(world.source_priors, 300, rng)
    samples, notes = at_one_precision(read_samples(divided(f.round(3)), y, g))
    np.testing.assert_allclose(samples.y_proba_target, divided(g.round(3)))
    assert notes == ("Validation was rounded to 3 decimals, so the target was rounded alike.",)
    assert at_one_precision(read_samples(f, y, g))[1] == ()


def test_repeated_rows_count_once_and_are_named(simulate, rng):
    world = simulate(3, spread=0.7)
    f, y = world.draw(world.source_priors, 400, rng)
    g, _ = world.draw(np.array([0.6, 0.1, 0.3]), 300, rng)
    drawn = np.sort(rng.integers(0, 300, 200))  # 200 draws from 300 rows
    distinct = np.unique(drawn)
    test = check_assumption(f, y, g[drawn], random_state=0)
    same = check_assumption(f, y, g[distinct], random_state=0)
    assert test.p_value == same.p_value
    assert test.n_repeated_target == 200 - distinct.size
    assert test.n_repeated_val == same.n_repeated_target == 0
    assert f"The target has {200 - distinct.size} repeated rows" in test.sentence
    assert "repeated" not in same.sentence
    twice = check_assumption(np.repeat(f, 2, axis=0), np.repeat(y, 2), g, random_state=0)
    assert twice.n_repeated_val == 400
    assert twice.p_value == check_assumption(f, y, g, random_state=0).p_value


def test_saturated_rows_are_not_taken_for_repeats(simulate, rng):
    """A blurred target saturates at another value than validation: both tie by themselves."""
    world = simulate(3, spread=0.7)
    f, y = world.draw(world.source_priors, 400, rng)
    g, _ = world.draw(np.array([0.6, 0.1, 0.3]), 400, rng)
    surest = [
        np.where(side.max(axis=1, keepdims=True) > 0.8, side.round(), side) for side in (f, g)
    ]
    test = check_assumption(surest[0], y, 0.7 * surest[1] + 0.1, random_state=0)
    assert (test.n_repeated_val, test.n_repeated_target) == (0, 0)
    assert "repeated" not in test.sentence


@pytest.mark.parametrize("n_target", [60, 400, 3000])
def test_a_forest_ties_by_itself(simulate, n_target):
    """Votes of 20 trees are equal by chance, on both sides: no row is taken for repeated."""
    world = simulate(3, spread=0.7)
    for seed in range(10):
        rng = np.random.default_rng([seed, 9])
        f, y = world.draw(world.source_priors, 400, rng)
        g, _ = world.draw(np.array([0.6, 0.1, 0.3]), n_target, rng)
        votes = [rng.multinomial(20, side) / 20 for side in (f, g)]
        samples = read_samples(votes[0], y, votes[1], np.arange(3))
        assert without_repeats(samples) == (samples, 0, 0)


def test_ties_hide_repeats_and_are_left_out_with_them(simulate, rng):
    """Half of the rows are saturated, the others repeat in the target."""
    world = simulate(3, spread=0.7)
    f, y = world.draw(world.source_priors, 400, rng)
    g, _ = world.draw(world.source_priors, 200, rng)
    sure_val, sure = np.eye(3)[f.argmax(axis=1)], np.eye(3)[g.argmax(axis=1)]
    mixed_val = np.where(np.arange(400)[:, None] % 2, sure_val, f)
    mixed = np.where(np.arange(200)[:, None] % 2, sure, g)
    samples = read_samples(mixed_val, y, np.repeat(mixed, 3, axis=0), np.arange(3))
    kept, of_val, of_target = without_repeats(samples)
    assert (of_val, of_target) == (0, 200)
    np.testing.assert_array_equal(kept.y_proba_val, f[::2])
    np.testing.assert_array_equal(kept.y_proba_target, g[::2])


def test_noise_in_the_logits_of_26_classes_is_seen(simulate):
    """Fifths of confidence in each of 26 decisions noticed it in 1 or 2 of 10 runs."""
    world, seen = simulate(26, dim=6, spread=1.2), [0, 0]
    for seed in range(15):
        rng = np.random.default_rng([seed, 26])
        f, y = world.draw(np.full(26, 1 / 26), 1300, rng)
        g, _ = world.draw(rng.dirichlet(np.full(26, 2.0)), 2000, rng)
        noisy = divided(g * np.exp(rng.standard_normal(g.shape)))
        for at, target in enumerate((g, noisy)):
            test = check_assumption(
                f, y, target, classes=np.arange(26), n_resamples=99, random_state=seed
            )
            seen[at] += test.rejected
    assert seen[0] <= binom(15, 0.07).ppf(0.999)
    assert seen[1] >= 11


def test_what_would_be_seen_grows_with_the_rows(simulate, rng):
    world, least = simulate(3), []
    for n in (300, 3000):
        f, y = world.draw(world.source_priors, n, rng)
        g, _ = world.draw(world.source_priors, n, rng)
        test = check_assumption(f, y, g, random_state=0)
        least.append(test.detectable_effect)
        assert f"{test.detectable_effect:.4g}" in repr(test)
    assert least[1] == pytest.approx(least[0] / np.sqrt(10), rel=0.25)


@pytest.mark.slow
def test_level_under_a_shift_of_priors_and_power_beyond_it(simulate):
    world, n = simulate(3), 120
    rejected = np.zeros(2)
    for seed in range(n):
        rng = np.random.default_rng([seed, 8])
        f, y = world.draw(world.source_priors, 400, rng)
        g, _ = world.draw(np.array([0.6, 0.1, 0.3]), 400, rng)
        duller = np.sqrt(g) / np.sqrt(g).sum(axis=1, keepdims=True)
        for at, target in enumerate((g, duller)):
            rejected[at] += check_assumption(
                f, y, target, n_resamples=99, random_state=seed
            ).rejected
    assert binom(n, 0.03).ppf(0.001) <= rejected[0] <= binom(n, 0.07).ppf(0.999), rejected / n
    assert rejected[1] > 0.9 * n


def test_a_moved_target_is_told_in_words(simulate, rng):
    world = simulate(3)
    f, y = world.draw(world.source_priors, 600, rng)
    g, _ = world.draw(np.array([0.6, 0.1, 0.3]), 600, rng)
    moved = check_assumption(f, y, 0.7 * g + 0.1, random_state=0)
    assert moved.rejected
    assert "it looks different within its classes" in moved.sentence
    test = check_assumption(f, y, g, random_state=0)
    assert not test.rejected
    assert test.sentence.startswith("A change of class balance alone explains the target (p = ")
    assert np.abs(test.priors - [0.6, 0.1, 0.3]).max() < 0.08
    again = pickle.loads(pickle.dumps(test))
    assert isinstance(again, AssumptionTest)
    assert again.to_dict() == test.to_dict()
    assert f"{test.p_value:.4g}" in repr(test)


def test_bad_input_is_refused(simulate, rng):
    f, y = simulate(3).draw(np.full(3, 1 / 3), 50, rng)
    with pytest.raises(ValueError, match="alpha must be above 0"):
        check_assumption(f, y, f, alpha=0.0)
    with pytest.raises(ValueError, match="n_resamples"):
        check_assumption(f, y, f, n_resamples=5)


def test_too_little_validation_gets_no_p_value(rng):
    """A long tail with 10 rows per class: validation is worth fewer than 100 rows."""
    K = 60
    y_val = np.repeat(np.arange(K), 10)
    y = rng.choice(K, 4000, p=0.8 ** np.arange(K) / (0.8 ** np.arange(K)).sum())

    def predict(labels):
        return rng.dirichlet(np.ones(K), labels.size) * 0.6 + 0.4 * np.eye(K)[labels]

    test = check_assumption(predict(y_val), y_val, predict(y), random_state=0)
    assert test.p_value is None
    assert not test.rejected
    assert "cannot be checked: there are too few rows" in test.sentence


def test_a_large_target_is_tested_on_a_part(simulate, rng, monkeypatch):
    from priorshift.evidence import _assumption

    world = simulate(3)
    f, y = world.draw(world.source_priors, 1500, rng)
    g, _ = world.draw(world.source_priors, 4000, rng)
    monkeypatch.setattr(_assumption, "MOST_ROWS", 1000)
    test = check_assumption(f, y, 0.6 * g + 0.4 / 3, random_state=0)
    assert test.rejected
    assert test.n_target == 4000


# Decisions only

ERRORS = np.array([[0.75, 0.10, 0.15], [0.05, 0.85, 0.10]])
DRIFTED = np.array([[0.55, 0.10, 0.35], [0.02, 0.90, 0.08]])
VERDICTS = np.array(["fail", "pass", "unsure"])


def judge(n, share, errors, rng, n_kinds=3):
    """Draw verdicts and the truth, a share of which passes."""
    truth = (rng.random(n) < share).astype(int)
    verdict = (rng.random(n)[:, None] > errors[truth].cumsum(axis=1)).sum(axis=1)
    return VERDICTS[np.minimum(verdict, n_kinds - 1)], VERDICTS[truth]


def test_a_judge_with_a_third_verdict_is_tested_at_its_level():
    rejected = 0
    for seed in range(80):
        rng = np.random.default_rng(seed)
        y_pred_val, y_val = judge(200, 0.6, ERRORS, rng)
        y_pred_target, _ = judge(600, 0.3, ERRORS, rng)
        test = check_assumption(
            y_pred_val=y_pred_val, y_val=y_val, y_pred_target=y_pred_target, random_state=seed
        )
        assert test.degrees_of_freedom == 1
        rejected += test.rejected
    assert rejected <= 10  # of 80 at 5 %: more with a chance of 0.2 %


def test_a_judge_that_drifted_is_noticed():
    rng = np.random.default_rng(0)
    y_pred_val, y_val = judge(400, 0.6, ERRORS, rng)
    y_pred_target, _ = judge(3000, 0.4, DRIFTED, rng)
    test = check_assumption(y_pred_val=y_pred_val, y_val=y_val, y_pred_target=y_pred_target)
    assert test.rejected
    assert test.sentence.startswith("The decisions fit no mixture")


def test_as_many_verdicts_as_classes_tell_only_outside_all_mixtures():
    rng = np.random.default_rng(0)
    y_pred_val, y_val = judge(400, 0.6, ERRORS, rng, n_kinds=2)
    for share, says in ((0.4, False), (0.005, True)):  # 10 % of the failures are passed
        y_pred_target = np.where(rng.random(3000) < (share if says else 0.4), "pass", "fail")
        test = check_assumption(y_pred_val=y_pred_val, y_val=y_val, y_pred_target=y_pred_target)
        assert test.rejected is says
        assert (test.p_value is not None) is says
    assert (
        "cannot show"
        in check_assumption(y_pred_val=y_pred_val, y_val=y_val, y_pred_target=y_pred_val).sentence
    )


def test_decisions_are_given_for_both_sides():
    with pytest.raises(ValueError, match="one is missing"):
        check_assumption(y_pred_val=["a", "b"], y_val=["a", "b"])
    with pytest.raises(ValueError, match="pass one of them"):
        check_assumption([[1.0, 0.0]], [0], y_pred_val=["a"], y_pred_target=["a"])


def test_a_target_that_validation_has_whole_is_too_little_to_check(rng):
    """Validation repeats rows, so ties with it are left out: here that is all of the target."""
    sure = np.tile([1.0, 0.0, 0.0], (60, 1))
    rows = np.repeat(rng.dirichlet(np.ones(3), 40), 5, axis=0)
    validation, y = np.vstack([rows, sure]), np.r_[rows.argmax(axis=1), np.zeros(60, int)]
    found = check_assumption(validation, y, np.tile(sure, (4, 1)), np.arange(3), random_state=0)
    assert found.n_repeated_val > 100
    assert found.p_value is None
