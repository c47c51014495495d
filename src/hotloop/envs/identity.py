"""identity: the observation is a one-hot of k and the right action is k. The smallest world that can be solved;
what cannot solve it is broken. Owns its rules and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hotloop.core.jit import kernel
from hotloop.core.options import option
from hotloop.core.random import below
from hotloop.core.types import Arrays, BatchedEnv, EnvSpec, Field, Policy, Steps
from hotloop.envs._lanes import COUNT, KEY, checked, copied, restore, start_streams

EPISODE = 10
MEASURES = ("correct",)  # right actions in the episode, of 10

# Columns of `lane`, int32 [N, 3].
TARGET, AGE, CORRECT = range(3)


@dataclass(frozen=True)
class Options:
    size: int = option(4, "number of actions, and of observations", ge=2, le=64)


def spec(options: Options) -> EnvSpec:
    return EnvSpec("identity", (Field("obs", (options.size,), "float32"),), options.size, measures=MEASURES)


def bounds(options: Options) -> dict[str, tuple[float, float]]:
    """Least and greatest value of each part of the observation."""
    return {"obs": (0.0, 1.0)}


def make(options: Options, lanes: int, first_lane: int = 0) -> BatchedEnv:
    return _Identity(checked(options, lanes), lanes, first_lane)


def heuristic(options: Options, env: BatchedEnv) -> Policy:
    """The solution: the action that is shown."""
    return lambda obs, mask: obs["obs"].argmax(axis=1).astype(np.int32)


@kernel
def _begin(size, stream, lane, obs):
    for i in range(lane.shape[0]):
        _new_episode(i, size, stream, lane, obs)


@kernel
def _step(size, actions, stream, lane, obs, reward, terminated, truncated, final_obs, measures):
    for i in range(lane.shape[0]):
        stream[i, COUNT] += np.uint64(1)
        right = np.int32(actions[i] == lane[i, TARGET])
        lane[i, CORRECT] += right
        lane[i, AGE] += 1
        ended = lane[i, AGE] == EPISODE
        reward[i] = right
        terminated[i] = ended
        truncated[i] = False
        if ended:
            measures[i, 0] = lane[i, CORRECT]
            _show(i, below(stream[i, KEY], stream[i, COUNT], 0, size), final_obs)
            _new_episode(i, size, stream, lane, obs)
        else:
            _draw(i, 0, size, stream, lane, obs)


@kernel
def _new_episode(i, size, stream, lane, obs):
    lane[i, AGE] = 0
    lane[i, CORRECT] = 0
    _draw(i, 1, size, stream, lane, obs)


@kernel
def _draw(i, draw, size, stream, lane, obs):
    target = below(stream[i, KEY], stream[i, COUNT], draw, size)
    lane[i, TARGET] = target
    _show(i, target, obs)


@kernel
def _show(i, target, obs):
    for k in range(obs.shape[1]):
        obs[i, k] = np.float32(k == target)


class _Identity:
    def __init__(self, options: Options, lanes: int, first_lane: int) -> None:
        self.spec = spec(options)
        self.lanes = lanes
        self._size = options.size
        self._first_lane = first_lane
        self._stream = np.zeros((lanes, 2), np.uint64)
        self._lane = np.zeros((lanes, 3), np.int32)
        self._state = {"stream": self._stream, "lane": self._lane}

    def reset(self, seed: int, out: Steps) -> None:
        start_streams(seed, self._first_lane, self._stream)
        _begin(self._size, self._stream, self._lane, out.obs["obs"])

    def step(self, actions: np.ndarray, out: Steps) -> None:
        _step(
            self._size, actions, self._stream, self._lane,
            out.obs["obs"], out.reward, out.terminated, out.truncated, out.final_obs["obs"], out.measures,
        )  # fmt: skip

    def state(self) -> Arrays:
        return copied(self._state)

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        restore(self._state, state)

    def render(self, lane: int = 0) -> str:
        target, age, correct = (int(v) for v in self._lane[lane])
        return f"show {target} of {self._size}, step {age} of {EPISODE}, {correct} right"

    def close(self) -> None:
        pass
