"""bitflip: turn one pattern of bits into another, one flip at a time, where only the end is rewarded. With many bits it
is solved by learning from goals that were reached instead (replay.hindsight), or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hotloop.core.jit import kernel
from hotloop.core.options import option
from hotloop.core.random import bits
from hotloop.core.types import Arrays, BatchedEnv, EnvSpec, Field, Goal, Policy, Steps
from hotloop.envs._lanes import COUNT, KEY, checked, copied, restore, start_streams

MEASURES = ("solved",)  # 1 where the pattern was reached

# What is shown of an episode: the bits as they stand, twice by Gymnasium's convention, and the pattern that is wanted.
PARTS = ("observation", "achieved_goal", "desired_goal")


@dataclass(frozen=True)
class Options:
    size: int = option(12, "bits, actions, and steps of an episode", ge=2, le=60)


def spec(options: Options) -> EnvSpec:
    fields = tuple(Field(name, (options.size,), "uint8") for name in PARTS)
    return EnvSpec("bitflip", fields, options.size, measures=MEASURES)


def bounds(options: Options) -> dict[str, tuple[float, float]]:
    """Least and greatest value of each part of the observation."""
    return dict.fromkeys(PARTS, (0.0, 1.0))


def goal(options: Options) -> Goal:
    """A step costs 1 that does not reach the goal; one that does ends the episode."""
    return Goal(
        reward=lambda achieved, desired: -(achieved != desired).any(axis=-1).astype(np.float32),
        terminated=lambda achieved, desired: (achieved == desired).all(axis=-1),
    )


def make(options: Options, lanes: int, first_lane: int = 0) -> BatchedEnv:
    return _BitFlip(checked(options, lanes), lanes, first_lane)


def heuristic(options: Options, env: BatchedEnv) -> Policy:
    """The solution: the first bit that is wrong."""
    return lambda obs, mask: (obs["achieved_goal"] != obs["desired_goal"]).argmax(axis=1).astype(np.int32)


@kernel
def _begin(size, stream, age, have, want):
    for i in range(age.shape[0]):
        _new_episode(i, size, stream, age, have, want)


@kernel
def _step(size, actions, stream, age, have, want, reward, terminated, truncated, final_have, final_want, measures):
    """Writes the last patterns of an episode that ends, and begins the next one in place."""
    for i in range(age.shape[0]):
        stream[i, COUNT] += np.uint64(1)
        age[i] += 1
        have[i, actions[i]] ^= np.uint8(1)
        reached = True
        for k in range(size):
            reached &= have[i, k] == want[i, k]
        reward[i] = 0.0 if reached else -1.0
        terminated[i] = reached
        truncated[i] = not reached and age[i] == size
        if terminated[i] or truncated[i]:
            measures[i, 0] = reached
            final_have[i] = have[i]
            final_want[i] = want[i]
            _new_episode(i, size, stream, age, have, want)


@kernel
def _new_episode(i, size, stream, age, have, want):
    """Two patterns that differ: else there would be nothing to do."""
    age[i] = 0
    start, end = bits(stream[i, KEY], stream[i, COUNT], 0), bits(stream[i, KEY], stream[i, COUNT], 1)
    differ = False
    for k in range(size):
        have[i, k] = (start >> np.uint64(k)) & np.uint64(1)
        want[i, k] = (end >> np.uint64(k)) & np.uint64(1)
        differ |= have[i, k] != want[i, k]
    if not differ:
        want[i, 0] ^= np.uint8(1)


class _BitFlip:
    def __init__(self, options: Options, lanes: int, first_lane: int) -> None:
        self.spec = spec(options)
        self.lanes = lanes
        self._size = options.size
        self._first_lane = first_lane
        self._stream = np.zeros((lanes, 2), np.uint64)
        self._age = np.zeros(lanes, np.int32)
        self._have = np.zeros((lanes, options.size), np.uint8)
        self._want = np.zeros((lanes, options.size), np.uint8)
        self._state = {"stream": self._stream, "age": self._age, "have": self._have, "want": self._want}

    def reset(self, seed: int, out: Steps) -> None:
        start_streams(seed, self._first_lane, self._stream)
        _begin(self._size, self._stream, self._age, self._have, self._want)
        self._show(out)

    def step(self, actions: np.ndarray, out: Steps) -> None:
        final = out.final_obs
        _step(
            self._size, actions, self._stream, self._age, self._have, self._want,
            out.reward, out.terminated, out.truncated, final["achieved_goal"], final["desired_goal"], out.measures,
        )  # fmt: skip
        np.copyto(final["observation"], final["achieved_goal"])
        self._show(out)

    def _show(self, out: Steps) -> None:
        for name, array in zip(PARTS, (self._have, self._have, self._want), strict=True):
            np.copyto(out.obs[name], array)

    def state(self) -> Arrays:
        return copied(self._state)

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        restore(self._state, state)

    def render(self, lane: int = 0) -> str:
        have, want = ("".join(map(str, a[lane])) for a in (self._have, self._want))
        return f"{have}, wanted {want}, step {self._age[lane]} of {self._size}"

    def close(self) -> None:
        pass
