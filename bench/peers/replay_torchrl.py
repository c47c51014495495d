"""TorchRL's replay memories: tensors in one storage, its C++ sum tree."""

from __future__ import annotations

import numpy as np
import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, TensorDictPrioritizedReplayBuffer, TensorDictReplayBuffer

from bench.peers._replay import ALPHA, BATCH, BETA, LANES, Step, serve_memory


class Memory:
    def __init__(self, entries: int, prioritized: bool) -> None:
        torch.set_num_threads(1)
        self.prioritized = prioritized
        storage = LazyTensorStorage(entries)
        self.buffer = (
            TensorDictPrioritizedReplayBuffer(alpha=ALPHA, beta=BETA, storage=storage, batch_size=BATCH)
            if prioritized
            else TensorDictReplayBuffer(storage=storage, batch_size=BATCH)
        )

    def insert(self, step: Step) -> None:
        fields = {name: torch.from_numpy(array) for name, array in vars(step).items()}
        self.buffer.extend(TensorDict(fields, [LANES]))

    def sample(self, priority: np.ndarray) -> np.ndarray:
        batch = self.buffer.sample()
        if self.prioritized:
            self.buffer.update_priority(batch["index"], torch.from_numpy(priority))
        return batch["obs"].numpy()


if __name__ == "__main__":
    serve_memory(Memory, "torchrl", "torch")
