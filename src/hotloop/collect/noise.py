"""The noise that a noisy network acts with: one for all lanes, drawn anew for every batched step and keyed by its
number, so that a lane plays the same game whatever the number of lanes."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from hotloop.core.random import ACTING_NOISE, stream_key
from hotloop.networks import _noisy


class Noise:
    """What a call of the network takes after its weights."""

    def __init__(self, size: int, seed: int) -> None:
        self._array = np.zeros(size, np.float32)
        self._given = [torch.from_numpy(self._array)] if size else []
        self._key = np.uint64(stream_key(seed, ACTING_NOISE, 0))

    def at(self, step: int) -> list[Tensor]:
        """[noise [K]], or nothing where the network is not noisy. Valid until the next call."""
        if self._given:
            _noisy.fill(self._key, step, self._array)
        return self._given
