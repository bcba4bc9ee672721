"""The paper's experiments: draws, tables, figures, files."""

import csv
import io
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from lab.paper import experiments, supplement
from lab.paper.distributions import (
    IMBALANCES,
    distribution,
    largest_sample,
    long_tailed_counts,
)
from lab.paper.experiments import (
    EXPERIMENTS,
    run_experiment,
)
from lab.paper.figures import draw_convergence
from lab.paper.outputs import (
    StoredOutputs,
)
from lab.paper.supplement import (
    example,
    run_convergence,
    run_inconsistent,
    run_sensitivity,
    sensitivity_as_markdown,
)
from lab.paper.tables import (
    TABLES,
    Record,
    ResultTable,
    run_table,
    run_tables,
)
from lab.paper.trials import (
    CALIBRATORS,
    Setting,
)
from lab.show import as_csv
from priorshift import get_estimator
from priorshift.solvers import project_simplex

K = 5
UNIFORM = np.full(K, 1 / K)


# Distributions


@pytest.mark.parametrize("name", list(IMBALANCES))
def test_distributions_have_their_imbalance(name):
    priors = distribution(name, 100)
    assert priors.sum() == pytest.approx(1)
    assert priors[0] / priors[-1] == pytest.approx(IMBALANCES[name])
    steps = np.diff(np.log(priors))
    np.testing.assert_allclose(steps, steps[0], atol=1e-12)


def test_the_long_tail_of_cifar_100():
    counts = long_tailed_counts(100, 450, 100.0)
    assert counts[0] / counts[-1] == 112.5
    assert counts.tolist() == [int(450 * 0.01 ** (k / 99)) for k in range(100)]


@pytest.mark.parametrize("name", ["UNI", "D1", "D5"])
def test_a_sample_follows_the_distribution_without_repeating_rows(rng, name):
    y = rng.permutation(np.repeat(np.arange(K), 200))
    priors = distribution(name, K)
    rows = largest_sample(y, priors, 1.0, rng)
    assert np.unique(rows).size == rows.size
    counts = np.bincount(y[rows], minlength=K)
    assert counts.max() == 200
    np.testing.assert_allclose(counts / counts.sum(), priors, atol=0.01)
    half = largest_sample(y, priors, 0.5, rng)
    assert half.size == pytest.approx(rows.size / 2, abs=K)


# Outputs


def test_outputs_survive_a_file(tmp_path, make_outputs):
    outputs = make_outputs(retrained=True)
    outputs.save(tmp_path / "toy.npz")
    loaded = StoredOutputs.load(tmp_path / "toy.npz")
    assert loaded.name == "toy"
    assert loaded.retrained is not None
    for part in ("train", "val", "test"):
        np.testing.assert_array_equal(getattr(loaded, part).logits, getattr(outputs, part).logits)
        np.testing.assert_array_equal(getattr(loaded, part).y, getattr(outputs, part).y)


def test_a_file_that_lacks_a_part_is_refused(tmp_path):
    np.savez(tmp_path / "half.npz", train_logits=np.eye(2), train_y=[0, 1])
    with pytest.raises(ValueError, match="lacks val_logits, val_y, test_logits, test_y"):
        StoredOutputs.load(tmp_path / "half.npz")


def test_sets_must_agree_on_the_classes():
    two, three = (np.eye(2), [0, 1]), (np.eye(3), [0, 1, 2])
    with pytest.raises(ValueError, match="number of classes"):
        StoredOutputs.of("x", train=two, val=two, test=three)


@pytest.mark.parametrize(
    ("logits", "y", "message"),
    [
        (np.eye(3), [0, 1], r"val_y must be 3 column numbers from 0 to 2.*got shape \(2,\)"),
        (np.eye(3), [0.0, 1.0, 2.0], "got shape .* of float64"),
        (np.eye(3), [0, 1, 3], "got numbers from 0 to 3"),
        (np.eye(3), [0, -1, 2], "got numbers from -1 to 2"),
        (np.ones(3), [0, 1, 2], r"val_logits must have one row per sample.*got shape \(3,\)"),
        (np.ones((0, 3)), [], r"got shape \(0, 3\)"),
        (np.ones((3, 1)), [0, 0, 0], "at least two columns"),
        (np.full((3, 3), "a"), [0, 1, 2], "val_logits must hold numbers"),
        (np.diag([1.0, np.nan, 1.0]), [0, 1, 2], "NaN, .inf, or nothing but -inf in row 1"),
        (np.full((3, 3), -np.inf), [0, 1, 2], r"in row 0 \(3 such rows\)"),
    ],
)
def test_bad_outputs_are_refused(logits, y, message):
    good = (np.eye(3), [0, 1, 2])
    with pytest.raises(ValueError, match=message):
        StoredOutputs.of("x", train=good, val=(logits, y), test=good)


@pytest.mark.parametrize("content", [b"", b"label,a,b\n", b"\x93NUMPY\x01\x00"])
def test_what_is_no_npz_is_refused(tmp_path, content):
    path = tmp_path / "outputs.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is not an npz"):
        StoredOutputs.load(path)


def test_nothing_is_unpickled(tmp_path):
    arrays = {f"{p}_{w}": np.eye(2) for p in ("train", "val", "test") for w in ("logits", "y")}
    np.savez(tmp_path / "x.npz", **(arrays | {"train_y": np.array([{}, {}], dtype=object)}))
    with pytest.raises(ValueError, match="pickle"):
        StoredOutputs.load(tmp_path / "x.npz")


# Trials


def test_a_trial_depends_on_nothing_but_its_seed(make_outputs):
    outputs = make_outputs()
    one, same, other = (Setting(outputs, UNIFORM, False, seed).draw() for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.rows, same.rows)
    assert not np.array_equal(one.rows, other.rows)


def test_trained_priors_come_from_training_and_follow_calibration(make_outputs):
    outputs = make_outputs()
    plain = Setting(outputs, UNIFORM, False, 0).draw()
    np.testing.assert_allclose(plain.label_frequencies, distribution("LT", K), atol=0.02)
    np.testing.assert_allclose(plain.mean_prediction, plain.label_frequencies, atol=0.02)
    calibrated = Setting(outputs, UNIFORM, True, 0).draw()
    assert not np.array_equal(plain.mean_prediction, calibrated.mean_prediction)
    assert calibrated.mean_prediction.sum() == pytest.approx(1)


def test_the_oracle_is_the_best_on_a_calibrated_classifier(make_outputs):
    trial = Setting(make_outputs(), UNIFORM, False, 0).draw()
    plain = trial.accuracy(trial.y_proba_target)
    assert trial.adapted(trial.truth) > plain + 3
    assert trial.adapted(trial.mean_prediction) == plain


# Tables


@pytest.fixture(scope="module")
def tables(make_outputs):
    parts = {"n_train": 1000, "n_val": 500, "n_test": 600}
    return run_tables(list(TABLES), [make_outputs(**parts, retrained=True)], n_seeds=1)


def test_every_table_has_the_papers_columns(tables):
    for name, (_, methods) in TABLES.items():
        for (_, target, _, _), found in tables[name].rows():
            assert tuple(found) == methods
            assert target == "UNI"
            assert all(n == 1 for _, _, n in found.values())
        assert len(list(tables[name].rows())) == 2 * 3
    scml = [
        {r.solver: (r.calibrated, r.accuracy) for r in tables[name].records if r.method == "scm-l"}
        for name in ("table2", "table3", "table4")
    ]
    assert scml[0] == scml[1] == scml[2]


def test_records_tell_how_far_from_the_maximum_and_the_truth_a_method_is(tables):
    found = {(r.method, r.solver): r for r in tables["table3"].records if not r.calibrated}
    assert found["em", "certified"].gap <= 0.01 < found["em", "paper"].gap
    assert found["na", "paper"].gap is None
    for method in ("em", "scm-l", "scm-m"):
        assert found[method, "certified"].l1_error < found["na", "certified"].l1_error / 2
    uniform = np.abs(distribution("LT", K) - 1 / K).sum()
    assert found["na", "certified"].l1_error == pytest.approx(uniform, abs=0.05)


def test_further_methods_are_columns_before_the_oracle(make_outputs):
    given = {"n_seeds": 1, "solvers": ["certified"], "methods": ["elsa", "scm-l", "elsa"]}
    table = run_table("table2", [make_outputs(n_test=500)], **given)
    assert table.methods == (*TABLES["table2"][1][:-1], "elsa", "oracle")
    assert {r.method for r in table.records} == set(table.methods)
    with pytest.raises(ValueError, match="no estimator 'scml'"):
        run_table("table2", [make_outputs()], methods=["scml"])


def test_several_classifiers_of_one_name_are_one_row(make_outputs):
    outputs = [make_outputs(seed=0), make_outputs(seed=1)]
    table = run_table("table2", outputs, n_seeds=2, solvers=["certified"])
    assert {n for _, found in table.rows() for _, _, n in found.values()} == {4}
    assert {r.seed for r in table.records} == {0, 1, 2, 3}


def test_markdown_shows_mean_deviation_and_the_best():
    runs = [
        Record("lt", "UNI", True, "paper", method, seed, accuracy)
        for method, values in {"na": (90.0, 90.0), "cm": (1.0, 3.0), "em": (4.0, 4.0)}.items()
        for seed, accuracy in enumerate(values)
    ]
    table = ResultTable("T", ("na", "cm", "em", "oracle"), tuple(runs))
    row = table.to_markdown().splitlines()[2]
    assert row == "| lt -> UNI | yes | text | 90.00 ± 0.00 | 2.00 ± 1.41 | **4.00 ± 0.00** |  |"
    read = list(csv.DictReader(io.StringIO(as_csv(table.records))))
    assert len(read) == 6
    assert read[2]["method"] == "cm"


def test_columns_that_agree_are_one_row(tables):
    rows = [line.split(" | ")[1:3] for line in tables["table1"].to_markdown().splitlines()[2:]]
    assert rows == [["no", "all"], ["yes", "text"], ["yes", "released"], ["yes", "certified"]]


def test_each_column_has_its_own_calibration(make_outputs):
    outputs = make_outputs()
    trials = {s: Setting(outputs, "UNI", True, 0).draw(s) for s in CALIBRATORS}
    for solver, trial in trials.items():
        bcts = clone(CALIBRATORS[solver]).fit(
            outputs.val[_validation_rows(outputs)].logits,
            trial.y_val,
            source_label_priors=trial.label_frequencies,
        )
        np.testing.assert_allclose(
            trial.y_proba_target, bcts.predict_proba(outputs.test.logits[trial.rows])
        )
        np.testing.assert_array_equal(trial.rows, trials["paper"].rows)
    one, two, three = (trial.mean_prediction for trial in trials.values())
    assert min(np.abs(one - two).max(), np.abs(one - three).max(), np.abs(two - three).max()) > 1e-6
    plain = [Setting(outputs, "UNI", False, 0).draw(s) for s in CALIBRATORS]
    assert all(np.array_equal(plain[0].y_proba_target, t.y_proba_target) for t in plain)


def _validation_rows(outputs, seed=0):
    rng = np.random.default_rng([seed, K])
    return largest_sample(outputs.val.y, outputs.val.label_frequencies(), 0.8, rng)


def test_records_name_the_network_they_come_from(make_outputs):
    outputs = [make_outputs(n_test=500, seed=seed) for seed in (0, 1)]
    given = {"n_seeds": 2, "solvers": ["certified"]}
    found = run_table("table1", outputs, **given).records
    assert {(r.network, r.seed) for r in found} == {("0", 0), ("0", 1), ("1", 2), ("1", 3)}
    split = [replace(one, network="one") for one in outputs]
    assert {r.network for r in run_table("table1", split, **given).records} == {"one"}


# The other experiments


def test_the_supplements_example_has_a_negative_ratio():
    np.testing.assert_allclose(example(), [8 / 3, -2 / 3])


def test_rows_of_a_negative_ratio_are_turned():
    """Validation confuses the classes more than the target does: one ratio is below 0."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 500)
    scores = np.where(rng.random(1000) < 0.7, y, 1 - y)
    part = (np.eye(2)[scores] * 6.0, y)
    most = (np.eye(2)[[0] * 95 + [1] * 5] * 6.0, np.array([0] * 95 + [1] * 5))
    outputs = StoredOutputs.of("toy", train=part, val=part, test=most)
    found = run_inconsistent([outputs], targets=["LT"], n_seeds=1)
    bbse = next(one for one in found if one.method == "bbse" and not one.calibrated)
    assert bbse.solver == "paper"
    trial = Setting(outputs, "LT", False, 0).draw()
    assert bbse.negative == 0.5
    assert bbse.turned == pytest.approx((trial.y_proba_target[:, 1] > 0.5).mean())


def test_convergence_is_followed_until_it_ends(make_outputs):
    setting = Setting(make_outputs(), "UNI", False, 0)
    stages, times = run_convergence(
        setting, methods=("em", "cm"), iterations=(1, 3, 500), n_repeats=1
    )
    certified = [s for s in stages if (s.method, s.solver) == ("em", "certified")]
    gaps = [stage.gap for stage in certified]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] <= 0.01
    assert [(t.method, t.solver) for t in times] == [
        ("em", "paper"),
        ("em", "released"),
        ("em", "certified"),
        ("cm", "certified"),
    ]


def test_methods_that_do_not_converge_have_one_stage(make_outputs):
    setting = Setting(make_outputs(), "UNI", False, 0)
    methods = ("cm", "bbse", "scm-l")
    stages, _ = run_convergence(setting, methods=methods, iterations=(1, 5), n_repeats=1)
    counts = Counter((stage.method, stage.solver) for stage in stages)
    assert counts["cm", "certified"] == counts["bbse", "released"] == 1
    assert counts["scm-l", "released"] == 2
    panels = draw_convergence(stages).axes
    assert [ax.get_title() for ax in panels] == ["text", "released", "certified"]
    for ax in panels:
        assert [line.get_label() for line in ax.lines[::2]] == ["CM", "BBSE", "SCM-L"]


# What the text leaves open


@pytest.fixture(scope="module")
def varied(make_outputs):
    outputs = make_outputs(n_val=300, n_test=600)
    return outputs, run_sensitivity([outputs], n_seeds=2)


def _variant(found, **wanted):
    return [one for one in found if all(getattr(one, k) == v for k, v in wanted.items())]


@pytest.mark.parametrize(
    ("method", "wanted"),
    [
        ("cm-l", {"learning_rate": 1e-4, "halved": True}),
        ("scm-l", {"learning_rate": 1e-3, "halved": True}),
        ("scm-m", {"learning_rate": 1e-3, "halved": False}),
        ("em", {"threshold": 1e-3}),
    ],
)
def test_the_released_setting_is_one_of_those_varied(varied, method, wanted):
    outputs, found = varied
    for seed in (0, 1):
        (one,) = _variant(found, method=method, seed=seed, **wanted)
        trial = Setting(outputs, "UNI", False, seed).draw()
        shift = trial.estimated(get_estimator(method, solver="released"))
        error = np.abs(shift.priors - trial.truth).sum()
        assert one.l1_error == pytest.approx(error, abs=1e-6)
        best = trial.estimated(get_estimator(method))
        assert one.certified == trial.adapted_by(best)
        assert one.objective <= best.objective + 0.011


def test_maps_rate_is_of_the_mean_gradient(varied):
    """1000 steps at one rate, as a port of MAP takes them."""
    outputs, found = varied
    trial = Setting(outputs, "UNI", False, 0).draw()
    A = trial.y_proba_target / trial.mean_prediction
    p = trial.mean_prediction
    for _ in range(1000):
        gradient = (A / (A @ p)[:, None]).sum(axis=0) + 2 / np.maximum(p, 1e-8)
        p = project_simplex(p + 0.01 * gradient / len(A))
    wanted = {"method": "map", "seed": 0, "learning_rate": 0.01, "halved": False, "threshold": 0.0}
    (one,) = _variant(found, **wanted)
    assert one.l1_error == pytest.approx(np.abs(p - trial.truth).sum(), abs=1e-9)


def test_the_table_of_variants_shows_decades_and_the_best_of_both_grids(varied):
    _, found = varied
    rows = [line.split(" | ") for line in sensitivity_as_markdown(found).splitlines()]
    assert rows[0][-2:] == ["best of decades, or EM", "best of 1-2-5 |"]
    assert len(rows) == 2 + 3 * 2 + 4 * 2 + 5  # two ways of three methods, MAP, EM
    scml = next(row for row in rows if row[1:3] == ["SCM-L", "no"])
    runs = _variant(found, method="scm-l", halved=False)
    by_seed = [max((r for r in runs if r.seed == s), key=lambda r: r.objective) for s in (0, 1)]
    gain = np.mean([r.accuracy - r.certified for r in by_seed])
    error = np.mean([r.l1_error for r in by_seed])
    assert scml[-1] == f"{gain:+.2f}, {error:.3f} |"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(EXPERIMENTS) - {"table2", "table3", "methods"}))
def test_every_experiment_writes_its_files(tmp_path, monkeypatch, make_outputs, name):
    monkeypatch.setattr(experiments, "QUICK_SEEDS", 1)
    monkeypatch.setattr(experiments, "SIZES", (10, 30, 300))
    monkeypatch.setitem(supplement.run_convergence.__kwdefaults__, "iterations", (1, 3, 20))
    outputs = [make_outputs(n_train=200, n_val=100, n_test=200)]
    text = run_experiment(name, outputs, tmp_path / "new" / name, quick=True)
    written = {path.name for path in (tmp_path / "new" / name).iterdir()}
    assert f"{name}.md" in written
    assert text.startswith("# ")
    assert any(path.endswith((".csv", ".svg")) for path in written)
    assert not [path for path in written if path.startswith(".")]
    for path in (tmp_path / "new" / name).glob("*.csv"):
        header, *rows = csv.reader(io.StringIO(path.read_text(encoding="utf-8")))
        assert rows
        assert all(len(row) == len(header) for row in rows)


def test_what_needs_data_says_so(tmp_path):
    with pytest.raises(ValueError, match="table1 needs outputs"):
        run_experiment("table1", [], tmp_path)
