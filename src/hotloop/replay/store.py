"""The replay memory: blocks in, batches by slot out. Each observation is stored once; the next observation is the
next slot of the same lane. Arrays are [lane, slot, …], allocated once. Knows no policy of sampling: that is a
sampler's, which is told the window and names the slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np

from hotloop.core.errors import UserError
from hotloop.core.schema import allocate, new_batch, new_block
from hotloop.core.types import Arrays, Batch, Block, EnvSpec, Field
from hotloop.replay import frames, nstep
from hotloop.replay.nstep import DISPLACED, FLOOR, GOES_ON, STEPS, TRUNCATED
from hotloop.replay.plan import MemoryPlan, Options, plan, refuse
from hotloop.replay.soundness import first_fault

__all__ = ["MemoryPlan", "Options", "Store", "Window"]


@dataclass(frozen=True)
class Window:
    """What may be sampled now: in every lane alike, `count` steps in a row. Age 0 is the oldest of them."""

    lanes: int  # N
    slots_per_lane: int  # S; slot = lane * S + (oldest + age) % S
    oldest: int  # position of age 0
    count: int  # steps per lane that may be sampled
    first: int  # number of age 0, counted from the first step ever written: what is new to the window has a higher one

    @property
    def size(self) -> int:
        return self.lanes * self.count


class Store:
    """The newest `capacity` transitions of N lanes, minus the newest n-1 steps, whose n-step return is not yet known.

    A truncated transition needs its final observation; those lie in a ring of their own, sized by
    `truncated_share`. When that ring laps itself inside the window, the window's old end moves forward until no
    transition needs a lost row (`displaced` counts those rows). A terminated transition needs none.

    One thread writes or gathers at a time.
    """

    def __init__(self, spec: EnvSpec, options: Options, lanes: int, gamma: float) -> None:
        self.spec, self.options, self.lanes, self.gamma = spec, options, lanes, gamma
        self.plan = plan(spec, options, lanes)
        refuse(self.plan, spec, options)
        self.slots_per_lane = self.plan.slots_per_lane
        self._arrays: Arrays = {row.name: allocate(row.shape, row.dtype) for row in self.plan.rows}
        self._arrays["cursor"].fill(0)
        self._parts = tuple(_part(field, self._arrays, lanes, self.slots_per_lane) for field in spec.observation)
        self._reach = max(field.stack for field in spec.observation) - 1
        self._powers = np.array([gamma**k for k in range(options.n_step + 1)], np.float64)
        self._where = np.empty((0, 5), np.int64)
        self._window = self._current_window()
        # Compile, or load from the cache, all kernels now rather than at the first step. Writes slot 0 only.
        self.write(new_block(spec, 0, lanes))
        self.gather(np.empty((0, 1), np.int64), new_batch(spec, 0, 1))

    @property
    def size(self) -> int:
        """Transitions that may be sampled now."""
        return self._window.size

    @property
    def displaced(self) -> int:
        """Final observations lost while capacity would still have kept their transition. Above 0, `size` stays
        below the capacity: raise `truncated_share`."""
        return int(self._arrays["cursor"][DISPLACED])

    def window(self) -> Window:
        """What a sampler may name until the next write."""
        return self._window

    def write(self, block: Block) -> None:
        """Commit a block of any length; of one longer than a lane, the end is kept. Row 0 of its observations is
        where the block before it ended, unless `cut` was called in between, or the block says otherwise."""
        self._check(block)
        if block.anew is not None and block.anew.any():
            self.cut(block.anew)
        a, total, lanes = self._arrays, block.steps, self.lanes
        start = int(a["cursor"][STEPS]) % self.slots_per_lane
        finals = nstep.commit(
            block.action, block.reward, block.terminated, block.truncated, self.spec.num_actions,
            self._oldest_kept(total), a["cursor"], a["action"], a["reward"], a["end"], a["final_row"], a["final_owner"],
        )  # fmt: skip
        if finals < 0:
            raise ValueError(f"the block holds actions outside 0 … {self.spec.num_actions - 1}; nothing was written")
        warm = total == 0
        for part in self._parts:
            seen = frames.as_words(block.obs[part.name], (total + 1, lanes), part.entry_bytes)
            frames.store_entries(seen, start, part.by_lane)
            if finals or warm:
                ended = frames.as_words(block.final_obs[part.name], (total, lanes), part.entry_bytes)
                frames.store_finals(ended, start, a["final_row"], part.final)
        if block.mask is not None:
            packed = frames.pack(block.mask.reshape(-1, self.spec.num_actions))
            frames.store_entries(packed.reshape(total + 1, lanes, -1), start, a["mask"])
        if block.final_mask is not None and (finals or warm):
            packed = frames.pack(block.final_mask.reshape(-1, self.spec.num_actions))
            packed = packed.reshape(total, lanes, ceil(self.spec.num_actions / 8))
            frames.store_finals(packed, start, a["final_row"], a["final_mask"])
        self._window = self._current_window()

    def cut(self, lanes: np.ndarray | None = None) -> None:
        """The next block does not continue the last one, as when an environment that cannot give its state is
        started anew. Episodes that were going on become truncated at their newest observation. lanes: [N] bool."""
        a = self._arrays
        newest = int(a["cursor"][STEPS]) - 1
        if newest < 0:
            return
        slot, tail = newest % self.slots_per_lane, (newest + 1) % self.slots_per_lane
        open_ended = a["end"][:, slot] == GOES_ON
        for lane in np.flatnonzero(open_ended if lanes is None else open_ended & lanes):
            row = nstep.take_final_row(a["cursor"], a["final_owner"], newest, lane, self._oldest_kept(0))
            a["end"][lane, slot] = TRUNCATED
            a["final_row"][lane, slot] = row
            for field in self.spec.observation:
                a[f"final.{field.name}"][row] = a[f"obs.{field.name}"][lane, tail]
            if self.spec.masked:
                a["final_mask"][row] = a["mask"][lane, tail]
        self._window = self._current_window()

    def gather(self, slots: np.ndarray, out: Batch) -> None:
        """Write the transitions of `slots` [U, B] int64 into `out`; its weights are the sampler's. A slot outside
        the window is refused; `out` is then worthless."""
        a, window, samples = self._arrays, self._window, slots.size
        if out.action.shape != slots.shape:
            raise ValueError(f"slots {slots.shape} for a batch of {out.action.shape}")
        if len(self._where) < samples:
            self._where = np.empty((samples, 5), np.int64)
        bad = nstep.resolve(
            slots, window.oldest, window.count, window.first, self._reach, self._powers,
            a["action"], a["reward"], a["end"], a["final_row"],
            out.action, out.reward, out.discount, self._where,
        )  # fmt: skip
        if bad >= 0:
            raise ValueError(f"slot {slots.reshape(-1)[bad]} is outside {window}")
        for part in self._parts:
            obs, next_obs = out.obs[part.name], out.next_obs[part.name]
            if not (obs.flags.c_contiguous and next_obs.flags.c_contiguous):
                raise ValueError(f"the batch's {part.name!r} is not contiguous")
            frames.gather_entries(
                self._where, samples, part.stack, self.slots_per_lane, part.flat, part.final,
                frames.as_words(obs, (samples,), part.entry_bytes, part.stack),
                frames.as_words(next_obs, (samples,), part.entry_bytes, part.stack),
            )  # fmt: skip
        if out.next_mask is not None:
            packed = a["mask"].reshape(-1, a["mask"].shape[2])
            next_mask = out.next_mask.reshape(-1, self.spec.num_actions)
            frames.gather_masks(self._where, samples, packed, a["final_mask"], next_mask)
            if out.mask is not None:
                frames.gather_own_masks(self._where, samples, packed, out.mask.reshape(-1, self.spec.num_actions))

    def goes_on(self, slots: np.ndarray) -> np.ndarray:
        """Whether the episode went on after each of these slots: same shape, bool."""
        return self._arrays["end"].reshape(-1)[slots] == GOES_ON

    def check_valid(self) -> tuple[bool, str]:
        """Whether the store is sound, and what is wrong with it if not. Reads all of it: for tests and resume."""
        fault = first_fault(self._arrays, self.spec, self._window.first, self._window.count, self.options.n_step)
        return fault == "", fault

    def state(self) -> Arrays:
        """Everything a later batch depends on. These are the store's own arrays, not copies: valid until the next
        write."""
        return dict(self._arrays)

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from what `state` gave, bit for bit. Refuses one of another shape, and one that is not sound."""
        for row in self.plan.rows:
            given = state.get(row.name)
            if given is None or given.shape != row.shape or given.dtype != row.dtype:
                found = "none" if given is None else f"{given.dtype} {given.shape}"
                raise UserError(
                    f"saved replay: {row.name} should be {row.dtype} {row.shape}, found {found}; "
                    "resume with the environment, lanes, replay.capacity and replay.n_step it was saved with"
                )
        for row in self.plan.rows:
            np.copyto(self._arrays[row.name], state[row.name])
        self._window = self._current_window()
        valid, fault = self.check_valid()
        if not valid:
            raise UserError(f"saved replay is damaged ({fault}); resume from an older checkpoint")

    def _oldest_kept(self, more: int) -> int:
        """The oldest step that capacity keeps once `more` steps are in: the newest that is complete, and those
        before it."""
        return max(0, int(self._arrays["cursor"][STEPS]) + more - self.options.n_step + 1 - self.plan.per_lane)

    def _current_window(self) -> Window:
        cursor = self._arrays["cursor"]
        first = max(self._oldest_kept(0), int(cursor[FLOOR]))
        count = max(0, int(cursor[STEPS]) - self.options.n_step + 1 - first)
        return Window(self.lanes, self.slots_per_lane, first % self.slots_per_lane, count, first)

    def _check(self, block: Block) -> None:
        """Kernels trust shapes and dtypes, so they are checked here."""
        if block.lanes != self.lanes:
            raise ValueError(f"a block of {block.lanes} lanes for a replay of {self.lanes}")
        if (block.mask is None or block.final_mask is None) == self.spec.masked:
            raise ValueError(f"the environment is masked: {self.spec.masked}, but the block says otherwise")
        for part in self._parts:
            for name, array, steps in (
                ("obs", block.obs[part.name], block.steps + 1),
                ("final_obs", block.final_obs[part.name], block.steps),
            ):
                shape = (steps, self.lanes, *part.shape)
                if array.dtype != part.dtype or array.shape != shape:
                    raise ValueError(
                        f"{name}[{part.name!r}] is {array.dtype} {array.shape}, expected {part.dtype} {shape}"
                    )


@dataclass(frozen=True)
class _Part:
    """One part of the observation: its arrays as rows of machine words."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    stack: int
    entry_bytes: int
    by_lane: np.ndarray  # [N, S, words]
    flat: np.ndarray  # [N * S, words]
    final: np.ndarray  # [R, words]


def _part(field: Field, arrays: Arrays, lanes: int, slots: int) -> _Part:
    obs, final, size = arrays[f"obs.{field.name}"], arrays[f"final.{field.name}"], field.entry_bytes
    by_lane = frames.as_words(obs, (lanes, slots), size)
    return _Part(
        name=field.name,
        shape=field.shape,
        dtype=np.dtype(field.dtype),
        stack=field.stack,
        entry_bytes=size,
        by_lane=by_lane,
        flat=by_lane.reshape(lanes * slots, -1),
        final=frames.as_words(final, (len(final),), size),
    )
