"""Stable-Baselines3's replay memory; it has none that is prioritized."""

from __future__ import annotations

import gymnasium
import numpy as np
import torch
from stable_baselines3.common.buffers import ReplayBuffer

from bench.peers._replay import BATCH, LANES, NUMBERS, Step, serve_memory

NOTHING: list[dict] = [{} for _ in range(LANES)]


class Memory:
    def __init__(self, entries: int, prioritized: bool) -> None:
        if prioritized:
            raise ValueError("it has no prioritized memory")
        torch.set_num_threads(1)
        box = gymnasium.spaces.Box(-np.inf, np.inf, (NUMBERS,), np.float32)
        self.buffer = ReplayBuffer(entries, box, gymnasium.spaces.Discrete(2), device="cpu", n_envs=LANES)

    def insert(self, step: Step) -> None:
        self.buffer.add(step.obs, step.next_obs, step.action, step.reward, step.done, NOTHING)

    def sample(self, priority: np.ndarray) -> np.ndarray:
        return self.buffer.sample(BATCH).observations.numpy()


if __name__ == "__main__":
    serve_memory(Memory, "stable-baselines3", "torch")
