"""Policies over batches of lanes: greedy with a network's weights, and random. Heuristics come with their worlds."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from hotloop.aot import Program
from hotloop.collect import act
from hotloop.core import random
from hotloop.core.types import Arrays, EnvSpec

_NO_MASK = np.ones((1, 1), np.bool_)


class Greedy:
    """The legal action of greatest value in each lane; by its mean weights where the network is noisy."""

    def __init__(self, spec: EnvSpec, forward: Program, weights: Tensor, noise: int = 0) -> None:
        self.spec, self._forward = spec, forward
        self._given = [weights, *([torch.zeros(noise)] if noise else [])]

    def values(self, obs: Arrays) -> np.ndarray:
        """parts [N, *seen] -> Q-values [N, A] float32"""
        tensors = [torch.from_numpy(np.ascontiguousarray(obs[f.name], f.dtype)) for f in self.spec.observation]
        return self._forward.call([*self._given, *tensors])[0].numpy()

    def __call__(self, obs: Arrays, mask: np.ndarray | None) -> np.ndarray:
        q = self.values(obs)
        out = np.empty(q.shape[0], np.int32)
        keys, powers = np.zeros(q.shape[0], np.uint64), np.ones(q.shape[0])  # no draw decides anything at epsilon 0
        act.epsilon_greedy(q, _NO_MASK if mask is None else mask, mask is not None, 0.0, powers, keys, 0, out)
        return out


class Random:
    """Uniform over the legal actions, the same for the same seed."""

    def __init__(self, spec: EnvSpec, lanes: int, seed: int) -> None:
        self.spec = spec
        self._keys = act.lane_keys(seed, random.POLICY, lanes)
        self._step = 0

    def __call__(self, obs: Arrays, mask: np.ndarray | None) -> np.ndarray:
        out = np.empty(self._keys.shape[0], np.int32)
        act.random_legal(
            _NO_MASK if mask is None else mask, mask is not None, self.spec.num_actions, self._keys, self._step, out
        )
        self._step += 1
        return out
