"""hotloop's store and samplers: one batch and one step per call, or several of them, as a run does it."""

from __future__ import annotations

import numpy as np

from bench.peers._replay import ALPHA, BATCH, BETA, LANES, NUMBERS, Step, serve_memory
from hotloop.core.schema import new_batch, new_block
from hotloop.core.types import EnvSpec, Field
from hotloop.replay.plan import Options
from hotloop.replay.samplers import _base
from hotloop.replay.store import Store


class Memory:
    """`at_once` batches are chosen and gathered together, and as many steps written: the first call that asks for more
    than is there pays for all."""

    def __init__(self, entries: int, prioritized: bool, at_once: int = 1) -> None:
        spec = EnvSpec("replay", (Field("obs", (NUMBERS,), "float32"),), 2)
        self.store = Store(spec, Options(capacity=entries), LANES, 0.99)
        options = {"alpha": ALPHA, "beta": BETA, "beta_end": BETA} if prioritized else {}
        name = "prioritized" if prioritized else "uniform"
        self.sampler = _base.make(name, options, LANES, self.store.slots_per_lane, entries)
        self.block, self.filled = new_block(spec, at_once, LANES), 0
        for flags in (self.block.terminated, self.block.truncated):
            flags.fill(False)
        self.batch, self.slots = new_batch(spec, at_once, BATCH), np.zeros((at_once, BATCH), np.int64)
        self.priority, self.at_once = np.zeros((at_once, BATCH), np.float32), at_once
        self.taken, self.updates = at_once, 0

    def insert(self, step: Step) -> None:
        t = self.filled
        if t == 0:
            self.block.obs["obs"][0] = step.obs
        self.block.obs["obs"][t + 1], self.block.action[t] = step.next_obs, step.action
        self.block.reward[t] = step.reward
        self.filled += 1
        if self.filled == self.at_once:
            self.store.write(self.block)
            self.sampler.written(self.store.window())
            self.filled = 0

    def sample(self, priority: np.ndarray) -> np.ndarray:
        if self.taken == self.at_once:
            if self.updates:
                self.sampler.learned(self.slots, self.priority)
            self.sampler.choose(self.store.window(), 0, self.updates, self.slots, self.batch.weight)
            self.store.gather(self.slots, self.batch)
            self.updates += self.at_once
            self.taken = 0
        self.priority[self.taken] = priority
        self.taken += 1
        return self.batch.obs["obs"][self.taken - 1]


if __name__ == "__main__":
    serve_memory(Memory, "hotloop", "numpy")
