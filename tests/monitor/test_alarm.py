"""Alarms: rarely false over all time, soon where something changed."""

import numpy as np
import pytest

from priorshift.monitor._alarm import Alarm, batch_scores, log_evidence, n_scores


def test_an_alarm_follows_one_stream_as_many_are_followed(rng):
    q = np.array([0.5, 0.3, 0.2])
    batches = rng.multinomial(40, q, size=(30, 1)).astype(float)
    reference = rng.multinomial(100, q).astype(float)
    alarm = Alarm.against(reference, np.log(20), seed=5)
    before, sums, rows = reference, np.zeros((30, 1, n_scores(3))), np.zeros(30)
    for t, counts in enumerate(batches[:, 0]):
        alarm = alarm.add(counts)
        scores = batch_scores(counts, before, np.random.default_rng([5, 0, t]))
        sums[: t + 1] += np.sqrt(40) * scores
        rows[: t + 1] += 40
        before = before + counts
    alive = alarm.pools.starts
    found = log_evidence(alive, sums[alive], rows[alive], 3)
    assert alarm.log_e_value == pytest.approx(float(found[0]))


@pytest.mark.parametrize(("change_at", "most"), [(0, 4), (60, 4)])
def test_a_shift_is_noticed_soon(change_at, most, rng):
    before, after = np.array([0.5, 0.3, 0.2]), np.array([0.3, 0.3, 0.4])
    delays = []
    for seed in range(10):
        alarm = Alarm.against(rng.multinomial(1000, before).astype(float), np.log(20), seed)
        for t in range(change_at + 30):
            counts = rng.multinomial(100, after if t >= change_at else before)
            alarm = alarm.add(counts.astype(float))
            if alarm.standing:
                break
        delays.append(t - change_at + 1)
    assert min(delays) >= 1
    assert np.median(delays) <= most


def test_one_class_among_many_is_noticed(rng):
    K = 100
    before = np.full(K, 1 / K)
    after = before + 0.1 * (np.eye(K)[7] - before)
    alarm = Alarm.against(rng.multinomial(5000, before).astype(float), np.log(20), 0)
    for _ in range(5):
        alarm = alarm.add(rng.multinomial(200, before).astype(float))
    assert not alarm.standing
    for _ in range(3):
        alarm = alarm.add(rng.multinomial(200, after).astype(float))
    assert alarm.standing


def test_an_acknowledged_shift_is_the_new_normal(rng):
    first, second = np.array([0.7, 0.3]), np.array([0.3, 0.7])
    alarm = Alarm.against(rng.multinomial(500, first).astype(float), np.log(20), 3)
    for _ in range(20):
        alarm = alarm.add(rng.multinomial(100, second).astype(float))
    assert alarm.standing
    alarm = alarm.acknowledge()
    assert not alarm.standing
    assert alarm.run == 1
    assert alarm.before.sum() > 1000  # what came since the alarm
    for _ in range(50):
        alarm = alarm.add(rng.multinomial(100, second).astype(float))
    assert not alarm.standing
    for _ in range(5):
        alarm = alarm.add(rng.multinomial(100, first).astype(float))
    assert alarm.standing
