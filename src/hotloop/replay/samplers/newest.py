"""The block committed last, whole, in an order drawn anew for every epoch: all of it is learnt from samples_per_step
times, then never again. A batch that does not divide the block takes the end of one epoch and the beginning of the
next."""

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
    return _Newest()


class _Newest:
    """Steps are numbered per lane from the first one ever written, as the window does."""

    def __init__(self) -> None:
        self._steps = np.zeros(2, np.int64)  # of the newest block: the first, and the one after the last
        self._order = np.empty(0, np.int64)  # scratch: a permutation of the block

    def choose(self, window: Window, seed: int, update: int, slots: np.ndarray, weight: np.ndarray) -> None:
        begin, end = max(int(self._steps[0]), window.first), int(self._steps[1])  # old ones may have been displaced
        block = max(0, end - begin) * window.lanes
        if not block and slots.size:
            raise ValueError(f"nothing to sample from in {window}")
        if len(self._order) != block:
            self._order = np.empty(block, np.int64)
        choose_in_order(begin, window.lanes, window.slots_per_lane, seed, update, self._order, slots)
        weight.fill(1.0)

    def written(self, window: Window) -> None:
        end = window.first + window.count
        if end > self._steps[1]:  # a cut adds nothing
            self._steps[:] = self._steps[1], end

    def learned(self, slots: np.ndarray, priority: np.ndarray) -> None:
        """All stay alike."""

    def state(self) -> Arrays:
        return {"steps": self._steps}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        self._steps[:] = state["steps"]

    def check_valid(self) -> tuple[bool, str]:
        begin, end = self._steps
        return (True, "") if 0 <= begin <= end else (False, f"the newest block goes from step {begin} to {end}")


@kernel
def choose_in_order(begin, lanes, slots_per_lane, seed, update, order, slots):
    """slots [U, B] int64. Place b of update u is number u * B + b of all samples ever; each epoch is as many of them as
    the block is long."""
    key = stream_key(seed, SAMPLE, 0)
    block, epoch = len(order), np.int64(-1)
    for u in range(slots.shape[0]):
        for b in range(slots.shape[1]):
            number = np.int64(update + u) * slots.shape[1] + b
            if number // block != epoch:
                epoch = number // block
                shuffle(key, epoch, order)
            nth = order[number % block]
            slots[u, b] = (nth % lanes) * slots_per_lane + (begin + nth // lanes) % slots_per_lane


@kernel
def shuffle(key, epoch, order):
    """0 … n-1 in an order that (key, epoch) decide (Fisher & Yates; Durstenfeld 1964, doi 10.1145/364520.364540)."""
    for i in range(len(order)):
        order[i] = i
    for i in range(len(order) - 1, 0, -1):
        j = below(key, epoch, i, i + 1)
        order[i], order[j] = order[j], order[i]
