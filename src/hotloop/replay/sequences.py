"""Sequences: L transitions in a row of one lane, chosen uniformly and gathered like any others, with the places marked
where one episode ends and the next begins. A building block for networks that remember; no run uses it yet."""

from __future__ import annotations

import numpy as np

from hotloop.core.jit import kernel
from hotloop.core.random import SAMPLE, below, stream_key
from hotloop.core.types import Batch
from hotloop.replay.nstep import GOES_ON
from hotloop.replay.store import Store, Window


def choose(window: Window, length: int, seed: int, update: int, slots: np.ndarray) -> None:
    """Fill slots [U, B, L] int64; row u is what update number `update + u` learns from. Every start is as likely as any
    other whose L steps lie in the window."""
    if slots.shape[2] != length or length < 1:
        raise ValueError(f"slots {slots.shape} for sequences of {length}")
    if window.count < length:
        raise ValueError(f"no sequence of {length} steps in {window}")
    _choose(window.lanes, window.slots_per_lane, window.oldest, window.count - length + 1, seed, update, slots)


def gather(store: Store, slots: np.ndarray, batch: Batch, begins: np.ndarray) -> None:
    """The transitions of slots [U, B, L] as a batch of [U, B * L], and begins [U, B, L] bool: whether what came before
    in the sequence was of another episode, or nothing."""
    updates, size, length = slots.shape
    store.gather(slots.reshape(updates, size * length), batch)
    end = store.state()["end"].reshape(-1)
    begins[:, :, 0] = True
    begins[:, :, 1:] = end[slots[:, :, :-1]] != GOES_ON


@kernel
def _choose(lanes, slots_per_lane, oldest, starts, seed, update, slots):
    key = stream_key(seed, SAMPLE, 0)
    for u in range(slots.shape[0]):
        for b in range(slots.shape[1]):
            nth = below(key, update + u, b, lanes * starts)
            lane = nth // starts
            for j in range(slots.shape[2]):
                slots[u, b, j] = lane * slots_per_lane + (oldest + nth - lane * starts + j) % slots_per_lane
