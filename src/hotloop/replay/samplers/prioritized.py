"""Transitions are as likely as their TD error was large, new ones as the largest yet (delayed priorities: written back
once per cycle, so all updates of a cycle choose by those of the one before). Schaul et al. 2016, arXiv 1511.05952:
proportional, stratified, with importance weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hotloop.core.errors import UserError
from hotloop.core.jit import kernel
from hotloop.core.options import option
from hotloop.core.random import SAMPLE, stream_key, uniform
from hotloop.core.types import Arrays
from hotloop.replay import sum_tree
from hotloop.replay.plan import HEADROOM, available, in_units
from hotloop.replay.samplers._base import Sampler
from hotloop.replay.store import Window


@dataclass(frozen=True)
class Options:
    alpha: float = option(0.6, "power of the priority; 0: all alike", ge=0, le=1)
    beta: float = option(0.4, "how far importance weights undo it, at the start; 1: all the way", ge=0, le=1)
    beta_end: float = option(1.0, "the same, at the end", ge=0, le=1)
    beta_anneal_env_steps: int = option(0, "env steps from the one to the other; 0: the whole budget", ge=0)
    floor: float = option(1e-6, "added to each priority, so that none is zero", ge=1e-30)


def make(options: Options, lanes: int, slots_per_lane: int, total_env_steps: int) -> Sampler:
    leaves = sum_tree.leaves_for(lanes * slots_per_lane)
    free, need = available(), 16 * leaves
    if free is not None and need > free * HEADROOM:
        raise UserError(
            f"sampler.name = prioritized: its sums need {in_units(need)}, but {in_units(free)} are free; "
            "lower replay.capacity, or choose --sampler uniform"
        )
    return _Prioritized(options, lanes, slots_per_lane, leaves, options.beta_anneal_env_steps or total_env_steps)


class _Prioritized:
    """Leaves are ordered by position first and lane second, so that what a block adds lies together. A leaf is
    (priority + floor) ^ alpha inside the window, and zero outside of it."""

    def __init__(self, options: Options, lanes: int, slots_per_lane: int, leaves: int, anneal_env_steps: int) -> None:
        self.options, self.lanes, self.slots_per_lane = options, lanes, slots_per_lane
        self._anneal_env_steps = anneal_env_steps
        self._tree = np.empty(2 * leaves, np.float64)
        self._tree.fill(0)  # touched now rather than at the first step
        self._leaf = self._tree[leaves : leaves + slots_per_lane * lanes].reshape(slots_per_lane, lanes)
        self._largest = np.ones(1)  # of all priorities yet
        self._known = np.zeros(2, np.int64)  # the window's first step and count
        self._chosen: Window | None = None  # the window as it stood when slots were last chosen
        self._room = np.empty((0,)), np.empty((0,), np.int64)

    def choose(self, window: Window, seed: int, update: int, slots: np.ndarray, weight: np.ndarray) -> None:
        if (window.first, window.count) != tuple(self._known):
            raise ValueError(f"{window} is not the one that was written last")
        if window.count == 0 and slots.size:
            raise ValueError(f"nothing to sample from in {window}")
        self._chosen = window
        beta = self.beta((window.first + window.count) * window.lanes)
        targets, nodes = self._scratch(slots.size)
        _choose(self._tree, self.lanes, self.slots_per_lane, seed, update, targets, nodes, slots, weight)
        np.power(weight, np.float32(beta), out=weight)  # NumPy has it for whole vectors

    def beta(self, env_steps: int) -> float:
        """After so many env steps. They are counted in the replay: those whose return is not yet known are not in."""
        o = self.options
        return o.beta + (o.beta_end - o.beta) * min(1.0, env_steps / self._anneal_env_steps)

    def written(self, window: Window) -> None:
        fresh = (self._largest[0] + self.options.floor) ** self.options.alpha
        _move(self._tree, self.lanes, self.slots_per_lane, self._known, window.first, window.count, fresh)

    def learned(self, slots: np.ndarray, priority: np.ndarray) -> None:
        """Of a slot that was learnt from twice, the later update counts, and in one batch the later row. What has left
        the window is forgotten. A priority that is no finite number ≥ 0 leaves the former one in place."""
        if self._chosen is None:
            raise ValueError("nothing was chosen that could have been learnt from")
        values, nodes = self._scratch(slots.size)
        chosen = self._chosen
        bad = _learn(
            self._tree, self.lanes, self.slots_per_lane, chosen.first, chosen.count, self._known, self._largest,
            self.options.alpha, self.options.floor, slots, priority, values, nodes,
        )  # fmt: skip
        if bad >= 0:
            raise ValueError(f"slot {slots.reshape(-1)[bad]} is outside {chosen}")

    def state(self) -> Arrays:
        return {"leaf": self._leaf, "largest": self._largest, "window": self._known}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        for name, array in self.state().items():
            np.copyto(array, state[name])
        sum_tree.rebuild(self._tree)
        self._chosen = None
        valid, fault = self.check_valid()
        if not valid:
            raise UserError(f"saved priorities are damaged ({fault}); resume from an older checkpoint")

    def check_valid(self) -> tuple[bool, str]:
        fault = self._first_fault()
        return fault == "", fault

    def _first_fault(self) -> str:
        first, count = int(self._known[0]), int(self._known[1])
        if min(first, count) < 0 or count >= self.slots_per_lane:
            return f"a window of {count} steps from {first} on, in lanes of {self.slots_per_lane} slots"
        inside = np.zeros(self.slots_per_lane, bool)
        inside[np.arange(first, first + count) % self.slots_per_lane] = True
        if not np.isfinite(self._tree[1:]).all() or not np.isfinite(self._largest).all():
            return "a priority is not finite"
        if (self._leaf[~inside] != 0).any() or self._tree[self._tree.size // 2 + self._leaf.size :].any():
            return "a slot outside the window has a priority"
        if (self._leaf[inside] <= 0).any():
            return "a slot inside the window has none"
        if (self._tree[1 : self._tree.size // 2] != self._tree[2::2] + self._tree[3::2]).any():
            return "a sum is not that of its parts"
        return ""

    def _scratch(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        if len(self._room[0]) != size:
            self._room = np.empty(size), np.empty(size, np.int64)
        return self._room


@kernel
def _choose(tree, lanes, slots_per_lane, seed, update, targets, nodes, slots, weight):
    """The sum is cut into B equal parts, and one transition is drawn from each: row by row for all U at once, part by
    part, since neighbouring draws then go down the same branches.

    Weights are (1 / (N P)) ^ beta over the largest of their batch, so N and the sum cancel: `weight` becomes what is
    to be raised to beta. The largest of the whole replay would need a tree of its own, and would let one transition of
    tiny priority shrink every update."""
    key, leaves = stream_key(seed, SAMPLE, 0), tree.shape[0] // 2
    updates, size = slots.shape
    for b in range(size):
        for u in range(updates):
            targets[b * updates + u] = (b + uniform(key, update + u, b)) * tree[1] / size
    sum_tree.find(tree, targets, nodes)
    for u in range(updates):
        least = np.inf
        for b in range(size):
            least = min(least, tree[nodes[b * updates + u]])
        for b in range(size):
            node = nodes[b * updates + u]
            position = (node - leaves) // lanes
            slots[u, b] = (node - leaves - position * lanes) * slots_per_lane + position
            weight[u, b] = least / tree[node]


@kernel
def _move(tree, lanes, slots_per_lane, known, first, count, fresh):
    """The window becomes `count` steps from `first` on: what it leaves behind is zero, what is new to it is fresh."""
    end, known_end = first + count, known[0] + known[1]
    _fill_steps(tree, lanes, slots_per_lane, known[0], min(first, known_end), 0.0)
    _fill_steps(tree, lanes, slots_per_lane, max(first, known_end), end, fresh)
    known[0] = first
    known[1] = count


@kernel
def _fill_steps(tree, lanes, slots_per_lane, begin, end, value):
    """Steps begin … end - 1 of every lane."""
    if begin >= end:
        return
    low = begin % slots_per_lane
    before_wrap = min(end - begin, slots_per_lane - low)
    sum_tree.fill(tree, low * lanes, before_wrap * lanes, value)
    sum_tree.fill(tree, 0, (end - begin - before_wrap) * lanes, value)


@kernel
def _learn(
    tree,
    lanes,
    slots_per_lane,
    first,  # number of the oldest step when the slots were chosen
    count,  # steps per lane that could be chosen then
    known,  # the window now
    largest,  # [1]
    alpha,
    floor,
    slots,  # [U, B]
    priority,  # [U, B]
    values,  # [U * B] scratch
    nodes,  # [U * B] scratch
):
    """Returns the first slot that cannot have been chosen, before anything is changed, or -1."""
    updates, size = slots.shape
    kept = 0
    for u in range(updates):
        for b in range(size):
            lane = slots[u, b] // slots_per_lane
            position = slots[u, b] - lane * slots_per_lane
            age = (position - first) % slots_per_lane
            if lane < 0 or lane >= lanes or age >= count:
                return u * size + b
            new = np.float64(priority[u, b])
            # Only by its number is a step told from the one that took over its slot.
            if first + age >= known[0] and 0.0 <= new < np.inf:
                largest[0] = max(largest[0], new)
                values[kept] = (new + floor) ** alpha
                nodes[kept] = tree.shape[0] // 2 + position * lanes + lane
                kept += 1
    sum_tree.put(tree, nodes, values, kept)
    return -1
