"""Figures of a run, by a clock that moves only when told."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.collect.episodes import Finished
from hotloop.core.clock import FakeClock
from hotloop.meter import Meter, Spent
from hotloop.trace import Trace

MS = 1_000_000


def ended(*returns: float) -> Finished:
    """Episodes as long as their return, whose one measure is twice as much."""
    values = np.array(returns)
    return Finished(
        values, values.astype(np.int64), 2 * values[:, None].astype(np.float32), np.zeros(len(values), np.int64)
    )


def learnt(*losses: float, applied: float = 1.0) -> np.ndarray:
    return np.array([[x, 2 * x, 3 * x, applied] for x in losses], np.float32)


@pytest.fixture
def meter():
    clock = FakeClock()
    clock.advance(5_000 * MS)
    meter = Meter(("twice",), clock)
    clock.advance(3_000 * MS)  # warming up is not training
    meter.start(0, 0)
    meter.clock = clock  # type: ignore[attr-defined]
    return meter


def test_a_row_is_what_happened_since_the_last(meter):
    meter.clock.advance(20 * MS)
    meter.cycle(100, ended(3.0, 5.0), None)
    assert meter.row(100, 0) == {
        "env_steps": 100,
        "updates": 0,
        "seconds": 0.02,
        "env_steps_per_s": 5_000.0,
        "updates_per_s": 0.0,
        "episodes": 2,
        "loss": None,
        "q": None,
        "grad_norm": None,
        "return_mean": 4.0,
        "return_ci": pytest.approx([4 - 1.96 * 2**0.5 / 2**0.5, 4 + 1.96 * 2**0.5 / 2**0.5]),
        "length_mean": 4.0,
        "twice": 8.0,
    }
    meter.clock.advance(10 * MS)
    meter.cycle(200, ended(), learnt(1.0, 2.0))
    meter.clock.advance(30 * MS)
    meter.cycle(300, ended(10.0), learnt(6.0))
    row = meter.row(300, 3)
    assert (row["env_steps_per_s"], row["updates_per_s"], row["seconds"]) == (5_000.0, 75.0, 0.06)
    assert (row["loss"], row["q"], row["grad_norm"]) == (3.0, 6.0, 9.0)
    assert (row["episodes"], row["return_mean"]) == (3, 6.0)
    meter.clock.advance(MS)
    assert meter.row(300, 3)["loss"] is None


def test_updates_that_were_refused_are_in_no_mean(meter):
    meter.cycle(100, ended(), np.concatenate([learnt(2.0), learnt(np.nan, applied=0.0), learnt(4.0)]))
    assert meter.row(100, 3)["loss"] == 3.0
    meter.cycle(200, ended(), learnt(np.nan, applied=0.0))
    assert meter.row(200, 4)["loss"] is None


def test_an_episode_that_says_nothing_of_a_measure_is_in_no_mean_of_it(meter):
    life, game = ended(3.0), ended(5.0)
    life.measures[:] = np.nan
    meter.cycle(100, life, None)
    assert (meter.row(100, 0)["return_mean"], meter.row(100, 0)["twice"]) == (3.0, None)
    meter.cycle(200, game, None)
    assert (meter.row(200, 0)["return_mean"], meter.row(200, 0)["twice"]) == (4.0, 10.0)


def test_the_newest_hundred_episodes_count(meter):
    meter.cycle(1, ended(*range(80)), None)
    meter.cycle(2, ended(*range(80, 250)), None)
    meter.cycle(3, ended(1_000.0), None)
    row = meter.row(3, 0)
    assert row["episodes"] == 251
    assert row["return_mean"] == (sum(range(151, 250)) + 1_000) / 100


def test_no_episode_has_no_mean(meter):
    row = meter.row(10, 0)
    assert (row["return_mean"], row["length_mean"], row["twice"]) == (None, None, None)


def test_pauses_are_not_training(meter):
    meter.clock.advance(10 * MS)
    with meter.pause("evaluate"):
        meter.clock.advance(700 * MS)
    with meter.pause("checkpoint"):
        meter.clock.advance(5 * MS)
    with meter.pause("evaluate"):
        meter.clock.advance(100 * MS)
    meter.clock.advance(10 * MS)
    row = meter.row(100, 0)
    assert (row["seconds"], row["env_steps_per_s"]) == (0.02, 5_000.0)
    assert meter.paused == pytest.approx({"evaluate": 0.8, "checkpoint": 0.005})


def test_after_the_end_nothing_is_training(meter):
    meter.clock.advance(10 * MS)
    meter.end()
    with meter.pause("evaluate"):
        meter.clock.advance(500 * MS)
    meter.clock.advance(70 * MS)
    assert meter.now() == 10 * MS
    assert meter.paused == {"evaluate": 0.5}


def test_speed_is_that_of_the_learning_phase(meter):
    meter.clock.advance(1_000 * MS)
    meter.cycle(10, ended(), None)  # filling the replay, which is not learning
    for i in range(41):
        meter.clock.advance((20 if 0 < i <= 2 else 10) * MS)
        meter.cycle(20 + 10 * i, ended(), learnt(1.0))
    speed = meter.speed()
    assert speed["env_steps_per_s"] == pytest.approx(400 / 0.42)
    assert len(speed["env_steps_per_s_windows"]) == 20
    assert speed["env_steps_per_s_windows"] == [500.0] + [1_000.0] * 19
    assert speed["first_window_ratio"] == 0.5


@pytest.mark.parametrize("cycles", [0, 1])
def test_a_run_too_short_has_no_speed(meter, cycles):
    for _ in range(cycles):
        meter.cycle(10, ended(), learnt(1.0))
    assert meter.speed() == {"env_steps_per_s": None, "first_window_ratio": None, "env_steps_per_s_windows": []}


def test_a_long_run_takes_no_more_memory_and_keeps_its_speed(meter):
    for i in range(20_000):
        meter.clock.advance(MS)
        meter.cycle(10 * i, ended(), learnt(1.0))
    assert len(meter._marks) < 4_096
    speed = meter.speed()
    assert speed["env_steps_per_s"] == pytest.approx(10_000.0)
    assert speed["first_window_ratio"] == pytest.approx(1.0)
    assert len(speed["env_steps_per_s_windows"]) == 20


def test_a_clock_that_stands_still_divides_by_nothing(meter):
    meter.cycle(10, ended(), learnt(1.0))
    meter.cycle(20, ended(), learnt(1.0))
    assert meter.row(20, 2)["env_steps_per_s"] > 0
    assert np.isfinite(meter.speed()["env_steps_per_s"])


cycles = st.lists(
    st.tuples(st.lists(st.integers(0, 50).map(float), max_size=150), st.lists(st.floats(-9, 9, width=32)))
)


@given(cycles, cycles)
def test_rows_after_a_resume_are_those_of_a_run_that_went_on(before, after):
    def feed(meter: Meter, what: list, steps: int) -> int:
        for returns, losses in what:
            steps += 10
            meter.clock.advance(MS)  # type: ignore[attr-defined]
            meter.cycle(steps, ended(*returns), learnt(*losses) if losses else None)
        return steps

    clock, again = FakeClock(), FakeClock()
    whole = Meter(("twice",), clock)
    whole.clock = clock  # type: ignore[attr-defined]
    whole.start(0, 0)
    steps = feed(whole, before, 0)
    saved = json.loads(json.dumps(whole.state()))
    resumed = Meter(("twice",), again)
    resumed.clock = again  # type: ignore[attr-defined]
    resumed.set_state(saved)
    resumed.start(steps, 7)
    ends = [feed(meter, after, steps) for meter in (whole, resumed)]
    rows = [meter.row(end, 9) for meter, end in zip((whole, resumed), ends, strict=True)]
    for row in rows:
        del row["env_steps_per_s"], row["updates_per_s"]
    assert rows[0] == rows[1]


def test_time_of_sections_between_two_rows_and_none_twice():
    ticks = iter(range(0, 10**9, 1_000_000))
    trace = Trace(16, clock=lambda: next(ticks))
    trace.track("main")
    spent, act = Spent(trace), trace.section("act")
    with act:
        pass
    assert spent.since_last() == {"main/act": 0.001}
    assert spent.since_last() == {"main/act": 0.0}
    for _ in range(3):
        with act:
            pass
    assert spent.since_last() == {"main/act": 0.003}
