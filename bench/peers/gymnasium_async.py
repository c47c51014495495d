"""Gymnasium's AsyncVectorEnv: one process per environment, observations in shared memory, its defaults."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv

from bench.measure import serve, versions

_OPEN: list[Any] = []


def start(id: str, lanes: int) -> dict[str, Any]:
    env = AsyncVectorEnv([lambda: gymnasium.make(id)] * lanes)
    env.reset(seed=0)
    _OPEN.append(env)
    return {"versions": versions("gymnasium", "numpy")}


def play(steps: int) -> dict[str, Any]:
    """Batched steps with random actions, drawn before the clock runs."""
    env = _OPEN[0]
    actions = np.random.default_rng(0).integers(0, env.single_action_space.n, (steps, env.num_envs))
    ended = 0
    began = time.perf_counter()
    for t in range(steps):
        _, _, terminated, truncated, _ = env.step(actions[t])
        ended += int(terminated.sum() + truncated.sum())
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "env_steps": steps * env.num_envs, "episodes": ended}


if __name__ == "__main__":
    serve({"start": start, "play": play})
