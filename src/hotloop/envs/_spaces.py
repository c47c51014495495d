"""Gymnasium spaces → fields, and the writers that copy one observation, or a batch of them, into those fields.
Owns what is a part, an image, a one-hot and a joint action; knows no environment and no lane's history."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import Any

import numpy as np
from gymnasium import spaces

from hotloop.core.errors import UserError
from hotloop.core.types import Field

MAX_JOINT_ACTIONS = 4096
OBSERVATIONS = "Box, Discrete, MultiBinary, MultiDiscrete, Tuple, Dict"
ACTIONS = "Discrete, MultiDiscrete, MultiBinary"

# (one observation, arrays in the order of the fields, lane): copies it into row `lane` of each array.
Write = Callable[[Any, Sequence[np.ndarray], int], None]
# (a batched observation, arrays, rows): the same for the rows a mask or slice selects.
WriteRows = Callable[[Any, Sequence[np.ndarray], Any], None]


@dataclass(frozen=True)
class Layout:
    """How the observations of one space are stored."""

    fields: tuple[Field, ...]
    write: Write
    write_rows: WriteRows


@dataclass(frozen=True)
class Actions:
    """How actions 0 … A-1 are said in an environment's own words."""

    count: int  # A
    table: np.ndarray  # [A] or [A, *shape of one action], in the dtype of the space
    one: Callable[[int], Any]  # action -> what `step` of a single environment takes

    def many(self, actions: np.ndarray) -> np.ndarray:
        """What `step` of a vector environment takes: [N] -> [N, …]."""
        return self.table[actions]


# --- observations ----------------------------------------------------------------------------------------------------


def layout(space: Any, frame_stack: int = 1) -> Layout:
    """The fields of an observation space and their writers, or one line that says why there are none."""
    if frame_stack > 1 and not _has_image(space):
        raise UserError(f"frame_stack = {frame_stack}: there is no image (uint8 Box, 2 or 3 axes) to stack; set 1")
    found: list[Field] = []
    write, write_rows = _compile(space, "", frame_stack, found)
    names = [f.name for f in found]
    twice = {n for n in names if names.count(n) > 1}
    if twice:
        raise UserError(f"two parts of the observation would both be named {min(twice)!r}; rename a key of the Dict")
    return Layout(tuple(found), write, write_rows)


def _compile(space: Any, path: str, frame_stack: int, found: list[Field]) -> tuple[Write, WriteRows]:
    """Appends the fields of `space` to `found`. Each kind of space becomes closures once, so a step decides nothing."""
    name = path or "obs"
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return _compile_group(space, path, frame_stack, found)
    if isinstance(space, spaces.Discrete):
        return _one_hot(name, np.array([space.n]), np.array([space.start]), (), found)
    if isinstance(space, spaces.MultiDiscrete):
        _refuse_empty(name, space.nvec.shape, "MultiDiscrete")
        return _one_hot(name, space.nvec.ravel(), space.start.ravel(), space.nvec.shape, found)
    if isinstance(space, spaces.MultiBinary):
        _refuse_empty(name, space.shape, "MultiBinary")
        return _numbers(Field(name, space.shape, "uint8"), frozenset(), space.shape, (0, 1), None, found)
    if isinstance(space, spaces.Box):
        _refuse_empty(name, space.shape, "Box")
        return _compile_box(space, name, frame_stack, found)
    kind = type(space).__name__ if space is not None else "no"
    raise UserError(f"observation {name!r} has {kind} space; hotloop reads {OBSERVATIONS}")


def _refuse_empty(name: str, shape: tuple[int, ...], kind: str) -> None:
    if 0 in shape:
        raise UserError(f"observation {name!r} is empty: {kind}{shape} holds no number to learn from")


def _compile_group(space: Any, path: str, frame_stack: int, found: list[Field]) -> tuple[Write, WriteRows]:
    """Dict and Tuple: their children, each reached by its key."""
    items = list(space.spaces.items()) if isinstance(space, spaces.Dict) else list(enumerate(space.spaces))
    if not items:
        raise UserError(f"observation {path or 'obs'!r} is empty: a {type(space).__name__} without entries")
    compiled = [(key, *_compile(s, f"{path}.{key}" if path else str(key), frame_stack, found)) for key, s in items]
    ones = tuple((key, one) for key, one, _ in compiled)
    many = tuple((key, rows) for key, _, rows in compiled)
    lacks = f"observation {path or 'obs'!r} lacks one of its entries {[key for key, _ in items]}"

    def write(value: Any, arrays: Sequence[np.ndarray], lane: int) -> None:
        for key, child in ones:
            try:
                part = value[key]
            except (KeyError, IndexError, TypeError):
                raise UserError(lacks) from None
            child(part, arrays, lane)

    def write_rows(value: Any, arrays: Sequence[np.ndarray], rows: Any) -> None:
        for key, child in many:
            try:
                part = value[key]
            except (KeyError, IndexError, TypeError):
                raise UserError(lacks) from None
            child(part, arrays, rows)

    return write, write_rows


def _is_image(space: spaces.Box) -> bool:
    """A 2-axis Box counts only with the bounds of grey levels, since boards and tables are uint8 as well."""
    grey = bool((space.low == 0).all() and (space.high == 255).all())
    return space.dtype == np.uint8 and (len(space.shape) == 3 or (len(space.shape) == 2 and grey))


def _has_image(space: Any) -> bool:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        children = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        return any(map(_has_image, children))
    return isinstance(space, spaces.Box) and _is_image(space)


def _compile_box(space: spaces.Box, name: str, frame_stack: int, found: list[Field]) -> tuple[Write, WriteRows]:
    shape = space.shape
    storage = np.dtype(_storage(space))
    axes = None
    seen = shape or (1,)
    if _is_image(space):
        channels_last = len(shape) == 3 and shape[-1] in (1, 3, 4)
        if channels_last:
            seen, axes = (shape[2], shape[0], shape[1]), (2, 0, 1)
        elif len(shape) == 2:
            seen = (1, *shape)
        if frame_stack > 1 and seen[0] == 1:
            seen = seen[1:]  # the stack is the channel
    grey = storage == np.uint8 and len(shape) >= 2 and bool((space.low == 0).all() and (space.high == 255).all())
    field = Field(name, seen, storage.name, scale=1 / 255 if grey else 1.0)
    if frame_stack > 1 and _is_image(space):
        field = replace(field, stack=frame_stack)
    if storage.kind == "f":
        fast = frozenset((np.dtype("float32"), np.dtype("float64"), np.dtype(space.dtype)))
        return _numbers(field, fast, shape, None, axes, found)
    limits = (int(np.iinfo(storage).min), int(np.iinfo(storage).max))
    return _numbers(field, frozenset([storage]), shape, limits, axes, found)


def _storage(space: spaces.Box) -> str:
    """uint8 stays, integers that float32 holds exactly become float32, larger ones int32 while they fit."""
    dtype = np.dtype(space.dtype)
    if dtype.kind == "b" or dtype == np.uint8:
        return "uint8"
    if dtype.kind == "f":
        return "float32"
    low, high = int(space.low.min()), int(space.high.max())
    exact = max(abs(low), abs(high)) <= 2**24
    return "int32" if not exact and low >= -(2**31) and high < 2**31 else "float32"


def _numbers(
    field: Field,
    fast: frozenset[np.dtype],
    shape: tuple[int, ...],
    limits: tuple[int, int] | None,
    axes: tuple[int, ...] | None,
    found: list[Field],
) -> tuple[Write, WriteRows]:
    """A Box or a MultiBinary. Arrays whose dtype is in `fast` are copied as they are; others are looked at first."""
    part = len(found)
    found.append(field)
    stored = field.shape
    turned = shape if axes is None else tuple(shape[a] for a in axes)
    batch_axes = None if axes is None else (0, *(a + 1 for a in axes))

    def write(value: Any, arrays: Sequence[np.ndarray], lane: int) -> None:
        if type(value) is not np.ndarray or value.shape != shape or value.dtype not in fast:
            value = _checked(value, field, shape, limits)
        if axes is not None:
            value = value.transpose(axes)
        arrays[part][lane] = value if turned == stored else value.reshape(stored)

    def write_rows(value: Any, arrays: Sequence[np.ndarray], rows: Any) -> None:
        target = arrays[part]
        value = _checked(value, field, (len(target), *shape), limits)[rows]
        if batch_axes is not None:
            value = value.transpose(batch_axes)
        target[rows] = value.reshape(len(value), *stored)

    return write, write_rows


def _checked(value: Any, field: Field, shape: tuple[int, ...], limits: tuple[int, int] | None) -> np.ndarray:
    """An array that can be copied into the field without loss that matters, or one line saying why not."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise UserError(f"observation {field.name!r} is ragged; its space says shape {shape}") from None
    if array.dtype.kind not in "biuf":
        raise UserError(f"observation {field.name!r} has dtype {array.dtype}, which is no number")
    if array.shape != shape:
        raise UserError(f"observation {field.name!r} has shape {array.shape}; its space says {shape}")
    if limits is None:
        return array
    low, high = limits
    if not bool(((array >= low) & (array <= high)).all()):  # said so that NaN is outside as well
        raise UserError(f"observation {field.name!r} is outside {low} … {high}, which is what {field.dtype} here holds")
    cast = array.astype(field.dtype)
    if array.dtype.kind == "f" and not bool((cast == array).all()):
        raise UserError(f"observation {field.name!r} has fractions but its space says {field.dtype}")
    return cast


def _one_hot(
    name: str, counts: np.ndarray, starts: np.ndarray, shape: tuple[int, ...], found: list[Field]
) -> tuple[Write, WriteRows]:
    """Discrete and MultiDiscrete: one one-hot per number, one after the other."""
    part = len(found)
    width = int(counts.sum())
    found.append(Field(name, (width,), "uint8"))
    offsets = np.concatenate(([0], np.cumsum(counts)[:-1]))
    low, high = starts.astype(np.int64), (starts + counts).astype(np.int64)
    outside = f"observation {name!r} = {{}} is outside its space, {low.tolist()} up to below {high.tolist()}"

    def hot(value: Any, lead: tuple[int, ...]) -> np.ndarray:
        array = np.asarray(value)
        if array.dtype.kind not in "biu":
            raise UserError(f"observation {name!r} has dtype {array.dtype}; its space holds whole numbers")
        if array.shape != (*lead, *shape):
            raise UserError(f"observation {name!r} has shape {array.shape}; its space says {(*lead, *shape)}")
        flat = array.astype(np.int64).reshape(*lead, len(low))
        if not bool(((flat >= low) & (flat < high)).all()):
            raise UserError(outside.format(array.tolist()))
        return flat - low + offsets

    def write_one(value: Any, arrays: Sequence[np.ndarray], lane: int) -> None:
        try:
            position = index(value) - first
        except TypeError:
            position = int(hot(value, ())[0])  # numpy.bool_ is no index, and all else fails here with its line
        if not 0 <= position < width:
            raise UserError(outside.format(value))
        row = arrays[part][lane]
        row.fill(0)
        row[position] = 1

    def write(value: Any, arrays: Sequence[np.ndarray], lane: int) -> None:
        positions = hot(value, ())
        row = arrays[part][lane]
        row.fill(0)
        row[positions] = 1

    def write_rows(value: Any, arrays: Sequence[np.ndarray], rows: Any) -> None:
        target = arrays[part]
        positions = hot(value, (len(target),))[rows]
        ones = np.zeros((len(positions), width), np.uint8)
        np.put_along_axis(ones, positions, 1, axis=1)
        target[rows] = ones

    first = int(low[0])
    return (write if shape else write_one), write_rows


# --- actions ---------------------------------------------------------------------------------------------------------


def actions(space: Any, name: str) -> Actions:
    """The actions of an environment as 0 … A-1. Those of several numbers become one joint number, last one fastest."""
    if isinstance(space, spaces.Discrete) and space.n > 0:
        table = (np.arange(int(space.n)) + int(space.start)).astype(space.dtype)
        return Actions(len(table), table, list(table).__getitem__)
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.size:
        return _joint(space.nvec, space.start, space.dtype, name)
    if isinstance(space, spaces.MultiBinary) and math.prod(space.shape):
        return _joint(np.full(space.shape, 2), 0, space.dtype, name)
    if isinstance(space, spaces.Box):
        raise UserError(f"{name} has continuous actions Box{space.shape}; hotloop trains discrete actions: {ACTIONS}")
    kind = "no" if space is None else type(space).__name__
    raise UserError(f"{name} has {kind} actions; hotloop trains discrete actions: {ACTIONS}")


def _joint(counts: np.ndarray, start: Any, dtype: Any, name: str) -> Actions:
    joint = math.prod(int(n) for n in counts.ravel())
    if joint > MAX_JOINT_ACTIONS:
        raise UserError(
            f"{name} has {joint} joint actions {counts.tolist()}; hotloop flattens up to {MAX_JOINT_ACTIONS}, "
            "so wrap it with fewer"
        )
    columns = np.unravel_index(np.arange(joint), tuple(int(n) for n in counts.ravel()))
    table = (np.stack(columns, axis=-1).reshape(joint, *counts.shape) + start).astype(dtype)
    return Actions(joint, table, lambda action: table[action].copy())  # a copy: an environment may write into it
