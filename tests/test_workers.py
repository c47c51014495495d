"""Runs whose lanes are collected by processes: the same bits, whatever happens to them."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest

from tests import running
from tests.references.hostile_envs import HOWS

ROOT = Path(__file__).parent.parent

OPTIONS = {"total_env_steps": 960, "checkpoint_every_env_steps": 160}


@pytest.mark.parametrize("workload", ["snake", "CartPole-v1"])
def test_any_number_of_processes_ends_the_same(tmp_path, workload):
    for workers in (0, 1, 2):
        summary = running.train(tmp_path / str(workers), workload, workers=workers)
        assert summary["updates"] > 0
    running.assert_same(tmp_path / "1", tmp_path / "0")
    running.assert_same(tmp_path / "2", tmp_path / "0")


def test_killed_and_resumed_with_processes_it_ends_the_same(tmp_path):
    running.train(tmp_path / "whole", "snake", **OPTIONS)
    path = tmp_path / "killed"
    assert running.killed(path, 500, signal.SIGKILL, "snake", workers=2, **OPTIONS).exitcode == -signal.SIGKILL
    running.resume(path)
    running.assert_same(path, tmp_path / "whole")


# --- environments that misbehave -------------------------------------------------------------------------------------

HOSTILE = "tests.references.hostile_envs:Hostile"
PLACED = dict.fromkeys(("raise", "shape", "dtype", "nan", "none"), ("lane ", "step ", "seed ", "action "))
GOES_ON = ("gigabyte", "out of range")  # nothing that a worker would have to die of
SAYS = {
    "raise": "ZeroDivisionError: the ball has left the court",
    "exit": "SystemExit: 3",
    "os_exit": "ended by itself with exit code 0 in step",
    "segfault": "was killed by SIGSEGV in step",
    "abort": "was killed by SIGABRT in step",
    "kill": "was killed by SIGKILL in step",
    "hang": "did not come back from step",
    "stop": "did not come back from step",
    "shape": "shape (1,)",
    "dtype": "dtype <U1",
    "nan": "NaN in observation 'obs'",
    "infinite reward": "reward inf",
    "none": "dtype object",
    "recurse": "RecursionError",
    "interrupt": "KeyboardInterrupt",
    "close": "ended by itself",
}


def test_whatever_an_environment_does_the_run_goes_on(tmp_path, monkeypatch):
    """Each way once, in some lane of two workers: it is told once, and no env step is unaccounted for."""
    monkeypatch.chdir(ROOT)
    shown, marks = running.Rows(), tmp_path / "marks"
    marks.mkdir()
    summary = running.train(
        tmp_path / "run", HOSTILE, shown, workers=2, lanes=4, env={"kwargs": {"marks": str(marks)}},
        total_env_steps=3_200, evaluate_episodes=1, collect={"deadline_s": 1.0, "restarts_per_minute": 100},
    )  # fmt: skip
    assert summary["env_steps"] == 3_200 and summary["samples_per_step"] == 4.0
    assert sorted(path.name for path in marks.iterdir()) == sorted(HOWS)
    last = shown.rows[-1]
    assert last["worker_restarts"] == len(HOWS) - len(GOES_ON), shown.notes
    for how in HOWS:
        told = [text for text in shown.notes if how not in GOES_ON and SAYS[how] in text]
        assert len(told) == (how not in GOES_ON), how
        assert how not in ("raise", "segfault", "hang") or "hostile_envs.py" in told[0]  # where it was
        assert all(word in told[0] for word in PLACED.get(how, ())), told[0]
    assert len(shown.notes) == len(HOWS) - len(GOES_ON) - 2  # being stopped looks like hanging, and so on
    for seat, produced in last["worker_produced"].items():
        places = ("worker_stored", "worker_in_flight", "worker_dropped", "worker_lost")
        assert produced == sum(last[place][seat] for place in places)
    rewards = running.arrays(tmp_path / "run")["store.reward"]
    assert np.isin(rewards, (0.0, 1.0, 2.0)).all()
    assert not summary["exact"]
