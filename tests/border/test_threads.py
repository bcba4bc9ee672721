"""Rows in parts and threads, while BLAS is held at one thread and let go again."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 - so that SciPy's BLAS is loaded before it is looked at
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from priorshift.border import (
    LockFree,
    map_rows,
    multiply,
    n_threads,
    row_blocks,
    single_threaded_blas,
    threads,
    times,
)

MUCH = 2.0 * threads.SERIAL_WORK
HANGS = 600
"""Seconds after which something hangs rather than waits, however busy the machine is."""
needs_blas_threads = pytest.mark.usefixtures("two_blas_threads")


def blas_threads():
    """Look at NumPy's and SciPy's BLAS; another test may have loaded more, of one thread each."""
    return {
        pool["num_threads"]
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
        and ("numpy" in pool["filepath"] or "scipy" in pool["filepath"])
    }


def hand_back_control():
    """Let every thread set limits: threadpoolctl reserves that to the first until a `with` ends."""
    with ThreadpoolController().limit():
        pass


@pytest.fixture
def two_blas_threads():
    """Give BLAS two threads to take away, whatever the machine has; they must come back."""
    limit = threadpool_limits(limits=2, user_api="blas")
    hand_back_control()
    if blas_threads() != {2}:
        pytest.skip("this BLAS has a single thread")
    yield
    left = blas_threads()
    limit.restore_original_limits()
    hand_back_control()
    assert left == {2}


# map_rows


@given(n_rows=st.integers(0, 100), n_parts=st.integers(1, 12), work=st.sampled_from([1.0, MUCH]))
@settings(max_examples=25)
def test_parts_cover_every_row_once_and_in_order(n_rows, n_parts, work):
    parts = map_rows(lambda rows: list(range(n_rows))[rows], n_rows, work=work, n_parts=n_parts)
    assert [row for part in parts for row in part] == list(range(n_rows))
    assert len(parts) == (n_parts if work == MUCH else 1)


def test_results_come_in_order_though_the_first_part_is_last_to_end(monkeypatch):
    monkeypatch.setattr(threads, "n_threads", lambda: 4)

    ended = [threading.Event() for _ in range(5)]
    ended[4].set()

    def after_the_next(rows):
        ended[rows.start + 1].wait()
        ended[rows.start].set()
        return rows.start

    assert map_rows(after_the_next, 4, work=MUCH, n_parts=4) == [0, 1, 2, 3]


def test_much_work_is_shared_among_threads(monkeypatch):
    monkeypatch.setattr(threads, "n_threads", lambda: 4)
    together = threading.Barrier(4)  # passed only if four kernels run at once
    seen = map_rows(
        lambda _: together.wait() >= 0 and threading.get_ident(), 4, work=MUCH, n_parts=4
    )
    assert len(set(seen)) == 4
    assert threading.get_ident() not in seen


def test_little_work_stays_in_one_piece_and_in_the_callers_thread():
    pieces = map_rows(lambda rows: (rows, threading.get_ident()), 1000, work=100)
    assert pieces == [(slice(0, 1000), threading.get_ident())]


@needs_blas_threads
def test_kernels_run_on_a_single_threaded_blas():
    assert map_rows(lambda _: blas_threads(), 4, work=MUCH, n_parts=2) == [{1}, {1}]


def test_sums_do_not_depend_on_the_number_of_threads(monkeypatch):
    values = np.random.default_rng(0).standard_normal(10_001)
    sums = []
    for n in (1, 2, 5):
        monkeypatch.setattr(threads, "n_threads", lambda n=n: n)
        sums.append(sum(map_rows(lambda rows: float(values[rows].sum()), values.size, work=MUCH)))
    assert sums[0] == sums[1] == sums[2]  # to the last bit
    assert sums[0] == pytest.approx(values.sum())


@needs_blas_threads
def test_an_error_in_a_kernel_reaches_the_caller():
    def fails_on_the_last(rows):
        if rows.stop == 8:
            raise ArithmeticError("the last part")

    with pytest.raises(ArithmeticError, match="the last part"):
        map_rows(fails_on_the_last, 8, work=MUCH)


@needs_blas_threads
def test_map_rows_may_be_nested():
    def outer(rows):
        return sum(
            map_rows(lambda inner: inner.stop - inner.start, rows.stop - rows.start, work=MUCH)
        )

    assert map_rows(outer, 50, work=MUCH, n_parts=3) == [16, 17, 17]


@pytest.mark.parametrize("affinity", [{0}, {0, 3, 5}])
def test_threads_are_those_that_the_process_may_use(monkeypatch, affinity):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: affinity, raising=False)
    assert n_threads() == len(affinity)


@pytest.mark.parametrize(("cpus", "expected"), [(6, 6), (None, 1)])
def test_threads_where_there_is_no_affinity(monkeypatch, cpus, expected):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: cpus)
    assert n_threads() == expected


# single_threaded_blas: the fixture checks that the threads come back


@needs_blas_threads
def test_blas_is_held_and_let_go():
    with single_threaded_blas():
        assert blas_threads() == {1}
    assert blas_threads() == {2}


@needs_blas_threads
def test_nested_holds_let_go_at_the_outermost():
    with single_threaded_blas():
        with single_threaded_blas():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {2}


@needs_blas_threads
def test_an_error_lets_go():
    with pytest.raises(ZeroDivisionError), single_threaded_blas(), single_threaded_blas():
        _ = 1 / 0
    assert blas_threads() == {2}


@needs_blas_threads
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]], ids=["first first", "first in between"])
def test_holds_from_several_threads_let_go_with_the_last(order):
    may_leave, left = ([threading.Event() for _ in range(3)] for _ in range(2))
    entered, end, seen = threading.Event(), threading.Event(), []

    def hold(k):
        with single_threaded_blas():
            entered.set()
            may_leave[k].wait(HANGS)
            seen.append(blas_threads())
        left[k].set()
        end.wait(HANGS)  # alive, as the threads of a pool are

    threads = [threading.Thread(target=hold, args=(k,)) for k in range(3)]
    try:
        for thread in threads:
            entered.clear()
            thread.start()
            assert entered.wait(HANGS)
        for k in order:
            assert blas_threads() == {1}  # whoever entered first, the others still hold
            may_leave[k].set()
            assert left[k].wait(HANGS)
        assert seen == [{1}] * 3
        assert blas_threads() == {2}
    finally:
        end.set()
        for thread in threads:
            thread.join(10)


@needs_blas_threads
def test_one_thread_may_hold_after_another():
    def hold():
        with single_threaded_blas():
            return blas_threads()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(hold).result() == {1}
        assert hold() == {1}  # while the other thread lives
        assert blas_threads() == {2}
        assert pool.submit(hold).result() == {1}


@needs_blas_threads
def test_others_may_limit_blas_afterwards():
    with single_threaded_blas():
        pass

    def limit():
        with threadpool_limits(limits=1, user_api="blas"):
            return blas_threads()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(limit).result() == {1}


@needs_blas_threads
def test_limits_of_the_user_around_a_hold_stay():
    with threadpool_limits(limits=1, user_api="blas"):
        with single_threaded_blas():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {2}


@needs_blas_threads
def test_many_short_holds_at_once():
    seen = []

    def hold_often():
        for _ in range(50):
            with single_threaded_blas():
                seen.append(blas_threads() == {1})

    threads = [threading.Thread(target=hold_often) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 150
    assert all(seen)


# Forks: the child has but one thread, whatever the others were doing


def in_a_child(question):
    """Fork, and return the answer to a question as a number; a child that hangs is killed."""
    child = os.fork()
    if child == 0:
        answer = 99
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(HANGS)
            answer = int(question())
        finally:
            os._exit(answer)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)  # negative: it was killed


def held_again():
    before = blas_threads()
    with single_threaded_blas():
        held = blas_threads()
    return (before, held, blas_threads()) == ({2}, {1}, {2})


def forking(test):
    """Mark a test that forks beside threads, of which Python 3.12 warns."""
    for mark in (
        pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork"),
        pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
        needs_blas_threads,
    ):
        test = mark(test)
    return test


@forking
def test_a_child_is_not_held_by_threads_it_does_not_have():
    entered, end = threading.Event(), threading.Event()

    def hold():
        with single_threaded_blas():
            entered.set()
            end.wait(HANGS)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert entered.wait(HANGS)
        assert in_a_child(held_again) == 1
        assert blas_threads() == {1}  # the parent's thread still holds
    finally:
        end.set()
        thread.join()


@forking
def test_a_child_keeps_the_holds_of_its_own_thread():
    with single_threaded_blas():
        assert in_a_child(lambda: blas_threads() == {1}) == 1
    assert in_a_child(held_again) == 1


ESTIMATING_PARENT = """
import os, threading, warnings
import numpy as np
import priorshift as ps
from priorshift.border import single_threaded_blas
from threadpoolctl import threadpool_info

warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks beside threads
end, y_proba = threading.Event(), np.random.default_rng(0).dirichlet([1, 1, 1], 100)
estimator = ps.EM().fit(source_priors=[0.2, 0.3, 0.5])

def threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

def estimate_on():
    while not end.is_set():
        estimator.estimate(y_proba)

free = threads()
thread = threading.Thread(target=estimate_on)
thread.start()
fine = 0
for _ in range(8):
    child = os.fork()
    if child == 0:
        answer = 9
        try:
            estimator.estimate(y_proba)
            before = threads()
            with single_threaded_blas():
                held = threads()
            answer = int((before, held, threads()) != (free, {1}, free))
        finally:
            os._exit(answer)
    fine += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
end.set()
thread.join()
print(fine)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_children_of_a_process_whose_threads_estimate():
    """Run it in a process that is not traced: coverage's own lock would hang in the child."""
    threads = {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", ESTIMATING_PARENT],
        env={**os.environ, **threads},
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("8", "")


class Slow:
    """A property that says when it is being computed, and ends when it may."""

    def __init__(self, begun, may_end):
        self.begun, self.may_end = begun, may_end

    @LockFree
    def value(self):
        self.begun.set()
        return self.may_end.wait(HANGS)


def test_a_property_of_one_object_does_not_wait_for_another():
    """A lock of the class, held by a thread at a fork, would stop the child for ever."""
    begun, may_end, free = threading.Event(), threading.Event(), threading.Event()
    free.set()
    thread = threading.Thread(target=lambda: Slow(begun, may_end).value)
    thread.start()
    try:
        assert begun.wait(HANGS)
        other = threading.Thread(target=lambda: Slow(threading.Event(), free).value, daemon=True)
        other.start()
        other.join(HANGS / 2)
        assert not other.is_alive()
    finally:
        may_end.set()
        thread.join()
    slow = Slow(threading.Event(), free)
    assert slow.value is slow.value is True


# Products


class Flagging(np.ndarray):
    """Rows whose products are right but raise the flag of invalid values, as a BLAS may."""

    def __matmul__(self, other):
        np.sqrt(np.float32(-1))
        return np.asarray(self) @ np.asarray(other)


def test_a_flag_that_blas_raises_for_nothing_is_no_warning():
    rows = np.arange(15, dtype=np.float32).reshape(3, 5)
    with pytest.warns(RuntimeWarning, match="invalid value"):
        rows.view(Flagging) @ np.ones(5)
    for product in (times, multiply):
        np.testing.assert_array_equal(product(rows.view(Flagging), np.ones(5)), [10, 35, 60])


# Blocks


@given(
    start=st.integers(0, 50),
    n=st.integers(0, 200),
    n_columns=st.integers(1, 40),
    block_bytes=st.integers(1, 4000),
)
@settings(max_examples=60)
def test_blocks_cover_every_row_once_within_their_size(start, n, n_columns, block_bytes):
    blocks = list(row_blocks(slice(start, start + n), n_columns, block_bytes))
    assert [row for block in blocks for row in range(block.start, block.stop)] == list(
        range(start, start + n)
    )
    for block in blocks:
        rows = block.stop - block.start
        assert rows == 1 or 8 * n_columns * rows <= block_bytes
