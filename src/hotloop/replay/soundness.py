"""Whether a store's arrays agree with each other, and with what every environment promises. Reads all that is live;
knows nothing of how it came to be written."""

from __future__ import annotations

from math import ceil

import numpy as np

from hotloop.core.types import Arrays, EnvSpec
from hotloop.replay.nstep import DISPLACED, FINALS, FLOOR, STEPS, TRUNCATED


def first_fault(arrays: Arrays, spec: EnvSpec, first: int, count: int, n_step: int) -> str:
    """The first thing found wrong, or "". The window is `count` steps from number `first` on."""
    slots_per_lane = arrays["end"].shape[1]
    steps, floor = int(arrays["cursor"][STEPS]), int(arrays["cursor"][FLOOR])
    kept = max(0, steps - (slots_per_lane - 1))  # the oldest step whose slot was not reused
    if min(arrays["cursor"]) < 0 or floor > steps or arrays["cursor"][DISPLACED] > arrays["cursor"][FINALS]:
        return f"cursor {arrays['cursor'].tolist()} is impossible"
    if count and not max(kept, floor) <= first <= first + count - 1 + n_step <= steps:
        return f"the window, {count} steps from {first} on, leaves the {steps - kept} steps kept, or floor {floor}"
    live = np.arange(kept, steps) % slots_per_lane
    with_tail = np.arange(kept, steps + 1) % slots_per_lane
    return (
        _scalars(arrays, spec, live)
        or _observations(arrays, spec, with_tail if steps else with_tail[:0])
        or _finals(arrays, max(kept, floor), steps)
        or (_masks(arrays, spec, live, with_tail) if spec.masked and steps else "")
    )


def _scalars(arrays: Arrays, spec: EnvSpec, live: np.ndarray) -> str:
    if (arrays["action"][:, live] >= spec.num_actions).any():
        return f"an action is not below {spec.num_actions}"
    if (arrays["end"][:, live] > TRUNCATED).any():
        return "an end flag is none of 0, 1, 2"
    if not np.isfinite(arrays["reward"][:, live]).all():
        return "a reward is not finite"
    return ""


def _observations(arrays: Arrays, spec: EnvSpec, live: np.ndarray) -> str:
    for field in spec.observation:
        if np.dtype(field.dtype).kind == "f" and np.isnan(arrays[f"obs.{field.name}"][:, live]).any():
            return f"observation part {field.name!r} holds NaN"
    return ""


def _finals(arrays: Arrays, oldest: int, steps: int) -> str:
    """Every truncated step that may still be reached owns one final row, and every such row is owned by one."""
    numbers = np.arange(oldest, steps)
    live = numbers % arrays["end"].shape[1]
    rows = arrays["final_row"][:, live]
    truncated = arrays["end"][:, live] == TRUNCATED
    written = min(int(arrays["cursor"][FINALS]), len(arrays["final_owner"]))
    if (rows[~truncated] != -1).any():
        return "a step that was not truncated has a final observation"
    if ((rows[truncated] < 0) | (rows[truncated] >= written)).any():
        return "a truncated step lacks its final observation"
    lane, nth = np.nonzero(truncated)
    owners = arrays["final_owner"][rows[truncated]]
    if (owners[:, 0] != numbers[nth]).any() or (owners[:, 1] != lane).any():
        return "a final observation belongs to another step than the one that names it"
    if (arrays["final_owner"][:written, 0] >= oldest).sum() != len(lane):
        return "a final observation belongs to a step that does not name it"
    return ""


def _masks(arrays: Arrays, spec: EnvSpec, live: np.ndarray, with_tail: np.ndarray) -> str:
    masks = np.unpackbits(arrays["mask"][:, with_tail], axis=2, bitorder="little").astype(bool)
    if masks.shape[2] != 8 * ceil(spec.num_actions / 8) or masks[:, :, spec.num_actions :].any():
        return "a mask names actions that do not exist"
    if not masks.any(axis=2).all():
        return "a mask allows no action"
    actions = arrays["action"][:, live].astype(np.int64)[:, :, None]
    if not np.take_along_axis(masks[:, :-1], actions, axis=2).all():
        return "an action was not legal under its mask"
    return ""
