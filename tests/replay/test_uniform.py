"""The uniform sampler: every transition equally likely, none outside the window, no state."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from hotloop.replay.samplers import uniform
from hotloop.replay.store import Window

SAMPLER = uniform.make(uniform.Options(), 1, 2, 1)


def choose(window: Window, updates: int = 1, batch: int = 4096, seed: int = 1, update: int = 0) -> np.ndarray:
    out = np.full((updates, batch), -1, np.int64)
    weight = np.full((updates, batch), np.nan, np.float32)
    SAMPLER.choose(window, seed, update, out, weight)
    assert (weight == 1).all()
    return out


@given(
    lanes=st.integers(1, 9),
    slots=st.integers(2, 50),
    oldest=st.integers(0, 10**6),
    count=st.integers(1, 10**6),
    seed=st.integers(0, 2**62),
    update=st.integers(0, 2**40),
)
def test_never_outside_the_window(lanes, slots, oldest, count, seed, update):
    window = Window(lanes, slots, oldest % slots, 1 + count % (slots - 1), oldest)
    chosen = choose(window, 2, 50, seed, update)
    assert (chosen >= 0).all() and (chosen < lanes * slots).all()
    assert (((chosen % slots) - window.oldest) % slots < window.count).all()


def test_every_transition_is_equally_likely():
    window = Window(lanes=5, slots_per_lane=23, oldest=17, count=19, first=1000)
    chosen = choose(window, updates=100, batch=1000)
    counts = np.unique(chosen, return_counts=True)[1]
    assert len(counts) == window.size
    assert chisquare(counts).pvalue > 0.001
    pairs = np.histogram2d(chosen[:, :-1].ravel(), chosen[:, 1:].ravel(), bins=10)[0]  # neighbours are independent
    rows, columns = pairs.sum(1, keepdims=True), pairs.sum(0, keepdims=True)
    assert chisquare(pairs.ravel(), (rows * columns / pairs.sum()).ravel(), ddof=18).pvalue > 0.001


def test_updates_draw_the_same_however_they_are_grouped():
    window = Window(3, 40, 7, 30, 7)
    whole = choose(window, updates=12, batch=32, update=100)
    for u in range(12):
        assert (choose(window, updates=1, batch=32, update=100 + u) == whole[u]).all()
    assert (choose(window, updates=12, batch=8, update=100) == whole[:, :8]).all()
    assert len({tuple(row) for row in whole}) == 12


def test_two_seeds_differ():
    window = Window(3, 400, 7, 300, 7)
    assert (choose(window, seed=1) != choose(window, seed=2)).mean() > 0.9


def test_an_empty_window_has_nothing_to_choose():
    with pytest.raises(ValueError, match="nothing to sample"):
        choose(Window(3, 40, 7, 0, 7))
