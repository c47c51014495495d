"""Runs whose lanes are collected by processes: the same bits, whatever happens to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hotloop import checkpoint
from hotloop.collect.collector import NothingLeft
from hotloop.core import toml
from hotloop.core.errors import UserError
from tests import running
from tests.references.hostile_envs import HOWS

ROOT = Path(__file__).parent.parent

OPTIONS = {"total_env_steps": 960, "checkpoint_every_env_steps": 160}


@pytest.mark.parametrize(("workload", "numbers"), [("snake", (1, 2)), ("CartPole-v1", (2,))])
def test_any_number_of_processes_ends_the_same(tmp_path, workload, numbers):
    for workers in (0, *numbers):
        summary = running.train(tmp_path / str(workers), workload, workers=workers)
        assert summary["updates"] > 0
    for workers in numbers:
        running.assert_same(tmp_path / str(workers), tmp_path / "0")


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
    assert np.isin(rewards[~np.isnan(rewards)], (0.0, 1.0, 2.0)).all()  # NaN is memory not yet written to
    assert not summary["exact"]


def test_when_every_worker_is_given_up_the_run_saves_and_ends_with_3(tmp_path):
    (tmp_path / "marks").mkdir()
    options = {
        **running.BASE, "lanes": 4, "workers": 2, "env": {"kwargs": {"always": "segfault", "every": 90}},
        "collect": {"restarts_per_minute": 1},
    }  # fmt: skip
    (tmp_path / "options.toml").write_text(toml.dumps(options))
    words = ("train", HOSTILE, "--run", tmp_path / "run", "--config", tmp_path / "options.toml", "--quiet")
    done = subprocess.run(
        [sys.executable, "-m", "hotloop", *map(str, words)], capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert done.returncode == 3, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("hotloop: none of 2 workers is left to collect from") and "hotloop resume" in last
    assert done.stderr.count("hostile_envs.py") <= 3  # its traceback, once
    saved = checkpoint.load_latest(tmp_path / "run" / "checkpoints")
    assert 640 <= saved.env_steps < 960
    with pytest.raises(NothingLeft):  # the lanes begin anew, and come to the same end later
        running.resume(tmp_path / "run", total_env_steps=9_600)
    assert checkpoint.load_latest(tmp_path / "run" / "checkpoints").env_steps > saved.env_steps


def test_what_cannot_be_made_in_a_child_is_said_with_its_line(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("HOTLOOP_TEST_IMPORT", str(os.getpid()))
    with pytest.raises(UserError, match=r"worker \d .*no_such_library.*only_here.py, line \d+") as refused:
        running.train(tmp_path / "run", "tests.references.only_here:Here", workers=1, lanes=2)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"workers": 5, "lanes": 4}, "cannot be shared equally by workers = 5"),
        ({"workers": 2, "lanes": 4, "collect": {"ring_blocks": 1}}, "collect.ring_blocks = 1: must be at least 2"),
        ({"workers": 2, "lanes": 4, "collect": {"schedule": "lock"}}, "choose one of lockstep, free"),
    ],
)
def test_bad_options_are_refused(options, said):
    with pytest.raises(UserError, match=said):
        running.config("cartpole", **options)


def test_memory_that_is_not_there_is_refused_with_the_sum(tmp_path, monkeypatch):
    monkeypatch.setattr("hotloop.collect.memory.available", lambda: 100_000)
    with pytest.raises(UserError, match=r"shared memory of .* \(ring .* \+ words .*\) is needed, but .* are free"):
        running.train(tmp_path / "run", "snake", workers=1, collect={"ring_blocks": 4_096})


# --- schedules -------------------------------------------------------------------------------------------------------


def test_free_workers_keep_the_samples_per_step_and_say_that_they_are_not_exact(tmp_path):
    shown = running.Rows()
    options = {"workers": 2, "collect": {"schedule": "free", "publish_every_cycles": 2}, "total_env_steps": 1_600}
    summary = running.train(tmp_path / "run", "cartpole", shown, checkpoint_every_env_steps=480, **options)
    assert (summary["env_steps"], summary["samples_per_step"], summary["exact"]) == (1_600, 4.0, False)
    assert max(row["worker_staleness_cycles"] for row in shown.rows) > 0
    assert running.resume(tmp_path / "run", total_env_steps=2_400)["env_steps"] == 2_400


def test_weights_that_are_published_rarely_are_part_of_the_state(tmp_path):
    options = {**OPTIONS, "workers": 2, "collect": {"publish_every_cycles": 4}}
    running.train(tmp_path / "whole", "snake", **options)
    path = tmp_path / "killed"
    assert running.killed(path, 500, signal.SIGKILL, "snake", **options).exitcode == -signal.SIGKILL
    running.resume(path)
    running.assert_same(path, tmp_path / "whole")
    running.train(tmp_path / "often", "snake", **OPTIONS)
    assert running.outcome(tmp_path / "often")[0] != running.outcome(path)[0]
