"""Blocks of made-up experience, continuing each other as a collector's do, and the comparison with the model."""

from __future__ import annotations

import numpy as np

from hotloop.core.schema import new_batch, new_block
from hotloop.core.types import Batch, Block, EnvSpec, Field
from hotloop.replay.plan import Options
from hotloop.replay.store import Store
from tests.references.replay import Model, differences

PLAIN = (Field("obs", (4,), "float32"),)
PIXELS = (Field("obs", (3, 5), "uint8", stack=4),)
PARTS = (
    Field("image", (3, 2), "uint8", stack=4),
    Field("speed", (3,), "float32", stack=2),
    Field("ready", (), "bool"),
    Field("count", (1,), "int32"),
    Field("clock", (2,), "float64"),
)


class Writer:
    """A store and its model, fed alike."""

    def __init__(
        self,
        observation: tuple[Field, ...] = PLAIN,
        *,
        lanes: int = 2,
        capacity: int = 20,
        n_step: int = 1,
        share: float = 1.0,
        masked: bool = False,
        actions: int = 5,
        seed: int = 0,
        gamma: float = 0.97,
    ) -> None:
        self.spec = EnvSpec("made-up", observation, actions, masked=masked)
        self.options = Options(capacity=capacity, n_step=n_step, truncated_share=share)
        self.store = Store(self.spec, self.options, lanes, gamma)
        planned = self.store.plan
        self.model = Model(self.spec, lanes, planned.per_lane, n_step, gamma, planned.final_rows)
        self.rng = np.random.default_rng(seed)
        self.tail: Block | None = None

    def write(self, steps: int, terminate: float = 0.1, truncate: float = 0.1, together: bool = False) -> Block:
        """Write one block of random experience to both. `together`: all lanes are truncated in the same steps."""
        block = self.random_block(steps, terminate, truncate, together)
        if self.tail is not None:
            for name, array in block.obs.items():
                array[0] = self.tail.obs[name][-1]
            if block.mask is not None:
                block.mask[0] = self.tail.mask[-1]  # type: ignore[index]
        if block.mask is not None:  # actions are legal
            for t, lane in np.ndindex(steps, block.lanes):
                block.action[t, lane] = self.rng.choice(np.flatnonzero(block.mask[t, lane]))
        self.store.write(block)
        self.model.write(block)
        self.tail = block
        return block

    def cut(self) -> None:
        self.store.cut()
        self.model.cut()
        self.tail = None

    def random_block(self, steps: int, terminate: float, truncate: float, together: bool) -> Block:
        rng, lanes = self.rng, self.store.lanes
        block = new_block(self.spec, steps, lanes)
        block.action[...] = rng.integers(0, self.spec.num_actions, (steps, lanes))
        block.reward[...] = rng.normal(size=(steps, lanes))
        block.terminated[...] = rng.random((steps, lanes)) < terminate
        block.truncated[...] = rng.random((steps, 1 if together else lanes)) < truncate
        ended = block.terminated | block.truncated
        for field in self.spec.observation:
            fill(rng, block.obs[field.name])
            fill(rng, block.final_obs[field.name], where=ended)  # the rest stays poisoned, as an environment leaves it
        if block.mask is not None and block.final_mask is not None:
            block.mask[...] = self.random_masks((steps + 1, lanes))
            block.final_mask[ended] = self.random_masks((steps, lanes))[ended]
        return block

    def random_masks(self, shape: tuple[int, int]) -> np.ndarray:
        masks = self.rng.random((*shape, self.spec.num_actions)) < 0.4
        masks[..., 0] |= ~masks.any(-1)
        return masks

    def slots(self) -> np.ndarray:
        """Every slot that may be sampled, [1, B], lane by lane from the oldest on."""
        w = self.store.window()
        position = (w.oldest + np.arange(w.count)) % w.slots_per_lane
        return (np.arange(w.lanes)[:, None] * w.slots_per_lane + position).reshape(1, -1)

    def gather(self) -> Batch:
        slots = self.slots()
        batch = new_batch(self.spec, *slots.shape, mask=True)
        self.store.gather(slots, batch)
        return batch

    def compare(self) -> None:
        """The store is sound, offers exactly what the model offers, and every sample is equal to the last bit."""
        assert self.store.check_valid() == (True, "")
        w, expected = self.store.window(), self.model.sampleable()
        offered = [(lane, w.first + age) for lane in range(w.lanes) for age in range(w.count)]
        assert offered == expected
        assert (self.store.size, self.store.displaced) == (len(expected), self.model.displaced)
        batch = self.gather()
        for i, (lane, k) in enumerate(expected):
            assert differences(batch, i, self.model.sample(lane, k)) == [], (lane, k)


def fill(rng: np.random.Generator, array: np.ndarray, where: np.ndarray | None = None) -> None:
    values = rng.integers(0, 2 if array.dtype == bool else 100, array.shape).astype(array.dtype)
    if where is None:
        array[...] = values
    else:
        array[where] = values[where]
