"""Small real Gymnasium environments that end a run in one way or another."""

from __future__ import annotations

import math
import os
import signal
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Counting(gymnasium.Env):
    """Observes how many steps its episode is old and which episode this is; episodes of 10 steps."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1e6, 1e6, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.age = self.episode = self.steps = 0

    def _obs(self) -> np.ndarray:
        return np.array([self.age, self.episode], np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.age = 0
        self.episode = int(self.np_random.integers(1_000_000))
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.age += 1
        self.steps += 1
        return self._obs(), float(action), self.age == 10, False, {}


class Poisoned(Counting):
    """Rewards are NaN from step `after` to step `until` of each lane."""

    def __init__(self, after: int, until: int = 10**9) -> None:
        super().__init__()
        self.after, self.until = after, until

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, *rest = super().step(action)
        return obs, (math.nan if self.after <= self.steps <= self.until else reward), *rest


class Signalling(Counting):
    """Sends its own process one signal or more at step `after`, as a user at a keyboard would."""

    def __init__(self, after: int, number: int = int(signal.SIGINT), times: int = 1) -> None:
        super().__init__()
        self.after, self.number, self.times = after, number, times

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.steps == self.after:
            for _ in range(self.times):
                os.kill(os.getpid(), self.number)
        return super().step(action)


class Slow(Counting):
    """Computes for `ms` of processor time at every step."""

    def __init__(self, ms: float = 3.0) -> None:
        super().__init__()
        self.ms = ms

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        until = time.thread_time() + self.ms / 1e3
        while time.thread_time() < until:
            pass
        return super().step(action)
