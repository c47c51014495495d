"""Sequences against the naive model: consecutive steps of one lane, all of them in the window, boundaries marked."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import chisquare

from hotloop.core.schema import new_batch
from hotloop.replay import sequences
from hotloop.replay.store import Window
from tests.references.replay import differences
from tests.replay.writing import PARTS, PLAIN, Writer


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    observation=st.sampled_from([PLAIN, PARTS]),
    lanes=st.integers(1, 3),
    n_step=st.sampled_from([1, 3]),
    masked=st.booleans(),
    length=st.integers(1, 9),
    blocks=st.lists(st.integers(1, 20), min_size=1, max_size=4),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_sequence_is_what_one_lane_saw(observation, lanes, n_step, masked, length, blocks, seed):
    w = Writer(observation, lanes=lanes, capacity=25 * lanes, n_step=n_step, masked=masked, seed=seed)
    for steps in blocks:
        w.write(steps, 0.1, 0.2)
    window, inside = w.store.window(), set(w.model.sampleable())
    slots = np.full((1, 6, length), -1)
    if window.count < length:
        with pytest.raises(ValueError, match=f"no sequence of {length} steps"):
            sequences.choose(window, length, seed, 0, slots)
        return
    sequences.choose(window, length, seed, 0, slots)
    batch, begins = new_batch(w.spec, 1, 6 * length), np.zeros((1, 6, length), bool)
    sequences.gather(w.store, slots, batch, begins)
    step_of = {lane * window.slots_per_lane + k % window.slots_per_lane: (lane, k) for lane, k in inside}
    for b in range(6):
        lane, start = step_of[int(slots[0, b, 0])]
        for j in range(length):
            assert step_of[int(slots[0, b, j])] == (lane, start + j)
            assert differences(batch, b * length + j, w.model.sample(lane, start + j)) == []
            assert begins[0, b, j] == (j == 0 or w.model.history[lane][start + j - 1].end != "")


def test_every_start_is_equally_likely_and_updates_draw_the_same_however_grouped():
    window = Window(lanes=3, slots_per_lane=23, oldest=17, count=19, first=40)
    slots = np.zeros((50, 400, 5), np.int64)
    sequences.choose(window, 5, 1, 7, slots)
    counts = np.unique(slots[:, :, 0], return_counts=True)[1]
    assert len(counts) == 3 * 15 and chisquare(counts).pvalue > 0.001
    for u in (0, 49):
        row = np.zeros((1, 400, 5), np.int64)
        sequences.choose(window, 5, 1, 7 + u, row)
        assert np.array_equal(row[0], slots[u])


def test_room_of_another_length_is_refused():
    with pytest.raises(ValueError, match="for sequences of 4"):
        sequences.choose(Window(1, 9, 0, 8, 0), 4, 0, 0, np.zeros((1, 2, 3), np.int64))
