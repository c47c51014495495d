"""The thread beside the main one, with the interpreter and without, and signals that end a cycle."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from hotloop import aot, aside
from hotloop.core import atomic
from hotloop.stop import Stop
from hotloop.trace import Trace


@dataclass
class Job:
    """Any callable as a job."""

    call: Any
    result: Any = None

    def run(self) -> None:
        self.result = self.call()


def nothing() -> None: ...


def beside(native: bool = False, begin=nothing, trace: Trace | None = None) -> Any:
    return aside.thread("update", trace or Trace(64), begin, native)


def test_jobs_run_on_one_other_thread_in_turn():
    began: list[str] = []
    with beside(begin=lambda: began.append(threading.current_thread().name)) as other:
        for i in range(100):
            job = Job(lambda i=i: i * i if threading.current_thread().name == "learn" else -1)
            other.start(job)
            other.wait()
            assert job.result == i * i
    assert began == ["learn"]
    assert "learn" not in [t.name for t in threading.enumerate()]


def test_it_runs_while_the_main_thread_does_something_else():
    here, there = threading.Event(), threading.Event()
    with beside() as other:
        other.start(Job(lambda: (there.set(), here.wait(10))[1]))
        assert there.wait(10)  # it is under way, and waits for what is done meanwhile
        here.set()
        other.wait()


def test_an_error_arrives_where_it_is_waited_for_and_the_thread_lives_on():
    with beside() as other:
        other.start(Job(lambda: 1 // 0))
        with pytest.raises(ZeroDivisionError):
            other.wait()
        job = Job(lambda: 5)
        other.start(job)
        other.wait()
        assert job.result == 5


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_even_errors_that_are_no_exceptions(error):
    def leave():
        raise error

    with beside() as other:
        other.start(Job(leave))
        with pytest.raises(error):
            other.wait()


@pytest.fixture(scope="module")
def steps():
    """A compiled function: the state is a running sum, the work some tens of milliseconds."""

    def step(total, x):
        y = x
        for _ in range(6):
            y = (x @ y).tanh()
        return [total + y.sum()]

    made = aot.compiled(
        "steps", step, [torch.zeros(()), torch.eye(700)], {}, fingerprint="aside", threads=1, beside=True
    )
    assert made.native, made.note
    return made


def chain(steps, calls: int) -> Any:
    random = torch.Generator().manual_seed(calls)
    return steps.chain([torch.zeros(())], [[torch.randn(700, 700, generator=random)] for _ in range(calls)])


@pytest.mark.skipif(not atomic.AVAILABLE, reason="waking a sleeping thread without Python is Linux's futex here")
def test_chains_of_native_calls_give_what_they_give_here(steps):
    expected = [chain(steps, calls) for calls in (1, 2, 3)]
    for job in expected:
        job.run()
    with beside(native=True) as other:
        assert type(other).__name__ == "_Native"
        for here in expected:
            there = chain(steps, len(here.words) and here._in.shape[0])
            other.start(there)
            other.wait()
            assert torch.equal(there.results()[-1][0], here.results()[-1][0])


def test_native_calls_begin_although_the_main_thread_never_lets_go_of_the_interpreter(steps):
    """Nobody insists on it for ten seconds; what the thread is asked for is done meanwhile all the same."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(10.0)
    try:
        with beside(native=True) as other:
            job = chain(steps, 1)
            other.start(job)
            done = other._words[aside.DONE : aside.DONE + 1]
            for _ in range(200_000_000):  # a thread that waits for the interpreter would wait until the end of this
                if done[0]:
                    break
            assert done[0] == 1
            other.wait()
    finally:
        sys.setswitchinterval(before)


def test_native_jobs_stand_in_the_trace(steps):
    trace = Trace(64)
    with beside(native=True, trace=trace) as other:
        for _ in range(3):
            job = chain(steps, 2)
            before = trace.clock()
            other.start(job)
            other.wait()
            after = trace.clock()
            job.results()
    (total,) = trace.totals()
    assert (total.track, total.name, total.calls) == ("learn", "update", 3)
    last = list(trace.events())[-1]
    assert before <= last.start_ns <= last.start_ns + last.ns <= after and last.ns > 100_000


def test_a_native_call_that_fails_is_an_error_of_the_one_who_waits(steps, capfd):
    with beside(native=True) as other:
        job = chain(steps, 1)
        kept = job.words[:2].copy()
        job.words[:2] = atomic.address_of(ctypes.CDLL(None).abs), -7  # a function that answers with a status: 7
        other.start(job)
        with pytest.raises(RuntimeError, match="compiled function failed"):
            other.wait()
        job.words[:2] = kept
        other.start(job)
        other.wait()
        assert torch.isfinite(job.results()[0][0])


@pytest.mark.parametrize("native", [False, True])
def test_parts_are_run_once_each_whoever_runs_them(steps, native):
    expected = [chain(steps, calls) for calls in (1, 2, 3, 1, 2)]
    for job in expected:
        job.run()
    trace = Trace(64)
    trace.track("main")
    with beside(native=native, trace=trace) as other:
        for _ in range(3):
            parts = aside.Parts((chain(steps, calls) for calls in (1, 2, 3, 1, 2)), 5)
            other.start(parts)
            other.wait()
            for here, there in zip(expected, parts.jobs, strict=True):
                assert torch.equal(there.results()[-1][0], here.results()[-1][0])
            expected = [chain(steps, calls) for calls in (1, 2, 3, 1, 2)]
            aside.Parts(expected, 5).run()
    tracks = {t.track: t.calls for t in trace.totals()}
    assert tracks == ({"main": 3, "learn": 3} if native else {"learn": 3})


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("made", [0, 2])
def test_a_part_that_cannot_be_made_is_an_error_at_once_and_leaves_the_thread_alive(steps, native, made):
    def making():
        for _ in range(made):
            yield chain(steps, 1)
        raise ValueError("no batch")

    with beside(native=native) as other:
        with pytest.raises(ValueError, match="no batch"):
            other.start(aside.Parts(making(), 4))
        job = chain(steps, 1)
        other.start(job)
        other.wait()
        assert torch.isfinite(job.results()[0][0])


def test_a_part_that_fails_is_told_whoever_ran_it(steps, capfd):
    with beside(native=True) as other:
        jobs = [chain(steps, 1) for _ in range(3)]
        for failing in range(3):
            jobs[failing].words[:2] = atomic.address_of(ctypes.CDLL(None).abs), -7
            other.start(aside.Parts(jobs, 3))
            with pytest.raises(RuntimeError, match="compiled function failed"):
                other.wait()
            for good in (j for j in jobs if j is not jobs[failing]):
                good.results()
            jobs = [chain(steps, 1) for _ in range(3)]


@pytest.mark.parametrize("native", [False, True])
def test_there_is_nothing_to_wait_for_twice(native, steps):
    with beside(native=native) as other:
        with pytest.raises(RuntimeError, match="nothing was started"):
            other.wait()
        other.start(chain(steps, 1))
        other.wait()
        with pytest.raises(RuntimeError, match="nothing was started"):
            other.wait()


@pytest.mark.parametrize("native", [False, True])
def test_leaving_waits_for_what_is_under_way(native, steps):
    job = chain(steps, 3)
    with pytest.raises(ValueError, match="main"), beside(native=native) as other:
        other.start(job)
        raise ValueError("main")
    assert torch.isfinite(job.results()[-1][0])


# --- signals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_and_does_nothing_else(number):
    before = signal.getsignal(number)
    with Stop() as stop:
        assert not stop.asked and stop.signal is None
        os.kill(os.getpid(), number)
        assert stop.asked and stop.signal == number
    assert signal.getsignal(number) is before


def test_handlers_come_back_after_an_error():
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(ValueError), Stop():
        raise ValueError
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize(("second", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_second_signal_leaves_at_once(second, code):
    script = (
        "import os, signal\nfrom hotloop.stop import Stop\n"
        "with Stop():\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n    print('asked', flush=True)\n"
        f"    os.kill(os.getpid(), signal.{second})\n    print('still here', flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (code, "asked\n", "")


def test_in_another_thread_it_sets_no_handlers():
    seen = []

    def run():
        with Stop() as stop:
            seen.append((stop.asked, signal.getsignal(signal.SIGINT)))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [(False, before)]
