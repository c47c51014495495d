"""Moves observations and masks between blocks, the store and batches. Entries are rows of machine words, whatever
their dtype; masks are packed, action a in bit a % 8 of byte a // 8. Decides nothing: `where` (nstep.py) does."""

from __future__ import annotations

import numpy as np

from hotloop.core.jit import inline, kernel
from hotloop.replay.nstep import FINAL, NEXT, NEXT_BACK, OBS, OBS_BACK


def as_words(array: np.ndarray, lead: tuple[int, ...], entry_bytes: int, stack: int = 1) -> np.ndarray:
    """A contiguous array seen as [*lead, stack * words], in the widest words that one entry is a whole number of.
    The width must not depend on the stack: kernels copy between stacked and single entries word by word."""
    width = next(w for w in (8, 4, 2, 1) if entry_bytes % w == 0)
    return array.reshape(-1).view(f"u{width}").reshape(*lead, stack * (entry_bytes // width))


@inline
def copy_row(source, i, target, j, at):
    for w in range(source.shape[1]):
        target[j, at + w] = source[i, w]


@kernel
def store_entries(block, start, table):
    """block [T+1, N, words] → table [N, S, words], from slot `start` on; of a block longer than S the end stays."""
    slots = table.shape[1]
    for lane in range(block.shape[1]):
        slot = start
        for t in range(block.shape[0]):
            for w in range(block.shape[2]):
                table[lane, slot, w] = block[t, lane, w]
            slot = slot + 1 if slot + 1 < slots else 0


@kernel
def store_finals(block, start, final_row, table):
    """block [T, N, words] → table [R, words], where a step was given a row. In order of time, so that the last one
    stays where one block uses a slot or a row twice."""
    slots = final_row.shape[1]
    slot = start
    for t in range(block.shape[0]):
        for lane in range(block.shape[1]):
            row = final_row[lane, slot]
            if row >= 0:
                for w in range(block.shape[2]):
                    table[row, w] = block[t, lane, w]
        slot = slot + 1 if slot + 1 < slots else 0


@kernel
def pack(masks):
    """[X, A] bool → [X, ceil(A / 8)] uint8"""
    rows, actions = masks.shape
    out = np.zeros((rows, (actions + 7) // 8), np.uint8)
    for i in range(rows):
        for a in range(actions):
            if masks[i, a]:
                out[i, a >> 3] |= np.uint8(1 << (a & 7))
    return out


@kernel
def gather_entries(where, samples, stack, slots_per_lane, table, final, obs, next_obs):
    """table [N*S, words], final [R, words] → obs, next_obs [U*B, stack*words]."""
    for i in range(samples):
        row, final_row = where[i, NEXT], where[i, FINAL]
        if stack == 1:
            copy_row(table, where[i, OBS], obs, i, 0)
            if final_row >= 0:
                copy_row(final, final_row, next_obs, i, 0)
            elif row >= 0:
                copy_row(table, row, next_obs, i, 0)
            else:
                next_obs[i] = 0
            continue
        copy_stack(table, where[i, OBS], where[i, OBS_BACK], stack, slots_per_lane, obs, i)
        if final_row >= 0:
            copy_stack(table, row, where[i, NEXT_BACK], stack - 1, slots_per_lane, next_obs, i)
            copy_row(final, final_row, next_obs, i, (stack - 1) * table.shape[1])
        elif row >= 0:
            copy_stack(table, row, where[i, NEXT_BACK], stack, slots_per_lane, next_obs, i)
        else:
            next_obs[i] = 0


@inline
def copy_stack(table, newest, back, stack, slots_per_lane, target, i):
    """The `stack` frames up to `newest`, oldest first; the episode's first frame stands in for those before it."""
    position = newest % slots_per_lane
    words = table.shape[1]
    for j in range(stack):
        ago = min(stack - 1 - j, back)
        row = newest - ago if ago <= position else newest - ago + slots_per_lane
        copy_row(table, row, target, i, j * words)


@kernel
def gather_masks(where, samples, table, final, next_mask):
    """table [N*S, bytes], final [R, bytes] → next_mask [U*B, A] bool; all True where terminated."""
    for i in range(samples):
        row, final_row = where[i, NEXT], where[i, FINAL]
        for a in range(next_mask.shape[1]):
            if final_row >= 0:
                byte = final[final_row, a >> 3]
            elif row >= 0:
                byte = table[row, a >> 3]
            else:
                byte = np.uint8(255)
            next_mask[i, a] = (byte >> np.uint8(a & 7)) & np.uint8(1) != 0


@kernel
def gather_own_masks(where, samples, table, mask):
    """table [N*S, bytes] → mask [U*B, A] bool, that of the observation itself."""
    for i in range(samples):
        row = where[i, OBS]
        for a in range(mask.shape[1]):
            mask[i, a] = (table[row, a >> 3] >> np.uint8(a & 7)) & np.uint8(1) != 0
