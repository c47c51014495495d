"""The scalar columns of the store: what a block writes into them, and what a slot means when it is sampled: n-step
return, discount, and where the observations lie that belong to it. Moves no observation itself (frames.py does)."""

from __future__ import annotations

import numpy as np

from hotloop.core.jit import kernel

GOES_ON, TERMINATED, TRUNCATED = 0, 1, 2

# The cursor, one int64 each. Steps are counted per lane from the first one ever written; step k lies in slot k % S.
#   STEPS      steps written so far; slot STEPS % S holds the newest observation, which has no action yet
#   FINALS     final observations written so far; number f lies in row f % R
#   FLOOR      no older step may be sampled, because the row of a final observation that it needs was reused
#   DISPLACED  final rows reused while the capacity would still have kept their transition
STEPS, FINALS, FLOOR, DISPLACED = 0, 1, 2, 3

# Columns of `where`, one row per sample: flat slots (lane * S + position) and how far one may look back from them.
OBS, OBS_BACK, NEXT, NEXT_BACK, FINAL = 0, 1, 2, 3, 4


@kernel
def take_final_row(cursor, final_owner, step, lane, oldest_kept):
    """The row for the final observation of one truncated step. What lay there is lost, so every transition that
    could reach it leaves the window: the floor rises past its owner, in all lanes alike."""
    rows = final_owner.shape[0]
    row = cursor[FINALS] % rows
    if cursor[FINALS] >= rows:
        owner = final_owner[row, 0]
        cursor[FLOOR] = max(cursor[FLOOR], owner + 1)
        if owner >= oldest_kept:
            cursor[DISPLACED] += 1
    final_owner[row, 0] = step
    final_owner[row, 1] = lane
    cursor[FINALS] += 1
    return row


@kernel
def commit(
    action,  # [T, N] int32
    reward,  # [T, N] float32
    terminated,  # [T, N] bool
    truncated,  # [T, N] bool
    num_actions,
    oldest_kept,  # the oldest step that capacity keeps once this block is in
    cursor,
    to_action,  # [N, S]
    to_reward,  # [N, S]
    to_end,  # [N, S]
    to_final_row,  # [N, S]
    final_owner,  # [R, 2]
):
    """Write the scalars of a block. Returns how many final observations need their row filled, or -1, with nothing
    written, if an action does not exist."""
    steps, lanes = action.shape
    for t in range(steps):
        for lane in range(lanes):
            if action[t, lane] < 0 or action[t, lane] >= num_actions:
                return -1
    slots = to_end.shape[1]
    finals_before = cursor[FINALS]
    for t in range(steps):
        step = cursor[STEPS] + t
        slot = step % slots
        for lane in range(lanes):
            to_action[lane, slot] = action[t, lane]
            to_reward[lane, slot] = reward[t, lane]
            to_final_row[lane, slot] = -1
            if terminated[t, lane]:
                to_end[lane, slot] = TERMINATED
            elif truncated[t, lane]:
                to_end[lane, slot] = TRUNCATED
                to_final_row[lane, slot] = take_final_row(cursor, final_owner, step, lane, oldest_kept)
            else:
                to_end[lane, slot] = GOES_ON
    cursor[STEPS] += steps
    return cursor[FINALS] - finals_before


@kernel
def before(position, steps, slots):
    """The position some steps earlier."""
    return position - steps if steps <= position else position - steps + slots


@kernel
def add_up(from_reward, from_end, lane, start, powers):
    """The discounted rewards of up to n steps, not beyond the end of the episode → (sum in float64, how many steps,
    position of the last of them, how it ended)."""
    n, slots = powers.shape[0] - 1, from_end.shape[1]
    total = powers[0] * np.float64(from_reward[lane, start])
    end = np.int64(from_end[lane, start])
    last, taken = start, 1
    while taken < n and end == GOES_ON:
        last = last + 1 if last + 1 < slots else 0
        total += powers[taken] * np.float64(from_reward[lane, last])
        end = np.int64(from_end[lane, last])
        taken += 1
    return total, taken, last, end


@kernel
def resolve(
    slots,  # [U, B] int64: lane * S + position
    oldest,  # position of the oldest step that may be sampled
    count,  # how many may be, per lane
    first,  # number of the oldest step
    reach,  # frames the deepest stack looks back
    powers,  # [n + 1] float64: gamma^0 … gamma^n
    from_action,  # [N, S]
    from_reward,  # [N, S]
    from_end,  # [N, S]
    from_final_row,  # [N, S]
    action,  # [U, B] int64
    reward,  # [U, B] float32
    discount,  # [U, B] float32
    where,  # [at least U * B, 5] int64
):
    """Everything of a batch that is not an observation. Returns the first slot outside the window, or -1."""
    lanes, slots_per_lane = from_end.shape
    for u in range(slots.shape[0]):
        for b in range(slots.shape[1]):
            i = u * slots.shape[1] + b
            slot = slots[u, b]
            lane = slot // slots_per_lane
            start = slot - lane * slots_per_lane
            age = start - oldest
            if age < 0:
                age += slots_per_lane
            if lane < 0 or lane >= lanes or age >= count:
                return i
            base = lane * slots_per_lane

            # Step 0 has nothing before it, whatever lies in the slot before its own.
            back, most = 0, min(reach, first + age)
            while back < most and from_end[lane, before(start, back + 1, slots_per_lane)] == GOES_ON:
                back += 1
            total, taken, last, end = add_up(from_reward, from_end, lane, start, powers)

            action[u, b] = from_action[lane, start]
            reward[u, b] = total
            discount[u, b] = 0.0 if end == TERMINATED else powers[taken]
            where[i, OBS] = slot
            where[i, OBS_BACK] = back
            following = last + 1 if last + 1 < slots_per_lane else 0
            where[i, NEXT] = base + following
            where[i, NEXT_BACK] = min(back + taken, reach)
            where[i, FINAL] = -1
            if end == TERMINATED:
                where[i, NEXT] = -1
            elif end == TRUNCATED:
                # The following slot begins another episode: the true next observation is the final one, and the
                # frames before it in a stack are those of the last slot of this episode.
                where[i, NEXT] = base + last
                where[i, NEXT_BACK] = min(back + taken - 1, reach)
                where[i, FINAL] = from_final_row[lane, last]
    return -1
