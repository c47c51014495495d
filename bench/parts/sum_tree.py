"""Prioritized: 16 batches of 256 chosen from 100,000 transitions, and as many priorities written back."""

from __future__ import annotations

from collections.abc import Callable


def make() -> Callable[[], object]:
    import numpy as np

    from hotloop.replay.samplers import _base
    from hotloop.replay.store import Window

    lanes, count = 16, 6_250
    sampler = _base.make("prioritized", {}, lanes, count + 50, 1_000_000)
    window = Window(lanes, count + 50, 0, count, 0)
    sampler.written(window)
    slots, weight = np.zeros((16, 256), np.int64), np.zeros((16, 256), np.float32)
    priority = np.random.default_rng(0).exponential(1.0, slots.shape).astype(np.float32)

    def work() -> None:
        for update in range(0, 480, 16):
            sampler.choose(window, 1, update, slots, weight)
            sampler.learned(slots, priority)

    return work
