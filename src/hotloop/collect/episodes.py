"""Returns and lengths of episodes, added up block by block, and those that have ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hotloop.core.jit import kernel
from hotloop.core.types import Arrays, Block


@dataclass(frozen=True)
class Finished:
    """Episodes that ended within one block, in order of time, then lane. E of them."""

    returns: np.ndarray  # [E] float64: undiscounted sum of rewards
    lengths: np.ndarray  # [E] int64: env steps
    measures: np.ndarray  # [E, K] float32
    lanes: np.ndarray  # [E] int64


class Episodes:
    """What each lane has gathered in its current episode."""

    def __init__(self, lanes: int) -> None:
        self.returns = np.zeros(lanes, np.float64)
        self.lengths = np.zeros(lanes, np.int64)

    def add(self, block: Block) -> Finished:
        ended = int(np.count_nonzero(block.terminated | block.truncated))
        out = Finished(
            np.empty(ended),
            np.empty(ended, np.int64),
            np.empty((ended, block.measures.shape[2]), np.float32),
            np.empty(ended, np.int64),
        )
        _add(
            block.reward,
            block.terminated,
            block.truncated,
            block.measures,
            self.returns,
            self.lengths,
            out.returns,
            out.lengths,
            out.measures,
            out.lanes,
        )
        return out

    def state(self) -> Arrays:
        return {"returns": self.returns.copy(), "lengths": self.lengths.copy()}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        self.returns[:] = state["returns"]
        self.lengths[:] = state["lengths"]


@kernel
def _add(reward, terminated, truncated, measures, returns, lengths, out_returns, out_lengths, out_measures, out_lanes):
    found = 0
    for t in range(reward.shape[0]):
        for lane in range(reward.shape[1]):
            returns[lane] += reward[t, lane]
            lengths[lane] += 1
            if terminated[t, lane] or truncated[t, lane]:
                out_returns[found] = returns[lane]
                out_lengths[found] = lengths[lane]
                out_measures[found] = measures[t, lane]
                out_lanes[found] = lane
                returns[lane] = 0.0
                lengths[lane] = 0
                found += 1
