"""Every transition in the window is as likely as any other, with replacement. Draws are keyed by (seed, number of
the update, place in the batch), so there is no state, and no matter how updates are grouped into calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hotloop.core.jit import kernel
from hotloop.core.random import SAMPLE, below, stream_key
from hotloop.core.types import Arrays
from hotloop.replay.samplers._base import Sampler
from hotloop.replay.store import Window


@dataclass(frozen=True)
class Options:
    """Nothing to choose."""


def make(options: Options, lanes: int, slots_per_lane: int, total_env_steps: int) -> Sampler:
    return _Uniform()


class _Uniform:
    def choose(self, window: Window, seed: int, update: int, slots: np.ndarray, weight: np.ndarray) -> None:
        if window.count == 0 and slots.size:  # no draw from nothing is fine: so a run compiles this before it starts
            raise ValueError(f"nothing to sample from in {window}")
        choose_uniformly(window.lanes, window.slots_per_lane, window.oldest, window.count, seed, update, slots)
        weight.fill(1.0)

    def written(self, window: Window) -> None:
        """Nothing to keep."""

    def learned(self, slots: np.ndarray, priority: np.ndarray) -> None:
        """All stay alike."""

    def state(self) -> Arrays:
        return {}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        """There is none."""

    def check_valid(self) -> tuple[bool, str]:
        return True, ""


@kernel
def choose_uniformly(lanes, slots_per_lane, oldest, count, seed, update, slots):
    """slots [U, B] int64"""
    key = stream_key(seed, SAMPLE, 0)
    for u in range(slots.shape[0]):
        for b in range(slots.shape[1]):
            nth = below(key, update + u, b, lanes * count)
            lane = nth // count
            position = oldest + nth - lane * count
            if position >= slots_per_lane:
                position -= slots_per_lane
            slots[u, b] = lane * slots_per_lane + position
