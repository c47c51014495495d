"""Hindsight experience replay (Andrychowicz et al. 2017, arXiv 1707.01495, strategy "future"): samples are told, after
they were gathered, that their goal was one that their episode did reach later, with the rewards that follow from it.
Works with any sampler; knows no world but its `Goal`."""

from __future__ import annotations

import numpy as np

from hotloop.core.errors import UserError
from hotloop.core.jit import kernel
from hotloop.core.random import HINDSIGHT, below, stream_key, uniform
from hotloop.core.types import Batch, EnvSpec, Field, Goal
from hotloop.replay.nstep import GOES_ON, STEPS, TERMINATED, TRUNCATED, add_up
from hotloop.replay.store import Store


class Hindsight:
    """Of k + 1 samples k get another goal. A goal never comes from another episode. A sample that reaches an end by
    the rules keeps its own: what was seen there is not stored, and if the goal ended the episode it was reached."""

    def __init__(self, store: Store, goal: Goal, k: int) -> None:
        achieved, _ = fields_of(store.spec, goal)
        self._store, self._goal, self._k = store, goal, k
        self._shape, self._n = achieved.shape, store.options.n_step
        arrays = store.state()
        self._entries = arrays[f"obs.{goal.achieved}"].reshape(-1, *self._shape)  # [N * S, …]
        self._finals = arrays[f"final.{goal.achieved}"]  # [R, …]
        self._powers = np.array([store.gamma**j for j in range(self._n + 1)], np.float64)
        self._room = np.empty((0, self._n + 3), np.int64)
        self._draw(np.empty((0, 1), np.int64), 0, 0)  # compile now rather than at the first step

    def relabel(self, slots: np.ndarray, seed: int, update: int, batch: Batch) -> None:
        """batch: what was gathered for slots [U, B], of update number `update` on."""
        drawn = self._draw(slots, seed, update)
        if not len(drawn):
            return
        which, taken, after = drawn[:, 0], drawn[:, 1], drawn[:, 3:]
        wanted = self._achieved(drawn[:, 2])
        reached, repeated = self._achieved(after).reshape(-1, *self._shape), np.repeat(wanted, self._n, axis=0)
        reward = self._goal.reward(reached, repeated).reshape(after.shape)
        steps = np.arange(self._n)
        ends = np.zeros(after.shape, bool)
        if self._goal.terminated is not None:
            ends = self._goal.terminated(reached, repeated).reshape(after.shape)
        ended = ends.any(axis=1)
        lasting = np.where(ended, ends.argmax(axis=1) + 1, taken)
        worth = np.where(steps < lasting[:, None], reward * self._powers[:-1], 0.0).sum(axis=1)
        batch.reward.reshape(-1)[which] = worth
        batch.discount.reshape(-1)[which] = np.where(ended, 0.0, self._powers[lasting])
        for parts in (batch.obs, batch.next_obs):
            part = _flat(parts[self._goal.desired])
            part[which] = wanted if part.ndim == wanted.ndim else wanted[:, None]  # one goal for all frames of a stack
        for part in batch.next_obs.values():
            _flat(part)[which[ended]] = 0  # as where an episode ends
        if batch.next_mask is not None:
            _flat(batch.next_mask)[which[ended]] = True

    def _draw(self, slots: np.ndarray, seed: int, update: int) -> np.ndarray:
        """A row for each sample that is relabelled: its number, how many steps it spans, and rows of what was
        achieved: the new goal, then what was after each of its n steps, the last one again where it spans fewer."""
        if len(self._room) < slots.size:
            self._room = np.empty((slots.size, self._n + 3), np.int64)
        store, window = self._store.state(), self._store.window()
        count = _draw(
            slots, window.oldest, window.first, store["cursor"], self._powers, store["reward"], store["end"],
            store["final_row"], self._k, seed, update, self._room,
        )  # fmt: skip
        return self._room[:count]

    def _achieved(self, rows: np.ndarray) -> np.ndarray:
        """rows: of the store's entries; those below 0 of its final ones."""
        found, late = self._entries[np.maximum(rows, 0)], rows < 0
        found[late] = self._finals[-1 - rows[late]]
        return found


def fields_of(spec: EnvSpec, goal: Goal) -> tuple[Field, Field]:
    """The two parts of the observation, achieved and desired."""
    known = {field.name: field for field in spec.observation}
    for name in (goal.achieved, goal.desired):
        if name not in known:
            raise UserError(f"{spec.name} has goals but no observation part {name!r}; it has {list(known)}")
    achieved, desired = known[goal.achieved], known[goal.desired]
    if (achieved.shape, achieved.dtype) != (desired.shape, desired.dtype):
        raise UserError(
            f"{spec.name}: {goal.achieved} is {achieved.dtype}{list(achieved.shape)} but {goal.desired} "
            f"{desired.dtype}{list(desired.shape)}; a goal has to be of the kind of what is achieved"
        )
    return achieved, desired


def _flat(array: np.ndarray) -> np.ndarray:
    """[U, B, …] -> [U * B, …], the same memory"""
    return array.reshape(-1, *array.shape[2:])


@kernel
def _draw(
    slots,  # [U, B]
    oldest,  # position of the window's oldest step
    first,  # its number
    cursor,
    powers,  # [n + 1]
    from_reward,  # [N, S]
    from_end,  # [N, S]
    from_final_row,  # [N, S]
    k,
    seed,
    update,
    out,  # [at least U * B, n + 3]
):
    """Returns how many rows of `out` were written. An entry of the store is named by its flat slot, a final
    observation by -1 - row."""
    key, count = stream_key(seed, HINDSIGHT, 0), 0
    n, per_lane = powers.shape[0] - 1, from_end.shape[1]
    for u in range(slots.shape[0]):
        for b in range(slots.shape[1]):
            if uniform(key, update + u, 2 * b) * (k + 1) >= k:
                continue
            lane = slots[u, b] // per_lane
            start = slots[u, b] - lane * per_lane
            _, taken, _, end = add_up(from_reward, from_end, lane, start, powers)
            if end == TERMINATED:
                continue
            # How many observations of the episode follow in the lane itself, and where the last of them lies.
            most = cursor[STEPS] - (first + (start - oldest) % per_lane)
            later, last = 0, start
            while later < most and from_end[lane, last] == GOES_ON:
                later += 1
                last = last + 1 if last + 1 < per_lane else 0
            cut = later < most and from_end[lane, last] == TRUNCATED
            final = np.int64(-1) - from_final_row[lane, last] if cut else np.int64(0)
            at = 1 + below(key, update + u, 2 * b + 1, later + np.int64(cut))
            out[count, 0] = u * slots.shape[1] + b
            out[count, 1] = taken
            for j in range(n + 1):
                ahead = at if j == 0 else min(j, taken)
                out[count, 2 + j] = lane * per_lane + (start + ahead) % per_lane if ahead <= later else final
            count += 1
    return count
