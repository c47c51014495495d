"""What batches of native lanes have in common: a checked start, and a state that is copied out and in.
Knows no world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from hotloop.core.errors import UserError
from hotloop.core.jit import kernel
from hotloop.core.options import from_dict, to_dict
from hotloop.core.random import ENV, stream_key
from hotloop.core.types import Arrays

T = TypeVar("T")

# Columns of a world's `stream` array, uint64 [N, 2]: the lane's key, and its steps since reset(). The count goes on
# over episodes, so that no draw is ever repeated.
KEY, COUNT = 0, 1


def checked(options: T, lanes: int) -> T:
    """The options, refused where out of range: kernels index memory by them."""
    if lanes < 1:
        raise UserError(f"lanes = {lanes}: must be at least 1")
    return from_dict(type(options), to_dict(options))


@kernel
def start_streams(seed, first_lane, stream):
    """Give each lane its own stream of random numbers, from its first draw."""
    for i in range(stream.shape[0]):
        stream[i, KEY] = stream_key(seed, ENV, first_lane + i)
        stream[i, COUNT] = np.uint64(0)


def copied(state: Arrays) -> Arrays:
    """A snapshot that later steps do not touch."""
    return {name: array.copy() for name, array in state.items()}


def restore(state: Arrays, saved: Mapping[str, np.ndarray]) -> None:
    """Write a snapshot back, all of it or nothing."""
    for name, array in state.items():
        if name not in saved:
            raise UserError(f"state {name!r} is missing; a state must come from the same world")
        if saved[name].shape != array.shape or saved[name].dtype != array.dtype:
            given, wanted = (f"{a.dtype}{list(a.shape)}" for a in (saved[name], array))
            raise UserError(f"state {name!r} is {given}, this world's is {wanted}: use the same options and lanes")
    for name, array in state.items():
        array[...] = saved[name]
