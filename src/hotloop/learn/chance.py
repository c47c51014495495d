"""What is random about an update: noise of noisy networks, and the numbers a variant draws per transition. Keyed by
(seed, number of the update, place), so that how updates are grouped into calls changes nothing."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from hotloop.core.jit import kernel
from hotloop.core.random import DRAWS, NOISE, stream_key, uniform
from hotloop.core.schema import allocate
from hotloop.networks import _noisy

PASSES = 3  # of the network, each with noise of its own: learning, choosing, target


class Chance:
    """Room for the random numbers of one cycle; the program reads it, nothing is copied."""

    def __init__(self, seed: int, updates: int, batch: int, draws: int, noise: int) -> None:
        self.draws = allocate((updates, batch, draws), "float32") if draws else None  # [U, B, D]
        self._noise = allocate((updates, PASSES, noise), "float32") if noise else None
        self._draw_key, self._noise_key = (np.uint64(stream_key(seed, stream, 0)) for stream in (DRAWS, NOISE))

    @property
    def noise_inputs(self) -> list[Tensor]:
        """[U, PASSES, K] where the network is noisy"""
        return [] if self._noise is None else [torch.from_numpy(self._noise)]

    def draw(self, update: int) -> None:
        """For the updates from number `update` on."""
        if self.draws is not None:
            fill_uniform(self._draw_key, update, self.draws)
        if self._noise is not None:
            for u in range(len(self._noise)):
                _noisy.fill(self._noise_key, update + u, self._noise[u])


@kernel
def fill_uniform(key, update, out):
    """out [U, B, D] float32 in [0, 1)"""
    updates, rows, columns = out.shape
    for u in range(updates):
        for b in range(rows):
            for d in range(columns):
                # 24 bits, all that a float32 below 1 can hold
                draw = np.int64(uniform(key, update + u, b * columns + d) * 16777216.0)
                out[u, b, d] = np.float32(draw) * np.float32(1.0 / 16777216.0)


@kernel
def outside(values, low, high):
    """How many of values [U, B] are below low or above high."""
    count = 0
    for u in range(values.shape[0]):
        for b in range(values.shape[1]):
            count += values[u, b] < low or values[u, b] > high
    return count
