"""Every transition in the window is as likely as any other, with replacement. Draws are keyed by (seed, number of
the update, place in the batch), so there is no state, and no matter how updates are grouped into calls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hotloop.core.jit import kernel
from hotloop.core.random import SAMPLE, below, stream_key
from hotloop.replay.store import Window


@dataclass(frozen=True)
class Options:
    """Nothing to choose."""


def choose(window: Window, seed: int, update: int, out: np.ndarray) -> None:
    """Fill `out` [U, B] int64 with slots; row u is what update number `update + u` learns from."""
    if window.count == 0 and out.size:  # no draw from nothing is fine: so a run compiles this before its first step
        raise ValueError(f"nothing to sample from in {window}")
    _choose(window.lanes, window.slots_per_lane, window.oldest, window.count, seed, update, out)


@kernel
def _choose(lanes, slots_per_lane, oldest, count, seed, update, out):
    key = stream_key(seed, SAMPLE, 0)
    for u in range(out.shape[0]):
        for b in range(out.shape[1]):
            nth = below(key, update + u, b, lanes * count)
            lane = nth // count
            position = oldest + nth - lane * count
            if position >= slots_per_lane:
                position -= slots_per_lane
            out[u, b] = lane * slots_per_lane + position
