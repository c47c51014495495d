"""The thread beside the main one, and signals that end a cycle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from hotloop.aside import Aside
from hotloop.stop import Stop


def nothing() -> None: ...


def test_calls_run_on_one_other_thread_in_turn():
    began: list[str] = []
    with Aside[int](lambda: began.append(threading.current_thread().name)) as aside:
        for i in range(100):
            aside.start(lambda i=i: i * i if threading.current_thread().name == "learn" else -1)
            assert aside.wait() == i * i
    assert began == ["learn"]
    assert "learn" not in [t.name for t in threading.enumerate()]


def test_it_runs_while_the_main_thread_does_something_else():
    here, there = threading.Event(), threading.Event()
    with Aside[bool](nothing) as aside:
        aside.start(lambda: (there.set(), here.wait(10))[1])
        assert there.wait(10)  # it is under way, and waits for what is done meanwhile
        here.set()
        assert aside.wait() is True


def test_an_error_arrives_where_it_is_waited_for_and_the_thread_lives_on():
    with Aside[int](nothing) as aside:
        aside.start(lambda: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            aside.wait()
        aside.start(lambda: 5)
        assert aside.wait() == 5


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_even_errors_that_are_no_exceptions(error):
    def leave():
        raise error

    with Aside[int](nothing) as aside:
        aside.start(leave)
        with pytest.raises(error):
            aside.wait()


def test_there_is_nothing_to_wait_for_twice():
    with Aside[int](nothing) as aside:
        with pytest.raises(RuntimeError, match="nothing was started"):
            aside.wait()
        aside.start(lambda: 1)
        aside.wait()
        with pytest.raises(RuntimeError, match="nothing was started"):
            aside.wait()


def test_leaving_waits_for_what_is_under_way():
    done = []
    with pytest.raises(ValueError, match="main"), Aside[None](nothing) as aside:
        aside.start(lambda: done.append(1))
        raise ValueError("main")
    assert done == [1]


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
