"""A world that can be asked whether what came of it is true: an observation says which lane it is of, in which start of
the process, which episode and which step of it; a reward is a hash of that and of the action. Any transition can be
judged alone: torn, doubled, crossed or misplaced ones give themselves away."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hotloop.core.options import option
from hotloop.core.types import Arrays, EnvSpec, Field, Steps

LANE, START, EPISODE, T, CHECK = range(5)  # columns of an observation, all of them exact in float32
ACTIONS = 5
WIDTH = 24  # the rest repeats CHECK, so that half a copy is seen


@dataclass(frozen=True)
class Options:
    longest: int = option(17, "steps of the longest episode")


def spec(options: Options) -> EnvSpec:
    return EnvSpec("oracle", (Field("obs", (WIDTH,), "float32"),), ACTIONS, measures=("episode",), exact=False)


def make(options: Options, lanes: int, first_lane: int = 0) -> _Oracle:
    return _Oracle(options, lanes, first_lane)


def check(lane: np.ndarray, start: np.ndarray, episode: np.ndarray, t: np.ndarray) -> np.ndarray:
    """A hash below 2^20."""
    mixed = lane * 73856093 ^ start * 19349663 ^ episode * 83492791 ^ t * 15485863
    return (mixed ^ mixed >> 13) & 0xFFFFF


def reward(checks: np.ndarray, action: np.ndarray) -> np.ndarray:
    return ((checks * 31 + action * 7919) & 0xFFFF).astype(np.float32)


def length(lane: np.ndarray, episode: np.ndarray, longest: int) -> np.ndarray:
    return 2 + (lane * 5 + episode * 3) % (longest - 1)


class _Oracle:
    """Lanes whose episodes have lengths of their own; odd ones are cut, even ones end by the rules."""

    def __init__(self, options: Options, lanes: int, first_lane: int) -> None:
        self.spec, self.lanes, self._longest = spec(options), lanes, options.longest
        self._lane = np.arange(first_lane, first_lane + lanes, dtype=np.int64)
        self._start = np.full(lanes, os.getpid() & 0xFFFFF, np.int64)
        self._episode, self._t = np.zeros(lanes, np.int64), np.zeros(lanes, np.int64)

    def _write(self, obs: np.ndarray) -> np.ndarray:
        checks = check(self._lane, self._start, self._episode, self._t)
        columns = (self._lane, self._start, self._episode, self._t)
        for k, column in enumerate(columns):
            obs[:, k] = column
        obs[:, CHECK:] = checks[:, None]
        return checks

    def reset(self, seed: int, out: Steps) -> None:
        self._episode[:] = zlib.crc32(str(seed).encode()) & 0xFFFF
        self._t[:] = 0
        self._write(out.obs["obs"])

    def step(self, actions: np.ndarray, out: Steps) -> None:
        checks = check(self._lane, self._start, self._episode, self._t)
        out.reward[:] = reward(checks, actions)
        self._t += 1
        ended = self._t >= length(self._lane, self._episode, self._longest)
        out.terminated[:] = ended & (self._episode % 2 == 0)
        out.truncated[:] = ended & (self._episode % 2 == 1)
        self._write(out.final_obs["obs"])
        out.measures[:, 0] = self._episode
        self._episode[ended] += 1
        self._t[ended] = 0
        self._write(out.obs["obs"])

    def state(self) -> Arrays:
        return {}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None: ...

    def render(self, lane: int = 0) -> str:
        return str(lane)

    def close(self) -> None: ...
