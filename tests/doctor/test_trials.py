"""A script is re-run with remedies that are switched on and off while it runs; no torch is needed for that."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hotloop.doctor.finding import Trial
from hotloop.doctor.patient import Patient
from hotloop.doctor.script import examined
from hotloop.doctor.trying import gain_of, try_all

SLEEPY = """
import time

class Env:
    def reset(self):
        return 0

    def step(self, action):
        sum(range(20_000))
        return 0, 1.0, False, {}

def slowly(step):
    time.sleep(0.001)
    return step

def broken(step):
    return step

env = Env()
env.reset()
for step in range(10**9):
    env.step(0)
    value = slowly(step)
    names = {"last": broken(step)}
    sum(range(10_000))
    if names is None or len(names) != 1:
        raise ValueError("a cut was felt")
"""
LEFT_OUT = {"kind": "statement", "line": 23, "column": 4, "end": 23, "name": "value = slowly(step)"}


@pytest.fixture
def sleepy(tmp_path: Path) -> Patient:
    script = tmp_path / "sleepy.py"
    script.write_text(SLEEPY)
    return Patient(sys.executable, str(script))


def test_stretches_with_and_without_give_a_gain(sleepy: Patient, tmp_path: Path) -> None:
    file = sleepy.script
    trials = [
        Trial("skip_calls", {"what": ["sleep"]}),
        Trial("cut", {**LEFT_OUT, "file": file}),
        Trial("cut", {"kind": "function", "file": file, "line": 12, "name": "slowly"}),
        Trial("canned_env"),
        Trial("no_gc"),
    ]
    tried = try_all(sleepy, tmp_path / "trials", trials, learning=False, seconds=6.0)
    sleep, statement, function, canned, gc = (tried.gains[i] for i in range(5))
    for gain in (sleep, statement, function):  # more than 1 ms of less than 3
        assert gain.gain > 1.3 and gain.low > 1.1 and gain.rounds >= 5, gain
    assert canned.gain > 1.1
    assert 0.75 < gc.gain < 1.33
    assert not tried.broke
    assert tried.overhead is not None and tried.overhead < 0.5


def test_a_remedy_that_breaks_the_script_is_named_and_the_others_are_tried(sleepy: Patient, tmp_path: Path) -> None:
    """Its gain is not given, though the stretches before the break were fast."""
    script = Path(sleepy.script)
    script.write_text(SLEEPY.replace("len(names) != 1", "value != step"))
    trials = [Trial("cut", {**LEFT_OUT, "file": str(script)}), Trial("skip_calls", {"what": ["sleep"]})]
    tried = try_all(sleepy, tmp_path / "trials", trials, learning=False, seconds=9.0)
    assert list(tried.broke) == [0] and "ValueError: a cut was felt" in tried.broke[0]
    assert 0 not in tried.gains and tried.gains[1].gain > 1.3


def test_a_whole_examination_without_torch(sleepy: Patient) -> None:
    report = examined(sleepy.script, [], duration_s=8.0)
    first = report["findings"][0]
    assert (first["name"], first["line"], first["title"]) == ("waiting", 13, "the script sleeps")
    assert first["measured_gain"] > 1.3 and first["predicted_gain"] > 1.3
    assert report["exit_code"] == 0 and abs(report["shares_sum"] - 1) < 0.02
    assert report["does"]["env_steps"] > 100 and report["does"]["updates"] == 0
    assert report["overhead"] is not None


def test_a_gain_is_a_median_with_its_interval() -> None:
    gain = gain_of([1.0, 1.1, 1.2, 1.3, 9.0])
    assert gain.gain == 1.2 and 1.0 <= gain.low <= 1.2 <= gain.high <= 9.0 and gain.rounds == 5
