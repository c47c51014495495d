"""Stable-Baselines3's SubprocVecEnv: one process per environment, its defaults."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3.common.vec_env import SubprocVecEnv

from bench.measure import serve, versions

_OPEN: list[Any] = []


def start(id: str, lanes: int) -> dict[str, Any]:
    env = SubprocVecEnv([lambda: gymnasium.make(id)] * lanes)
    env.seed(0)
    env.reset()
    _OPEN.append(env)
    return {"versions": versions("stable-baselines3", "gymnasium", "numpy")}


def play(steps: int) -> dict[str, Any]:
    """Batched steps with random actions, drawn before the clock runs."""
    env = _OPEN[0]
    actions = np.random.default_rng(0).integers(0, env.action_space.n, (steps, env.num_envs))
    ended = 0
    began = time.perf_counter()
    for t in range(steps):
        _, _, done, _ = env.step(actions[t])
        ended += int(done.sum())
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "env_steps": steps * env.num_envs, "episodes": ended}


if __name__ == "__main__":
    serve({"start": start, "play": play})
