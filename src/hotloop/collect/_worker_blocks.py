"""How a block lies in a slot of a ring: one array after the other, by a plan that both sides make from the spec. Where
no episode ended, final observations are not copied: they mean nothing there."""

from __future__ import annotations

import numpy as np

from hotloop.core.types import Block, EnvSpec

_LINE = 64


def block_bytes(spec: EnvSpec, steps: int, lanes: int) -> int:
    return sum(-(-nbytes // _LINE) * _LINE for _, _, nbytes in _plan(spec, steps, lanes))


def block_in(slot: np.ndarray, spec: EnvSpec, steps: int, lanes: int) -> Block:
    """A slot, uint8 [block_bytes], as the block that lies in it."""
    arrays, at = [], 0
    for shape, dtype, nbytes in _plan(spec, steps, lanes):
        arrays.append(slot[at : at + nbytes].view(dtype).reshape(shape))
        at += -(-nbytes // _LINE) * _LINE
    names = [f.name for f in spec.observation]
    obs, final_obs, rest = arrays[: len(names)], arrays[len(names) : 2 * len(names)], arrays[2 * len(names) :]
    action, reward, terminated, truncated, measures, *masks = rest
    mask, final_mask = masks or (None, None)
    return Block(
        dict(zip(names, obs, strict=True)), action, reward, terminated, truncated,
        dict(zip(names, final_obs, strict=True)), measures, mask, final_mask,
    )  # fmt: skip


def _plan(spec: EnvSpec, steps: int, lanes: int) -> list[tuple[tuple[int, ...], str, int]]:
    """(shape, dtype, bytes) of each array, in their order."""
    plan: list[tuple[tuple[int, ...], str]] = [((steps + 1, lanes, *f.shape), f.dtype) for f in spec.observation]
    plan += [((steps, lanes, *f.shape), f.dtype) for f in spec.observation]
    plan += [((steps, lanes), kind) for kind in ("int32", "float32", "bool", "bool")]
    plan += [((steps, lanes, len(spec.measures)), "float32")]
    if spec.masked:
        plan += [((n, lanes, spec.num_actions), "bool") for n in (steps + 1, steps)]
    return [(shape, dtype, int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize) for shape, dtype in plan]


def copy_block(block: Block, to: Block, lanes: slice) -> None:
    """Every row of `block` into some of the lanes of `to`."""
    for name, array in block.obs.items():
        to.obs[name][:, lanes] = array
    for mine, theirs in (
        (to.action, block.action),
        (to.reward, block.reward),
        (to.terminated, block.terminated),
        (to.truncated, block.truncated),
    ):
        mine[:, lanes] = theirs
    if to.mask is not None and block.mask is not None:
        to.mask[:, lanes] = block.mask
    t, lane = np.nonzero(block.terminated | block.truncated)
    if not len(t):
        return
    there = lane + lanes.start
    to.measures[t, there] = block.measures[t, lane]
    for name, array in block.final_obs.items():
        to.final_obs[name][t, there] = array[t, lane]
    if to.final_mask is not None and block.final_mask is not None:
        to.final_mask[t, there] = block.final_mask[t, lane]


def first_fault(block: Block, spec: EnvSpec) -> tuple[int, int, str] | None:
    """(t, lane, what) of the first value that may not enter a replay: kernels trust what they are given, and a number
    that is not finite spoils every weight."""
    if not np.isfinite(block.reward).all():
        t, lane = np.argwhere(~np.isfinite(block.reward))[0]
        return int(t), int(lane), f"reward {block.reward[t, lane]}"
    for field in spec.observation:
        if np.dtype(field.dtype).kind != "f":
            continue
        ended = block.terminated | block.truncated
        # Row 0 was judged with the block before it, or belongs to a reset: its fault is that of the first action.
        for array, what in (
            (block.obs[field.name][1:], "observation"),
            (block.final_obs[field.name], "last observation"),
        ):
            wrong = np.isnan(array).reshape(*array.shape[:2], -1).any(2)
            wrong = wrong & ended if what == "last observation" else wrong
            if wrong.any():
                t, lane = np.argwhere(wrong)[0]
                return int(t), int(lane), f"NaN in {what} {field.name!r}"
    return None
