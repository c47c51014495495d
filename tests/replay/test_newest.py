"""The sampler of the newest block: all of it, once per epoch, in an order drawn anew; nothing else ever."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from hotloop.replay.samplers import newest
from hotloop.replay.store import Window
from tests.replay.writing import Writer


def window(end: int, count: int, lanes: int = 3, slots: int = 20) -> Window:
    return Window(lanes, slots, (end - count) % slots, count, end - count)


def choose(sampler, w: Window, updates: int, batch: int, update: int = 0, seed: int = 1) -> np.ndarray:
    out, weight = np.full((updates, batch), -1, np.int64), np.full((updates, batch), np.nan, np.float32)
    sampler.choose(w, seed, update, out, weight)
    assert (weight == 1).all()
    return out


def fed(*ends: int, lanes: int = 3):
    """A sampler that was told of blocks that end there."""
    sampler = newest.make(newest.Options(), lanes, 20, 1)
    for end in ends:
        sampler.written(window(end, min(end, 18), lanes))
    return sampler


def block_slots(begin: int, end: int, lanes: int = 3, slots: int = 20) -> list[int]:
    return sorted(lane * slots + k % slots for lane in range(lanes) for k in range(begin, end))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 9), st.integers(0, 60), st.integers(1, 4), st.integers(1, 4), st.integers(0, 50))
def test_every_epoch_is_the_whole_block(steps, before, lanes, epochs, cycle):
    sampler = fed(before, before + steps, lanes=lanes)
    block = block_slots(before, before + steps, lanes)
    w = window(before + steps, min(before + steps, 18), lanes)
    update = cycle * epochs * len(block)
    chosen = choose(sampler, w, epochs * len(block), 1, update).reshape(epochs, -1)
    assert [sorted(epoch) for epoch in chosen.tolist()] == [block] * epochs


def test_minibatches_cut_the_epochs_wherever_they_end():
    whole = choose(fed(10, 18), window(18, 18), 24 * 6, 1).reshape(-1)
    for batch in (2, 5, 8, 36):
        found = choose(fed(10, 18), window(18, 18), len(whole) // batch, batch).reshape(-1)
        assert (found == whole[: len(found)]).all()
    parts = [choose(fed(10, 18), window(18, 18), 6, 8, update) for update in (0, 6, 12)]
    assert (np.concatenate(parts).reshape(-1) == whole).all()


def test_orders_differ_by_epoch_and_seed_and_any_is_as_likely():
    sampler, w = fed(0, 2), window(2, 2)
    orders = choose(sampler, w, 6_000, 6)
    assert [sorted(o) for o in orders[:9].tolist()] == [block_slots(0, 2)] * 9
    for place in range(6):
        assert chisquare(np.unique(orders[:, place], return_counts=True)[1]).pvalue > 0.001
    pairs = np.unique(orders[:, :2], axis=0, return_counts=True)[1]
    assert len(pairs) == 30 and chisquare(pairs).pvalue > 0.001
    other = choose(sampler, w, 6_000, 6, seed=2)
    assert (orders == other).mean() < 0.2


def test_only_the_newest_block_and_a_cut_adds_none():
    sampler = fed(5, 9, 13)
    sampler.written(window(13, 13))
    assert sorted(choose(sampler, window(13, 13), 1, 12)[0].tolist()) == block_slots(9, 13)


def test_what_was_displaced_is_not_named():
    sampler = fed(8)
    left = Window(3, 20, 5, 3, 5)
    assert sorted(choose(sampler, left, 1, 9)[0].tolist()) == block_slots(5, 8)


def test_the_capacity_decides_nothing():
    """A replay of one block and one of many name the same transitions in the same order."""
    found = []
    for capacity in (12, 300):
        w = Writer(lanes=2, capacity=capacity)
        sampler = newest.make(newest.Options(), 2, w.store.slots_per_lane, 1)
        for _ in range(4):
            w.write(6)
            sampler.written(w.store.window())
        chosen = choose(sampler, w.store.window(), 3, 8)
        slots = w.store.slots_per_lane
        found.append((chosen // slots, (chosen % slots - 18) % slots))
    assert np.array_equal(found[0], found[1])


def test_nothing_written_nothing_named():
    with pytest.raises(ValueError, match="nothing to sample"):
        choose(fed(), window(0, 0), 1, 4)
