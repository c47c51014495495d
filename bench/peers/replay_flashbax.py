"""flashbax: replay memories in JAX, every call jitted, the memory given away and got back so that nothing is copied."""

from __future__ import annotations

from functools import partial

import flashbax
import jax
import jax.numpy as jnp
import numpy as np

from bench.peers._replay import ALPHA, BATCH, LANES, NUMBERS, Step, serve_memory


class Memory:
    def __init__(self, entries: int, prioritized: bool) -> None:
        self.prioritized = prioritized
        # A transition holds its next observation, as those of the others: flashbax's own pairs of steps store it once.
        more = {"priority_exponent": ALPHA} if prioritized else {}
        make = flashbax.make_prioritised_item_buffer if prioritized else flashbax.make_item_buffer
        self.buffer = make(entries, BATCH, BATCH, add_batches=True, **more)
        one = {
            "obs": jnp.zeros(NUMBERS), "action": jnp.zeros((), jnp.int32), "reward": jnp.zeros(()),
            "next_obs": jnp.zeros(NUMBERS), "done": jnp.zeros(()),
        }  # fmt: skip
        self.state, self.key = self.buffer.init(one), jax.random.key(0)
        self.add = jax.jit(self.buffer.add, donate_argnums=0)
        self.take = jax.jit(self.buffer.sample)
        if prioritized:
            self.put = jax.jit(self.buffer.set_priorities, donate_argnums=0)
        self.split = jax.jit(partial(jax.random.split, num=2))

    def insert(self, step: Step) -> None:
        fields = {**vars(step), "action": step.action.astype(np.int32)}
        assert len(fields["obs"]) == LANES
        self.state = self.add(self.state, fields)

    def sample(self, priority: np.ndarray) -> np.ndarray:
        self.key, key = self.split(self.key)
        batch = self.take(self.state, key)
        if self.prioritized:
            self.state = self.put(self.state, batch.indices, priority)
        return jax.block_until_ready(batch.experience)["obs"]


if __name__ == "__main__":
    serve_memory(Memory, "flashbax", "jax")
