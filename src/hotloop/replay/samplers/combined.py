"""Uniform, but every transition is also learnt from as soon as it is known (combined experience replay, Zhang and
Sutton 2017, arXiv 1712.01275). The newest ones, those of the last block, are dealt out over the batches of the cycle,
oldest first: of T × lanes new ones and U updates each batch begins with T × lanes / U; the rest of it is uniform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hotloop.core.jit import kernel
from hotloop.core.types import Arrays
from hotloop.replay.samplers._base import Sampler
from hotloop.replay.samplers.uniform import choose_uniformly
from hotloop.replay.store import Window


@dataclass(frozen=True)
class Options:
    """Nothing to choose."""


def make(options: Options, lanes: int, slots_per_lane: int, total_env_steps: int) -> Sampler:
    return _Combined()


class _Combined:
    def __init__(self) -> None:
        self._known = np.zeros(2, np.int64)  # steps per lane that were known before the last block, and with it

    def choose(self, window: Window, seed: int, update: int, slots: np.ndarray, weight: np.ndarray) -> None:
        if window.count == 0 and slots.size:
            raise ValueError(f"nothing to sample from in {window}")
        choose_uniformly(window.lanes, window.slots_per_lane, window.oldest, window.count, seed, update, slots)
        begin, end = max(window.first, int(self._known[0])), int(self._known[1])
        _deal(window.lanes, window.slots_per_lane, begin, end, slots)
        weight.fill(1.0)

    def written(self, window: Window) -> None:
        end = window.first + window.count
        if end != self._known[1]:  # an episode that is cut adds nothing
            self._known[:] = self._known[1], end

    def learned(self, slots: np.ndarray, priority: np.ndarray) -> None:
        """All stay alike."""

    def state(self) -> Arrays:
        return {"known": self._known}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        np.copyto(self._known, state["known"])

    def check_valid(self) -> tuple[bool, str]:
        before, now = self._known
        return (True, "") if 0 <= before <= now else (False, f"{now} steps after {before}")


@kernel
def _deal(lanes, slots_per_lane, begin, end, slots):
    """Steps begin … end - 1 of every lane, in order of time, over the rows of slots [U, B], as evenly as it goes."""
    new, (updates, size) = (end - begin) * lanes, slots.shape
    for u in range(updates):
        low, high = u * new // updates, (u + 1) * new // updates
        for b in range(min(size, high - low)):
            nth = low + b
            slots[u, b] = nth % lanes * slots_per_lane + (begin + nth // lanes) % slots_per_lane
