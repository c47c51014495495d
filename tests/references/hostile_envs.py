"""Gymnasium environments that end, hang or lie at some step of one lane: `how` says in which way."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

HOWS = (
    "raise", "exit", "os_exit", "segfault", "abort", "kill", "hang", "stop", "gigabyte", "shape", "dtype", "nan",
    "infinite reward", "none", "out of range", "recurse", "interrupt", "close",
)  # fmt: skip

_MADE: list[int] = []


class Hostile(gymnasium.Env):
    """A counter; episodes of 7 steps. Every so many steps it misbehaves in the next way that nobody has tried."""

    def __init__(self, every: int = 30, marks: str = "", always: str = "") -> None:
        """marks: a folder of files that say what was tried; always: what is done every time instead."""
        self.observation_space = spaces.Box(-1.0, 1_000.0, (3,), np.float32)
        self.action_space = spaces.Discrete(3)
        _MADE.append(os.getpid())
        self.number = _MADE.count(os.getpid()) - 1  # of those in this process, only the first misbehaves
        self.every, self.marks, self.always = every, Path(marks), always
        self.age = self.steps = self.episode = 0
        self.buffer = np.zeros(3, np.float32)

    def _obs(self) -> np.ndarray:
        self.buffer[:] = self.age, self.steps % 500, self.episode % 500
        return self.buffer  # the same array every time

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.age = 0
        self.episode += 1
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.age += 1
        self.steps += 1
        obs, reward = self._obs(), float(action)
        if self.steps % self.every == 0 and self.number == 0:
            obs, reward = misbehave(self.always or self._next(), obs, reward)
        return obs, reward, self.age == 7, False, {}

    def _next(self) -> str:
        for how in HOWS:
            try:
                (self.marks / how).touch(exist_ok=False)
            except FileExistsError:
                continue
            return how
        return ""


def misbehave(how: str, obs: np.ndarray, reward: Any) -> tuple[Any, Any]:
    match how:
        case "raise":
            raise ZeroDivisionError("the ball has left the court")
        case "exit":
            sys.exit(3)
        case "os_exit":
            os._exit(0)
        case "segfault":
            ctypes.string_at(0)
        case "abort":
            os.abort()
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            while True:
                time.sleep(0.01)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "gigabyte":
            for descriptor in (1, 2):
                for _ in range(512):
                    os.write(descriptor, b"x" * (1 << 20))
        case "shape":
            return np.zeros(1, np.float32), reward
        case "dtype":
            return np.array(["a", "b", "c"]), reward
        case "nan":
            return obs + np.float32("nan"), reward
        case "infinite reward":
            return obs, float("inf")
        case "none":
            return None, reward
        case "out of range":
            return obs - 100, reward
        case "recurse":
            return misbehave(how, obs, reward)
        case "interrupt":
            raise KeyboardInterrupt
        case "close":
            os.closerange(0, 64)
    return obs, reward
