"""The words of a report: claims that are true of the data, and none that is not."""

from dataclasses import replace

import numpy as np
import pytest

import priorshift as ps
from priorshift.compare import compare
from priorshift.report import render_report

pytestmark = pytest.mark.usefixtures("blank_figures")


def estimate_of(priors, source, *, method="scm-l", status="certified", gap=1e-7, **more):
    more = {"n_target": 10_000, **more}
    names = np.array([f"c{k}" for k in range(len(priors))])
    origin = more.pop("source_priors_from", "given")
    return ps.PriorEstimate(
        method, names, np.array(priors), np.array(source), origin, status, gap, **more
    )


@pytest.fixture
def page_of(read):
    """Render an estimate and read the page."""
    return lambda estimate, **given: read(render_report(estimate, **given))


@pytest.mark.parametrize(
    ("priors", "source", "words"),
    [
        ([0.5, 0.3, 0.2], [0.01, 0.39, 0.6], "“c0” grew 50-fold, “c2” shrank 3-fold"),
        ([0.6, 0.4], [0.8, 0.2], "“c1” grew 2-fold"),
        ([0.8, 0.2], [0.6, 0.4], "“c1” shrank 2-fold"),
        ([0.6, 0.4], [0.5, 0.5], "“c1” shrank from 50% to 40%"),
        ([0.3, 0.7, 0.0], [0.0, 0.6, 0.4], "“c0” appeared, with 30%, “c2” disappeared"),
        ([0.04, 0.96, 0.0], [0.4, 0.6, 0.0], "“c1” grew from 60% to 96%, “c0” shrank 10-fold"),
        ([0.5, 0.5], [0.5, 0.5], "The class shares are what they were"),
    ],
)
def test_the_heading_of_the_picture_names_what_moved_most(page_of, priors, source, words):
    assert page_of(estimate_of(priors, source)).texts["shares-heading"].endswith(f": {words}")


def test_without_target_rows_the_heading_says_how_many_cases_changed(page_of):
    heading = page_of(estimate_of([0.7, 0.3], [0.5, 0.5])).texts["changed-heading"]
    assert "20% of the cases belong to other classes than before" in heading


@pytest.mark.parametrize(
    ("status", "gap", "method", "words"),
    [
        ("certified", 2.5e-7, "scm-l", "objective of scm-l by more than 2.5e-7 nats"),
        ("certified", 2.5e-7, "rlls", "objective of rlls by more than 2.5e-7."),
        ("certified", 0.0, "em", "up to rounding, no other priors"),
        ("direct", None, "cm", "cm has a closed form"),
        ("stationary", None, "map", "another start may end elsewhere"),
        ("not_converged", 0.5, "em", "at most 0.50 nats below the optimum: the answer is not"),
        ("not_converged", None, "em", "stopped short of its tolerance: the answer is not"),
        ("direct", None, "known", "The target priors were given"),
    ],
)
def test_what_the_solver_promises(page_of, status, gap, method, words):
    estimate = estimate_of([0.6, 0.4], [0.5, 0.5], status=status, gap=gap, method=method)
    found = page_of(estimate).texts["method"]
    assert words in found
    assert ("certifies" in found) == (status == "certified")


def rare_case(n_val=4000, n_target=4000, share=0.01):
    """Predict a rare class by a model that was trained with weights of equal classes."""
    rng = np.random.default_rng(5)

    def draw(n):
        y = (rng.random(n) < share).astype(int)
        odds = np.exp(4 * (rng.standard_normal(n) + 1.5 * y) - 3)
        p = odds / (1 + odds)
        return np.column_stack([1 - p, p]), np.array(["no", "fraud"])[y]

    return *draw(n_val), draw(n_target)[0]


def test_calibration_is_judged_class_by_class(page_of):
    """A rare class predicted ten times too often hides in an average over rows."""
    y_proba_val, y_val, y_proba_target = rare_case()
    odd = np.array(["no", "fraud"])
    given = {"y_proba_val": y_proba_val, "y_val": y_val, "y_proba_target": y_proba_target}
    with pytest.warns(ps.PriorShiftWarning, match="contradict its labels"):
        estimate = ps.SCML().fit(y_proba_val, y_val, classes=odd).estimate(y_proba_target)
    page = page_of(estimate, **given)
    predicted, observed = y_proba_val[:, 1].mean(), (y_val == "fraud").mean()
    assert predicted > 5 * observed
    text = page.texts["calibration"]
    assert f"“fraud” is predicted with {100 * predicted:.1f}% on average" in text
    assert f"observed in {100 * observed:.2f}%" in text
    assert "Calibrated" not in text
    calibrated = ps.BCTS().fit(y_proba_val, y_val, classes=odd).predict_proba(y_proba_val)
    good = page_of(estimate, **{**given, "y_proba_val": calibrated})
    assert "Calibrated" in good.texts["calibration"]


def test_a_model_trained_at_other_shares_is_judged_at_those(pets, page_of):
    """Given source priors say at which shares predictions are calibrated."""
    rows = np.concatenate([np.flatnonzero(pets.y_val == c)[:60] for c in pets.classes])
    counts = np.array([(pets.y_val == c).mean() for c in pets.classes])
    given = {"y_proba_val": pets.y_proba_val[rows], "y_val": pets.y_val[rows]}
    known = ps.EM().fit(source_priors=counts, classes=pets.classes).estimate(pets.y_proba_target)
    assert "Calibrated" in page_of(known, **given).texts["calibration"]


@pytest.mark.parametrize(
    ("says", "light", "words"),
    [
        ([0.04, 0.045, 0.05, 0.042], "Agree", "4 methods agree"),
        ([0.04, 0.045, 0.26, 0.042], "Mostly agree", "1 of 4 methods disagrees"),
        ([0.04, 0.15, 0.26, 0.042], "Disagree", "of 4 methods disagree"),
    ],
)
def test_methods_are_judged_by_the_class_they_differ_on(
    pets, page_of, monkeypatch, says, light, words
):
    methods = ["scm-l", "em", "cm", "rlls"]
    for method, share in zip(methods, says, strict=True):
        result = estimate_of([1 - share, share], [0.5, 0.5], method=method)
        result = replace(result, classes=np.array(["no", "fraud"]))
        kind = type(ps.get_estimator(method))
        monkeypatch.setattr(kind, "estimate", lambda self, y_proba, result=result: result)
    proba, y = np.array([[0.9, 0.1], [0.2, 0.8]] * 50), ["no", "fraud"] * 50
    comparison = compare(proba, y, proba, methods=["na", *methods], classes=["no", "fraud"])
    text = page_of(comparison.estimates["scm-l"], comparison=comparison).texts["methods"]
    assert text.strip().startswith(light)
    assert words in text
    if light != "Agree":
        assert "cm puts “fraud” at 26%" in text


@pytest.mark.parametrize(
    ("proba", "words"),
    [
        ([[0.9, 0.1], [0.1, 0.9]], "well conditioned"),
        ([[0.6, 0.4], [0.6, 0.4]], "cannot tell some classes apart"),
    ],
)
def test_condition_numbers_in_words(page_of, proba, words):
    rows, y = np.tile(proba, (20, 1)), ["c0", "c1"] * 20
    page = page_of(estimate_of([0.6, 0.4], [0.5, 0.5]), y_proba_val=rows, y_val=y)
    assert words in page.texts["confusion"]


def test_details_come_when_called_for(page_of):
    calm = page_of(estimate_of([0.6, 0.4], [0.5, 0.5])).texts["method"]
    for words, estimate in {
        "2 entries of the solution were negative": estimate_of(
            [0.0, 0.0, 1.0], [0.3, 0.3, 0.4], raw=np.array([-0.1, -0.2, 1.3])
        ),
        "The target has 30 rows for 2 classes": estimate_of([0.6, 0.4], [0.5, 0.5], n_target=30),
    }.items():
        assert words in page_of(estimate).texts["method"]
        assert words not in calm


def test_classes_of_which_little_is_known_are_named(pets, page_of):
    calm = page_of(estimate_of([0.6, 0.4], [0.5, 0.5]))
    assert "Classes to look at" not in calm.texts["next"]
    unseen = estimate_of([0.6, 0.4], [0.5, 0.5], unseen_classes=("c1",))
    assert "Validation has no row of “c1”" in page_of(unseen).texts["next"]
    gone = estimate_of(np.array([1.0] + [0.0] * 9), [0.1] * 10)
    assert "9 classes (“c1”, “c2”, “c3”, …) is 0" in page_of(gone).texts["next"]
    rows = np.concatenate(
        [np.flatnonzero(pets.y_val != "pig"), np.flatnonzero(pets.y_val == "pig")[:4]]
    )
    few = {"y_proba_val": pets.y_proba_val[rows], "y_val": pets.y_val[rows]}
    assert "fewer than 10 rows of “pig”" in page_of(pets.estimate(), **few).texts["next"]


def test_poor_calibration_is_a_care(pets, page_of):
    given = {"y_proba_val": pets.y_proba_val, "y_val": pets.y_val}
    assert "Calibrated" in page_of(pets.estimate(), **given).texts["calibration"]
    sharp = pets.y_proba_val**6
    sharp /= sharp.sum(axis=1, keepdims=True)
    bad = page_of(pets.estimate(), y_proba_val=sharp, y_val=pets.y_val)
    assert "Off" in bad.texts["calibration"]
    assert "Calibrating validation and target" in bad.texts["calibration"]


def test_decisions_say_from_what_to_what(pets, page_of):
    estimate = pets.estimate()
    before = pets.y_proba_target.argmax(axis=1)
    after = estimate.adapt(pets.y_proba_target).argmax(axis=1)
    difference = np.bincount(after, minlength=4) - np.bincount(before, minlength=4)
    words = page_of(estimate, y_proba_target=pets.y_proba_target).texts["changed"]
    assert f"Adapting changes {(before != after).sum()} of 500 decisions" in words
    assert f"“{pets.classes[difference.argmax()]}” gains most" in words
    assert f"“{pets.classes[difference.argmin()]}” loses most" in words
    assert "pass y_proba_target" in page_of(estimate).texts["changed"]


def test_what_is_left_out_says_what_to_pass(pets, page_of):
    alone = page_of(pets.estimate()).texts["left-out"]
    for arguments in (
        "y_proba_val, y_val and y_proba_target, or --validation",
        "y_proba_target, or --target",
        "comparison=priorshift.compare.compare(…)",
        "y_target, or a --target with labels",
    ):
        assert f"pass {arguments}." in alone
    full = {**pets.data, "comparison": pets.compare(("scm-l", "em"))}
    assert "left-out" not in page_of(pets.estimate(), **full).texts


def test_nothing_is_called_significant(pets_page):
    assert "significant" not in pets_page.texts["main"].lower()


def test_a_joint_matrix_has_its_own_condition_number(pets, read):
    estimate = pets.estimate("bbse")
    joint = np.array(
        [
            [
                ((pets.y_proba_val.argmax(axis=1) == i) & (pets.y_val == c)).mean()
                for c in pets.classes
            ]
            for i in range(4)
        ]
    )
    assert estimate.condition_number == pytest.approx(np.linalg.cond(joint))
    page = read(pets.render("bbse"))
    shown = page.texts["confusion"].partition("bbse inverted has a condition number of ")[2]
    assert float(shown.partition(".\n")[0]) == pytest.approx(np.linalg.cond(joint), rel=0.01)


@pytest.mark.parametrize(
    ("names", "title"),
    [
        (["a", "b"], "Class balance of a and b"),
        (["a", "b", "c"], "Class balance of a, b and c"),
        (["a", "b", "c", "d"], "Class balance of a, b and 2 other classes"),
        ([f"s{k}" for k in range(30)], "Class balance of 30 classes"),
    ],
)
def test_a_page_without_a_title_is_called_after_its_classes(page_of, names, title):
    K = len(names)
    estimate = replace(estimate_of([1 / K] * K, [1 / K] * K), classes=np.array(names))
    assert page_of(estimate).data["title"] == title


@pytest.fixture(scope="module")
def fraud():
    """Assess a rare class, with costs and without."""
    y_proba_val, y_val, y_proba_target = rare_case(share=0.02)
    rows = (y_proba_val, y_val, y_proba_target)
    classes = ["no", "fraud"]
    given = {"y_proba_val": y_proba_val, "y_val": y_val, "y_proba_target": y_proba_target}
    costs = {("fraud", "no"): 20, ("no", "fraud"): 1}
    found = {
        name: ps.assess(*rows, classes=classes, method="em-bcts", **more)
        for name, more in (("plain", {}), ("costs", {"costs": costs}))
    }
    return found, given


def test_accuracy_of_a_rare_class_is_set_beside_that_of_always_saying_no(fraud, read, tmp_path):
    found, given = fraud
    page = read(found["plain"].report(tmp_path / "r.html", **given).read_text(encoding="utf-8"))
    share = found["plain"].shares_to_report.priors[0]
    assert share > 0.95
    assert f"Always answering “no”{share:.0%}" in page.texts["main"]
    assert found["plain"].say("rare") in " ".join(page.texts["next"].split())
    costly = read(found["costs"].report(tmp_path / "r.html", **given).read_text(encoding="utf-8"))
    assert "Always answering" not in costly.texts["main"]


@pytest.mark.parametrize("name", ["plain", "costs"])
def test_the_threshold_is_that_of_the_decisions(fraud, read, tmp_path, name):
    """Deciding by the raw threshold is deciding by the adapted probability."""
    (found, given) = fraud
    found = found[name]
    page = read(found.report(tmp_path / "r.html", **given).read_text(encoding="utf-8"))
    data = page.data["what_if"]
    cut = 1 / 21 if name == "costs" else 0.5
    assert data["cut"] == pytest.approx(cut)
    raw = given["y_proba_target"][:, 1]
    adapted = found.adapt(given["y_proba_target"])[:, 1]
    assert ((raw > (data["threshold"] or 1)) == (adapted > cut)).mean() > 0.999
    assert ("Decide “fraud” above" in page.texts["main"]) == (data["threshold"] is not None)


def test_what_if_is_what_validation_says_at_that_share(fraud, read, tmp_path):
    found, given = fraud
    page = read(found["plain"].report(tmp_path / "r.html", **given).read_text(encoding="utf-8"))
    score, y = given["y_proba_val"][:, 1], np.asarray(given["y_val"])
    estimate = replace(found["plain"].estimate, strength=1.0)
    for row in page.data["what_if"]["rows"]:
        other = np.array([1 - row["share"], row["share"]])
        flagged = replace(estimate, priors=other).adapt(given["y_proba_val"])[:, 1] > 0.5
        right, wrong = flagged[y == "fraud"].mean(), flagged[y == "no"].mean()
        alerts = row["share"] * right + (1 - row["share"]) * wrong
        assert row["missed"] == pytest.approx(1 - right, abs=0.03)
        assert row["alerts"] == pytest.approx(alerts, abs=0.01)
        if row["ppv"] is not None and alerts > 0.001:
            assert row["ppv"] == pytest.approx(row["share"] * right / alerts, abs=0.05)
        if row["threshold"] is not None:
            assert ((score > row["threshold"]) == flagged).mean() > 0.99
    shares = [row["share"] for row in page.data["what_if"]["rows"]]
    assert (min(shares), max(shares)) == (0.001, 0.9)
    assert len(page.tables["what-if-table"]) == len(shares) + 1


def test_training_rows_as_validation_are_noticed(page_of):
    """A model that knows its training rows by heart is sure of them, and less so of new ones."""
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 3000)
    X = rng.standard_normal((3000, 4)) + 1.2 * np.eye(3, 4)[y]
    train, fresh, target = np.split(np.arange(3000), 3)
    model = RandomForestClassifier(60, random_state=0).fit(X[train], y[train])
    for rows, noticed in ((train, True), (fresh, False)):
        y_proba_val, y_proba_target = model.predict_proba(X[rows]), model.predict_proba(X[target])
        estimate = ps.EM().fit(y_proba_val, y[rows]).estimate(y_proba_target)
        given = {"y_proba_val": y_proba_val, "y_val": y[rows], "y_proba_target": y_proba_target}
        text = page_of(estimate, **given).texts["sample"]
        assert ("look as if the model was trained on them" in text) == noticed
        assert ("Seen before?" in text) == noticed


@pytest.mark.filterwarnings("ignore::priorshift.exceptions.PriorShiftWarning")
def test_decisions_that_can_be_checked_are_not_called_uncheckable(tmp_path):
    """A third verdict tells whether a judge still errs as it did."""
    rng = np.random.default_rng(0)
    before = np.array([[0.75, 0.10, 0.15], [0.05, 0.85, 0.10]])
    after = np.array([[0.55, 0.10, 0.35], [0.02, 0.90, 0.08]])
    names = np.array(["fail", "pass", "unsure"])

    def draw(n, share, errors):
        truth = (rng.random(n) < share).astype(int)
        return names[(rng.random(n)[:, None] > errors[truth].cumsum(axis=1)).sum(axis=1)], truth

    y_pred, truth = draw(400, 0.6, before)
    for errors, said in ((before, "decisions fit the errors"), (after, "decisions do not fit")):
        target = draw(3000, 0.4, errors)[0]
        found = ps.assess(y_pred_val=y_pred, y_val=names[truth], y_pred_target=target)
        page = found.report(tmp_path / "page.html").read_text(encoding="utf-8")
        assert said in page
        assert ">cannot tell<" not in page
        assert "if such a class can be true, add some. Its share is taken to be 0." in page
