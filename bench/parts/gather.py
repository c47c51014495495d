"""Choosing 32 batches of 64 of five-step transitions of a full replay, and gathering them: vectors of 4."""

from __future__ import annotations

from collections.abc import Callable


def make() -> Callable[[], object]:
    import numpy as np

    from hotloop.core.schema import new_batch, new_block
    from hotloop.core.types import EnvSpec, Field
    from hotloop.replay.plan import Options
    from hotloop.replay.samplers import uniform
    from hotloop.replay.store import Store

    spec = EnvSpec("part", (Field("obs", (4,), "float32"),), 2)
    store, block = Store(spec, Options(capacity=100_000, n_step=5), 16, 0.99), new_block(spec, 1_000, 16)
    for array in (*block.obs.values(), *block.final_obs.values(), block.action, block.reward):
        array.fill(0)
    for ends in (block.terminated, block.truncated):
        ends.fill(False)
    block.terminated[::50] = True
    while store.size < 99_000:
        store.write(block)
    sampler = uniform.make(uniform.Options(), 16, store.slots_per_lane, 1)
    batch, slots = new_batch(spec, 32, 64), np.zeros((32, 64), np.int64)

    def work() -> None:
        for update in range(0, 3_200, 32):
            sampler.choose(store.window(), 1, update, slots, batch.weight)
            store.gather(slots, batch)

    return work
