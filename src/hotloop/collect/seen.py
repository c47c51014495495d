"""What the network is given when acting: the newest frames of each lane, stacked where the spec says so. The replay
rebuilds the same stacks from single frames; here they are kept because they are needed at every step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hotloop.core.jit import kernel
from hotloop.core.schema import allocate
from hotloop.core.types import Arrays, EnvSpec


class Seen:
    """Rolling stacks [N, stack, *shape] of the parts that are stacked; other parts pass through."""

    def __init__(self, spec: EnvSpec, lanes: int) -> None:
        self.stacks: Arrays = {f.name: allocate((lanes, *f.seen), f.dtype) for f in spec.observation if f.stack > 1}
        self._rows = {name: stack.reshape(lanes, stack.shape[1], -1) for name, stack in self.stacks.items()}
        self._all = np.ones(lanes, np.bool_)

    def start(self, obs: Mapping[str, np.ndarray]) -> None:
        """Every lane begins an episode: its first frame repeats."""
        self._push(obs, self._all)

    def push(self, obs: Mapping[str, np.ndarray], terminated: np.ndarray, truncated: np.ndarray) -> None:
        """One batched step later; lanes that ended begin anew."""
        if self.stacks:
            self._push(obs, terminated | truncated)

    def _push(self, obs: Mapping[str, np.ndarray], begins: np.ndarray) -> None:
        for name, rows in self._rows.items():
            _roll(rows, obs[name].reshape(rows.shape[0], -1), begins)

    def state(self) -> Arrays:
        return {name: stack.copy() for name, stack in self.stacks.items()}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        for name, stack in self.stacks.items():
            stack[:] = state[name]


@kernel
def _roll(rows, frames, begins):
    """rows [N, stack, entry], frames [N, entry], begins [N]"""
    lanes, stack, _ = rows.shape
    for lane in range(lanes):
        for k in range(stack - 1):
            rows[lane, k] = frames[lane] if begins[lane] else rows[lane, k + 1]
        rows[lane, stack - 1] = frames[lane]
