"""The report over time: one page, its numbers those of the monitor."""

from datetime import UTC, datetime

import numpy as np
import pytest

from priorshift.monitor import MonitorHistory, PriorMonitor
from priorshift.report._monitor import MAX_STEPS, render_monitor_report

CREATED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HOSTILE = ["<script>alert(1)</script>", "</script><!--", "$5 & 'more'"]


def followed(classes, n_steps=12, acknowledged=None, **parameters):
    rng = np.random.default_rng(5)
    means = 2 * rng.standard_normal((3, 4))

    def draw(priors, n):
        y = rng.choice(3, n, p=priors)
        z = (means[y] + rng.standard_normal((n, 4))) @ means.T - 0.5 * (means**2).sum(axis=1)
        proba = np.exp(z - z.max(axis=1, keepdims=True))
        return proba / proba.sum(axis=1, keepdims=True), y

    y_proba, y = draw([0.5, 0.3, 0.2], 600)
    monitor = PriorMonitor(random_state=0, **parameters)
    monitor.fit(y_proba, np.asarray(classes)[y], classes=classes)
    for t in range(n_steps):
        if t == acknowledged:
            monitor.acknowledge()
        priors = [0.5, 0.3, 0.2] if t < 6 else [0.1, 0.2, 0.7]
        monitor.update(draw(priors, 150)[0], time=f"2026-03-{t + 1:02}")
    return monitor


@pytest.fixture(scope="module")
def monitor():
    return followed(["ant", "bee", "cow"])


@pytest.fixture(scope="module")
def html(monitor):
    return render_monitor_report(
        monitor,
        title="Animals",
        command="priorshift monitor --target days",
        warnings=["look here", "look here"],
        created=CREATED,
    )


def test_the_page_has_the_numbers_of_the_history(monitor, html, read):
    page, history = read(html), monitor.history
    steps = page.column("steps-table", "Alarm")
    assert list(steps) == list(history.time)[::-1]
    raised = history.time[int(np.flatnonzero(history.raised)[0])]
    assert steps[raised].startswith("alarm, p = ")
    evidence = page.values("steps-table", "Evidence, nats")
    np.testing.assert_allclose(list(evidence.values())[::-1], history.log_e_value, rtol=1e-4)
    now = page.values("priors-table", "Now")
    np.testing.assert_allclose(list(now.values()), history.priors[-1], rtol=1e-4)
    assert page.data["steps"]["priors"] == history.priors.tolist()
    assert page.data["steps"]["raised"] == history.raised.tolist()
    assert page.data["classes"] == ["ant", "bee", "cow"]


def test_the_page_says_how_things_stand(monitor, html):
    history = monitor.history
    at = history.time[int(np.flatnonzero(history.raised)[0])]
    assert f"An alarm stands since {at}" in html
    assert "over all time, is at most 5%" in html
    assert html.count("look here") == 2  # once to read, once as data
    assert "priorshift monitor --target days" in html
    assert "<h1>Animals</h1>" in html


def test_a_quiet_stream_has_no_alarm():
    html = render_monitor_report(followed(["a", "b", "c"], n_steps=4, online="window"))
    assert "No alarm in 4 steps." in html
    assert "the mean of the last batches" in html


def test_an_acknowledged_alarm_is_past():
    html = render_monitor_report(followed(["ant", "bee", "cow"], 14, acknowledged=12))
    assert "No alarm stands after 14 steps; 1 earlier one ended." in html


def test_long_streams_show_their_last_steps(read):
    n = MAX_STEPS + 50
    rng = np.random.default_rng(0)
    history = MonitorHistory(
        method="scm-l",
        online="flh-ftl",
        classes=np.array(["a", "b"]),
        source_priors=np.array([0.5, 0.5]),
        alarm_level=0.05,
        index=np.arange(n),
        time=(None,) * n,
        n_samples=np.full(n, 10),
        priors=rng.dirichlet([5, 5], n),
        own_priors=rng.dirichlet([5, 5], n),
        log_e_value=np.zeros(n),
        p_value=np.ones(n),
        alarm=np.zeros(n, bool),
        raised=np.zeros(n, bool),
    )
    page = read(render_monitor_report(history))
    rows = page.tables["steps-table"][1:]
    assert len(rows) == MAX_STEPS
    assert rows[0][0][0] == f"step {n - 1}"
    assert len(page.data["steps"]["index"]) == MAX_STEPS
    assert page.data["n_steps"] == n


def test_there_must_be_a_step():
    with pytest.raises(ValueError, match="there is no step to report on"):
        render_monitor_report(followed(["a", "b", "c"], n_steps=0))
