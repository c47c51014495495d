"""Combined sampling: each new transition once, at once, and the rest as the uniform sampler has it."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from hotloop.replay.samplers import combined, uniform
from hotloop.replay.store import Window
from tests import running
from tests.test_config import fails


def choose(sampler, window: Window, updates: int, batch: int) -> np.ndarray:
    slots, weight = np.full((updates, batch), -1), np.full((updates, batch), np.nan, np.float32)
    sampler.choose(window, 3, 5, slots, weight)
    assert (weight == 1).all()
    return slots


@settings(deadline=None, derandomize=True)
@given(
    lanes=st.integers(1, 5),
    steps=st.lists(st.integers(0, 12), min_size=1, max_size=6),
    updates=st.integers(1, 7),
    batch=st.integers(1, 30),
)
def test_each_of_the_last_block_once_in_order_and_the_rest_uniform(lanes, steps, updates, batch):
    slots_per_lane, most = 30, 25
    sampler = combined.make(combined.Options(), lanes, slots_per_lane, 1)
    total = 20
    sampler.written(Window(lanes, slots_per_lane, 0, total, 0))
    for more in steps:
        before, total = total, total + more
        first = max(0, total - most)
        window = Window(lanes, slots_per_lane, first % slots_per_lane, min(total, most), first)
        sampler.written(window)
        if not more:
            continue
        slots = choose(sampler, window, updates, batch)
        new = [lane * slots_per_lane + k % slots_per_lane for k in range(before, total) for lane in range(lanes)]
        plain = choose(uniform.make(uniform.Options(), 1, 1, 1), window, updates, batch)
        dealt = []
        for u in range(updates):
            share = (u + 1) * len(new) // updates - u * len(new) // updates
            dealt += slots[u, :share].tolist()
            assert slots[u, share:].tolist() == plain[u, share:].tolist()
            assert abs(share - len(new) / updates) < 1
        if len(new) <= updates * (batch - 1):
            assert dealt == new


def test_one_lane_one_step_one_update_is_the_paper_s():
    sampler = combined.make(combined.Options(), 1, 50, 1)
    for k in range(1, 120):
        first = max(0, k - 40)
        window = Window(1, 50, first % 50, min(k, 40), first)
        sampler.written(window)
        assert choose(sampler, window, 1, 8)[0, 0] == (k - 1) % 50


def test_an_episode_that_is_cut_adds_nothing():
    sampler = combined.make(combined.Options(), 1, 50, 1)
    for window in (Window(1, 50, 0, 10, 0), Window(1, 50, 0, 12, 0), Window(1, 50, 11, 1, 11)):
        sampler.written(window)
    assert choose(sampler, window, 1, 4)[0].tolist() == [11] * 4
    assert sampler.state()["known"].tolist() == [10, 12]


@pytest.mark.parametrize("samples", [0.25, 1.0])
def test_too_few_samples_for_the_newest_are_refused(samples):
    base = {**running.BASE, "workload": "identity", "lanes": 16, "cycle_steps": 0}
    said = fails(base, {"samples_per_step": samples, "sampler": {"name": "combined"}})
    assert said.startswith("sampler.name = combined learns from each new transition at once, for which")
    assert f"samples_per_step = {samples:g} leaves no room" in said
