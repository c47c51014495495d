"""cpprb: replay memories in C++."""

from __future__ import annotations

from typing import Any

import numpy as np
from cpprb import PrioritizedReplayBuffer, ReplayBuffer

from bench.peers._replay import ALPHA, BATCH, BETA, NUMBERS, Step, serve_memory

FIELDS: dict[str, Any] = {
    "obs": {"shape": NUMBERS},
    "action": {"dtype": np.int64},
    "reward": {},
    "next_obs": {"shape": NUMBERS},
    "done": {},
}


class Memory:
    def __init__(self, entries: int, prioritized: bool) -> None:
        self.prioritized = prioritized
        self.buffer = (
            PrioritizedReplayBuffer(entries, FIELDS, alpha=ALPHA) if prioritized else ReplayBuffer(entries, FIELDS)
        )

    def insert(self, step: Step) -> None:
        self.buffer.add(
            obs=step.obs, action=step.action, reward=step.reward, next_obs=step.next_obs, done=step.done
        )  # fmt: skip

    def sample(self, priority: np.ndarray) -> np.ndarray:
        if not self.prioritized:
            return self.buffer.sample(BATCH)["obs"]
        batch = self.buffer.sample(BATCH, beta=BETA)
        self.buffer.update_priorities(batch["indexes"], priority)
        return batch["obs"]


if __name__ == "__main__":
    serve_memory(Memory, "cpprb")
