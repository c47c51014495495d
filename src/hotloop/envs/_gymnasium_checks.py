"""What a Gymnasium environment owes on every reset and step, and the one line that says what it gave instead.
Knows masks, batches and exceptions; knows neither spaces nor lanes' histories."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from hotloop.core.errors import UserError

NOTHING_LEGAL = "info['action_mask'] forbids every action of a state in which one has to be taken"
LATE_MASK = "info has an 'action_mask' at the end of an episode but had none at the first reset"
OURS = ("hotloop.envs.gymnasium", __name__)


def write_mask(info: dict[str, Any], masks: np.ndarray, lane: int) -> None:
    """Copy info['action_mask'] into one lane of masks [N, A]."""
    mask = info.get("action_mask")
    if mask is None:
        raise UserError("info has no 'action_mask' here although the first reset had one")
    if type(mask) is not np.ndarray or mask.shape != masks.shape[1:]:
        mask = mask_of(mask, masks.shape[1])
    masks[lane] = mask


def write_final_mask(info: dict[str, Any] | None, masks: np.ndarray, lane: int) -> None:
    """None stands for an end by the rules: nothing follows, and many environments give no mask or an empty one."""
    if info is None:
        masks[lane] = True
        return
    write_mask(info, masks, lane)
    if not masks[lane].any():
        raise UserError(NOTHING_LEGAL)


def mask_of(mask: Any, actions: int) -> np.ndarray:
    """One flag per action: [A]."""
    try:
        flags = np.asarray(mask)
    except ValueError:
        flags = np.empty(0)
    if flags.shape != (actions,):
        raise UserError(f"info['action_mask'] has shape {flags.shape}; hotloop reads one flag per action: ({actions},)")
    return flags


def masks_of(info: dict[str, Any], shape: tuple[int, ...], lanes: np.ndarray) -> np.ndarray:
    """The masks of some lanes from the info of a vector environment: [len(lanes), A]."""
    masks = info.get("action_mask", ())
    given = info.get("_action_mask", np.ones(shape[0], bool))
    if len(masks) != shape[0] or not given[lanes].all():
        raise UserError("info has no 'action_mask' for every lane although the first reset had one")
    return np.array([mask_of(masks[lane], shape[1]) for lane in lanes]).reshape(len(lanes), shape[1]) != 0


def flat(value: Any, lanes: int, what: str, kinds: str) -> np.ndarray:
    """A vector environment's rewards or flags, one per lane, of one of the NumPy kinds named."""
    given = np.asarray(value)
    if given.shape != (lanes,) or given.dtype.kind not in kinds:
        raise UserError(f"{what} is {given.dtype}{given.shape}; a vector environment owes one per lane: ({lanes},)")
    return given


def blame(error: Exception, name: str, where: str) -> Exception:
    """One line with the place if the environment broke its contract; an error of its own gets the place as a note."""
    if isinstance(error, UserError):
        return UserError(f"{name}: {error} ({where})")
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    # Raised by our own line and not in a call below it: what was returned could not even be unpacked.
    ours = frame is not None and frame.tb_frame.f_globals.get("__name__") in OURS
    if ours and isinstance(error, TypeError | ValueError | AttributeError):
        owed = "reset owes (observation, info), step (observation, reward, terminated, truncated, info)"
        return UserError(f"{name}: {owed}; {one_line(error)} ({where})")
    error.add_note(f"in {name}, {where}")
    return error


def is_number(value: Any) -> bool:
    """Whether a reward can be taken as it is; None and text cannot."""
    try:
        array("d", [value])
    except TypeError:
        return False
    return True


def one_line(value: Any) -> str:
    """A value as text that fits an error message."""
    text = " ".join(str(value).split())
    return text if len(text) <= 200 else f"{text[:197]}…"
