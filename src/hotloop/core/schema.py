"""One table of fields → arrays, allocated once. New memory can be poisoned, so that a value read before it was
written is obvious."""

from __future__ import annotations

import os
from collections.abc import Iterable

import numpy as np

from hotloop.core.types import Arrays, Batch, Block, EnvSpec, Field, Steps

POISON = os.environ.get("HOTLOOP_POISON") == "1"


def allocate(shape: tuple[int, ...], dtype: str | np.dtype) -> np.ndarray:
    """A C-contiguous array whose pages are already touched: zeros, or poison when HOTLOOP_POISON=1."""
    array = np.empty(shape, dtype)
    if POISON:
        poison(array)
    else:
        array.fill(0)
    return array


def poison(array: np.ndarray) -> None:
    """NaN for floats, the largest value for integers, True for flags."""
    if array.dtype.kind == "f":
        array.fill(np.nan)
    elif array.dtype.kind == "b":
        array.fill(True)
    else:
        array.fill(np.iinfo(array.dtype).max)


def parts(fields: Iterable[Field], *lead: int, seen: bool = False) -> Arrays:
    """Arrays [*lead, *shape] for each part of an observation; `seen` gives the stacked shape."""
    return {f.name: allocate((*lead, *(f.seen if seen else f.shape)), f.dtype) for f in fields}


def new_steps(spec: EnvSpec, lanes: int) -> Steps:
    """Room for one batched step."""
    block = new_block(spec, 1, lanes)
    return steps_of(block, 0)


def new_block(spec: EnvSpec, steps: int, lanes: int) -> Block:
    """Room for T batched steps of N lanes."""
    masks = (steps + 1, lanes, spec.num_actions)
    return Block(
        obs=parts(spec.observation, steps + 1, lanes),
        action=allocate((steps, lanes), "int32"),
        reward=allocate((steps, lanes), "float32"),
        terminated=allocate((steps, lanes), "bool"),
        truncated=allocate((steps, lanes), "bool"),
        final_obs=parts(spec.observation, steps, lanes),
        measures=allocate((steps, lanes, len(spec.measures)), "float32"),
        mask=allocate(masks, "bool") if spec.masked else None,
        final_mask=allocate((steps, lanes, spec.num_actions), "bool") if spec.masked else None,
    )


def steps_of(block: Block, t: int) -> Steps:
    """The view of a block that step t writes: its observation is row t+1, the one after the action."""
    return Steps(
        obs={name: array[t + 1] for name, array in block.obs.items()},
        reward=block.reward[t],
        terminated=block.terminated[t],
        truncated=block.truncated[t],
        final_obs={name: array[t] for name, array in block.final_obs.items()},
        measures=block.measures[t],
        mask=None if block.mask is None else block.mask[t + 1],
        final_mask=None if block.final_mask is None else block.final_mask[t],
    )


def new_batch(spec: EnvSpec, updates: int, batch: int, mask: bool = False) -> Batch:
    """Room for U batches of B transitions. mask: also for that of obs, where there are any."""
    shape = (updates, batch)
    return Batch(
        obs=parts(spec.observation, *shape, seen=True),
        action=allocate(shape, "int64"),
        reward=allocate(shape, "float32"),
        discount=allocate(shape, "float32"),
        next_obs=parts(spec.observation, *shape, seen=True),
        next_mask=allocate((*shape, spec.num_actions), "bool") if spec.masked else None,
        weight=allocate(shape, "float32"),
        mask=allocate((*shape, spec.num_actions), "bool") if spec.masked and mask else None,
    )
