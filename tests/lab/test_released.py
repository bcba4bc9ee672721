"""The algorithms that the paper's authors released, against ports that spell them out in loops.

The ports read formulas, not our code: projections by dropping classes one round at a time, sums by
decision, L-BFGS with lists. Both run in double precision but for BCTS, which is float32 in both.
"""

from types import SimpleNamespace

import numpy as np
import pytest

import priorshift as ps
from lab.paper.outputs import (
    Part,
    StoredOutputs,
)
from lab.paper.published import (
    PUBLISHED,
    check_published,
)

RATES = {"cm-l": 1e-4, "scm-l": 1e-3, "cm-m": 1e-3, "scm-m": 1e-3}
SOFT = {"cm-l": False, "scm-l": True, "cm-m": False, "scm-m": True, "bbse": False, "bbse-s": True}


# The ports


def project(v):
    """Project onto the simplex: shift what is left, and drop what falls below 0."""
    kept = np.ones(v.size, bool)
    while True:
        shifted = np.where(kept, v - (v[kept].sum() - 1) / kept.sum(), 0.0)
        if (shifted >= 0).all():
            return shifted
        kept &= shifted > 0


def confusion_of(task, soft):
    decided = task.val if soft else np.eye(task.K)[task.val.argmax(axis=1)]
    return np.column_stack([decided[task.y_val == k].mean(axis=0) for k in range(task.K)])


def decisions_of(task, soft):
    counts = np.zeros(task.K)
    for row in task.target:
        counts += row if soft else np.eye(task.K)[row.argmax()]
    return counts


def adapt(task, weights):
    adapted = task.target * weights
    return np.array([row / row.sum() for row in adapted])


def port_em(task):
    p = task.source / task.source.sum()
    while True:
        adapted = adapt(task, p / task.source)
        new = adapted.mean(axis=0)
        if ((new - p) ** 2).sum() < 1e-3**2:
            return new, adapted
        p = new


def port_map(task):
    p = task.source / task.source.sum()
    for _ in range(1000):
        a = task.target / task.source
        g = (a / (a * p).sum(axis=1)[:, None]).sum(axis=0)
        g = g + 2 / np.maximum(p, 1e-8)
        new = project(p + 5e-8 * g)
        if ((new - p) ** 2).sum() < 1e-5**2:
            break
        p = new
    return new, adapt(task, p / task.source)


def port_ascent(task, method):
    C, counts = confusion_of(task, SOFT[method]), decisions_of(task, SOFT[method])
    n, penalised = counts.sum(), method.endswith("m")
    q, p = counts / n, task.source / task.source.sum()
    for i in range(1000):
        g = np.zeros(task.K)
        for d in range(task.K):
            seen = C[d] @ p
            if seen > 0:
                g += C[d] * q[d] / seen
        rate = RATES[method]
        if penalised:
            g += 2 / p / n
        else:
            rate /= 2 ** (i // 50)
        p = project(p + rate * g)
    return p, adapt(task, p / task.source)


def port_bbse(task, method):
    J = confusion_of(task, SOFT[method]) * task.source
    J = J / J.sum()
    counts = decisions_of(task, SOFT[method])
    w = np.linalg.inv(J) @ (counts / counts.sum())
    return w * task.source, adapt(task, w)


def port(task, method):
    if method in ("em", "map"):
        return {"em": port_em, "map": port_map}[method](task)
    return port_ascent(task, method) if method in RATES else port_bbse(task, method)


def port_bcts(logits, y, priors, n_steps=100):
    """PyTorch's L-BFGS without line search, on gradients that are added up; see its manual."""
    one = np.float32(1.0)
    logits, K = logits.astype(np.float32), logits.shape[1]
    weight = priors / (np.bincount(y, minlength=K) / y.size)
    weight = (weight / weight.sum())[y]
    theta, total = np.ones(K + 1, np.float32), np.zeros(K + 1, np.float32)

    def evaluate():
        T, b = float(theta[0]), theta[1:].astype(float)
        scores = logits.astype(float) / T + b
        scores -= scores.max(axis=1, keepdims=True)
        proba = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        off = (proba - np.eye(K)[y]) * weight[:, None]
        loss = -(weight * np.log(proba[np.arange(y.size), y])).sum() / weight.sum()
        g = np.concatenate([[-(off * logits).sum() / T**2], off.sum(axis=0)]) / weight.sum()
        return np.float32(loss), total + g.astype(np.float32)

    loss, total = evaluate()
    ys, ss, h, previous, step = [], [], one, total, total
    for i in range(n_steps):
        if np.abs(total).max() <= 1e-7:
            break
        if i and np.dot(total - previous, step) > 1e-10:
            ys.append(total - previous)
            ss.append(step)
            h = np.dot(ys[-1], ss[-1]) / np.dot(ys[-1], ys[-1])
        q, al = -total, {}
        for j in range(len(ys) - 1, -1, -1):
            al[j] = np.dot(ss[j], q) * (one / np.dot(ys[j], ss[j]))
            q = q - al[j] * ys[j]
        q = q * h
        for j in range(len(ys)):
            q = q + ss[j] * (al[j] - np.dot(ys[j], q) * (one / np.dot(ys[j], ss[j])))
        previous, before = total, loss
        t = np.float32(1e-4) if i else np.float32(1e-4 * min(1.0, 1.0 / np.abs(total).sum()))
        if np.dot(total, q) > -1e-9:
            break
        step = t * q
        theta = theta + step
        if i == n_steps - 1:
            break
        loss, total = evaluate()
        if np.abs(step).max() <= 1e-9 or abs(loss - before) < 1e-9:
            break
    return float(theta[0]), theta[1:].astype(float)


# The tasks


def softmax(scores):
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def draw(K, seed, calibrated):
    """Outputs of a biased classifier under priors it was not trained on."""
    rng = np.random.default_rng([K, seed])
    trained = rng.dirichlet(np.full(K, 5.0))
    bias = rng.normal(scale=0.3, size=K)

    def part(n, priors):
        y = np.concatenate([np.arange(K), np.arange(K), rng.choice(K, n, p=priors)])
        z = 3.0 * np.eye(K)[y] + rng.normal(size=(y.size, K))
        return 1.3 * z + np.log(trained) + bias, y

    train, val = part(1000, trained), part(20 * K, np.full(K, 1 / K))
    target = part(400, rng.dirichlet(np.full(K, 1.0)))
    frequencies = np.bincount(train[1], minlength=K) / train[1].size
    apply = softmax
    if calibrated:
        T, b = port_bcts(*val, frequencies)

        def apply(logits):
            return softmax(logits / T + b)

    return SimpleNamespace(
        K=K,
        logits_val=val[0],
        val=apply(val[0]),
        y_val=val[1],
        target=apply(target[0]),
        source=apply(train[0]).mean(axis=0),
        frequencies=frequencies,
        classes=np.arange(K),
    )


TASKS = {
    f"{K}-{seed}-{'bcts' if calibrated else 'raw'}": (K, seed, calibrated)
    for K, seed, calibrated in [
        *((2, 1, True), (10, 0, False), (40, 1, True)),
    ]
}


@pytest.fixture(scope="module", params=TASKS.values(), ids=TASKS.keys())
def task(request):
    return draw(*request.param)


def released(method, task, **params):
    estimator = ps.get_estimator(method, solver="released", **params)
    given = {"source_priors": task.source, "source_label_priors": task.frequencies}
    return estimator.fit(task.val, task.y_val, classes=task.classes, **given)


METHODS = ["em", "map", "cm-l", "scm-l", "cm-m", "scm-m", "bbse", "bbse-s"]


@pytest.mark.parametrize("method", METHODS)
def test_every_estimator_is_its_port(task, method):
    priors, adapted = port(task, method)
    found = released(method, task).estimate(task.target)
    np.testing.assert_allclose(found.priors, priors, atol=1e-6)
    np.testing.assert_allclose(found.adapt(task.target), adapted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", ["em", "map", "cm-l", "scm-l", "cm-m", "scm-m"])
def test_status_and_gap_are_those_of_the_point_returned(task, method):
    found = released(method, task).estimate(task.target)
    best = ps.get_estimator(method, tol=1e-6).fit(
        task.val, task.y_val, source_priors=task.source, classes=task.classes
    )
    best = best.estimate(task.target)
    shortfall = best.objective - found.objective
    assert -1e-6 <= shortfall <= found.gap + 1e-6
    tol = ps.get_estimator(method).tol
    assert found.status == ("certified" if found.gap <= tol else "not_converged")


# What is peculiar to them


def test_em_and_map_adapt_to_the_iterate_before():
    task = draw(2, 0, False)
    task.target = np.repeat(task.target, 200, axis=0)  # MAP's rate is so small that few rows rest
    for method in ("em", "map"):
        found = released(method, task, max_iter=1000).estimate(task.target)
        before = released(method, task, max_iter=found.n_iter - 1).estimate(task.target)
        np.testing.assert_allclose(found.adapts_to, before.priors, atol=1e-12)
        np.testing.assert_allclose(found.ratio, found.priors / task.source)
        expected = adapt(task, found.adapts_to / task.source)
        np.testing.assert_allclose(found.adapt(task.target), expected, atol=1e-12)
        np.testing.assert_allclose(found.adapter(task.target), expected, atol=1e-12)
        assert "iterate before" in repr(found)
        again = ps.PriorEstimate.from_dict(found.to_dict())
        np.testing.assert_array_equal(again.adapts_to, found.adapts_to)
    # MAP that runs out of steps has no later iterate than the one it adapts to
    assert before.adapts_to is None
    assert released("em", task, max_iter=2).estimate(task.target).adapts_to is not None


@pytest.mark.parametrize("method", ["cm-m", "scm-m"])
def test_a_prior_of_0_ends_the_ascent_at_the_iterate_before(method):
    """One target sample and a far start: the hyper-prior's gradient leads out of the simplex."""
    y_val = np.arange(300) % 3
    val = 0.8 * np.eye(3)[y_val] + 0.2 / 3
    source = np.array([0.5, 0.4999, 1e-4])
    estimator = ps.get_estimator(method, solver="released").fit(val, y_val, source_priors=source)
    found = estimator.estimate(val[:1])
    assert found.status == "not_converged"
    assert (found.n_iter, (found.priors > 0).all()) == (0, True)
    np.testing.assert_allclose(found.priors, source)
    assert found.gap > 1e4


def test_decisions_that_no_class_explains_count_as_frequencies_but_have_no_gradient():
    val = np.eye(3)[[0, 1, 0, 1, 0, 1]]
    fit = {"source_priors": np.array([0.3, 0.3, 0.4]), "classes": [0, 1, 2]}
    estimator = ps.CML(solver="released").fit(val, [0, 1, 2, 2, 0, 1], **fit)
    with pytest.warns(ps.PriorShiftWarning, match="25.00% of the target's decisions"):
        found = estimator.estimate(np.eye(3)[[0, 0, 1, 2]])
    C, q, p = estimator.confusion_.conditional, np.array([0.5, 0.25, 0.25]), fit["source_priors"]
    for i in range(1000):
        seen = C @ p
        g = C.T @ np.where(seen > 0, q / np.where(seen > 0, seen, 1.0), 0.0)
        p = project(p + 1e-4 / 2 ** (i // 50) * g)
    np.testing.assert_allclose(found.priors, p, atol=1e-9)


@pytest.mark.parametrize("cls", [ps.BBSE, ps.BBSES])
def test_bbse_keeps_negative_ratios_to_the_mean_prediction(cls):
    y_val = np.repeat([0, 1], 10)
    val = np.eye(2)[np.repeat([0, 1, 0, 1], [8, 2, 2, 8])]
    given = {"source_priors": [0.6, 0.4], "source_label_priors": [0.5, 0.5]}
    found = cls(solver="released").fit(val, y_val, **given).estimate(np.eye(2)[[0] * 5])
    np.testing.assert_allclose(found.raw, [4 / 3 / 0.6, -1 / 3 / 0.4])
    np.testing.assert_allclose(found.source_priors, [0.6, 0.4])
    row = np.array([0.1, 0.9]) * found.raw
    np.testing.assert_allclose(found.adapt([[0.1, 0.9]]), [row / row.sum()])
    paper = cls(solver="paper").fit(val, y_val, **given).estimate(np.eye(2)[[0] * 5])
    np.testing.assert_allclose(paper.raw, [8 / 3, -2 / 3])
    with pytest.raises(ValueError, match="not constrained"):
        cls(solver="released", constrained=True).fit(val, y_val).estimate(val)


def test_an_unknown_solver_is_refused():
    task = draw(2, 0, False)
    for method in METHODS:
        estimator = ps.get_estimator(method, solver="publish")
        with pytest.raises(ValueError, match="must be one of 'certified', 'paper', 'released'"):
            estimator.fit(task.val, task.y_val).estimate(task.target)


# BCTS


@pytest.mark.parametrize("K", [2, 30])
def test_bcts_is_its_port(K):
    task = draw(K, 3, False)
    T, b = port_bcts(task.logits_val, task.y_val, task.frequencies)
    given = {"source_label_priors": task.frequencies, "classes": task.classes}
    found = ps.BCTS(solver="released", logits=True).fit(task.logits_val, task.y_val, **given)
    assert found.temperature_ == pytest.approx(T, abs=1e-6)
    np.testing.assert_allclose(found.bias_, b, atol=1e-6)
    assert found.n_iter_ == 100
    best = ps.BCTS(balance="weights", logits=True).fit(task.logits_val, task.y_val, **given)
    assert (best.converged_, found.converged_) == (True, False)
    assert best.nll_ < found.nll_
    np.testing.assert_allclose(
        found.predict_proba(task.logits_val), softmax(task.logits_val / T + b), atol=1e-6
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"ridge": 1.0}, "ridge with solver='released' must be one of"),
        ({"solver": "authors"}, "solver must be one of 'optimal', 'released'"),
    ],
)
def test_bcts_refuses_what_does_not_fit(params, message):
    task = draw(2, 0, False)
    with pytest.raises(ValueError, match=message):
        ps.BCTS(**{"solver": "released", "logits": True, **params}).fit(task.logits_val, task.y_val)


def test_a_released_bcts_that_diverges_says_so():
    y = np.arange(60) % 3
    logits = np.random.default_rng(0).normal(size=(60, 3)) * 1e45
    with pytest.raises(ValueError, match="use solver='optimal'"):
        ps.BCTS(solver="released", logits=True).fit(logits, y)


# The authors' notebook


def test_the_check_of_the_notebook_runs_what_it_ran():
    """Outputs with as many validation samples of each class, as in the notebook."""
    rng = np.random.default_rng(0)
    K, trained = 4, np.array([0.6, 0.2, 0.15, 0.05])

    def part(y):
        logits = 2 * (2 * np.eye(K)[y] + rng.normal(size=(y.size, K))) + np.log(trained)
        return logits.astype(np.float32), y

    val, test = part(np.repeat(np.arange(K), 100)), part(np.repeat(np.arange(K), 500))
    train = part(rng.choice(K, 2000, p=trained))
    outputs = StoredOutputs("cifar-100-LT", *(Part(*one) for one in (train, val, test)))
    check = check_published(outputs)
    frequencies = np.bincount(train[1]) / 2000
    T, b = port_bcts(*val, frequencies)
    task = SimpleNamespace(
        K=K,
        val=softmax(val[0] / T + b),
        y_val=val[1],
        target=softmax(test[0] / T + b),
        source=softmax(train[0] / T + b).mean(axis=0),
    )
    assert set(METHODS) < set(PUBLISHED)
    for method in METHODS:
        _, adapted = port(task, method)
        accuracy = 100 * (adapted.argmax(axis=1) == test[1]).mean()
        assert check.accuracy[method] == pytest.approx(accuracy, abs=0.051)
    assert check.accuracy["na"] == pytest.approx(
        100 * (task.target.argmax(axis=1) == test[1]).mean(), abs=0.051
    )
