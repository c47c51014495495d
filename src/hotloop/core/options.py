"""Frozen dataclasses ⇄ nested dict ⇄ command-line text. One place converts and checks, so that a TOML file and a
flag fail with the same one-line message naming the path of the key."""

from __future__ import annotations

import math
import operator
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar

import numpy as np

from hotloop.core.errors import UserError, unknown

T = TypeVar("T")


def option(
    default: Any, help: str, *, ge: float | None = None, gt: float | None = None, le: float | None = None
) -> Any:
    """A field of an Options dataclass: its default, its line of help, and the range it must lie in."""
    return field(default=default, metadata={"help": help, "ge": ge, "gt": gt, "le": le})


@cache
def type_of(cls: type, name: str) -> Any:
    return typing.get_type_hints(cls)[name]


def from_dict(cls: type[T], data: Mapping[str, Any], path: str = "", base: T | None = None) -> T:
    """Build `cls` from nested mappings. Keys that are missing keep the value of `base`, or the default."""
    known = [f.name for f in fields(cls)]  # type: ignore[arg-type]
    for key in data:
        if key not in known:
            raise unknown("option", f"{path}{key}", [f"{path}{k}" for k in known])
    values = {}
    for f in fields(cls):  # type: ignore[arg-type]
        if f.name in data:
            inner = getattr(base, f.name) if base is not None else None
            values[f.name] = _convert(type_of(cls, f.name), data[f.name], f"{path}{f.name}", inner, f.metadata)
        elif base is not None:
            values[f.name] = getattr(base, f.name)
        elif f.default is MISSING and f.default_factory is MISSING:
            raise UserError(f"option {path}{f.name} is required")
    return cls(**values)


def to_dict(options: Any) -> dict[str, Any]:
    """The inverse of from_dict: plain values that TOML and JSON can hold."""
    out: dict[str, Any] = {}
    for f in fields(options):
        value = getattr(options, f.name)
        if is_dataclass(value):
            value = to_dict(value)
        elif isinstance(value, tuple):
            value = list(value)
        out[f.name] = value
    return out


def _convert(kind: Any, value: Any, path: str, base: Any, limits: Mapping[str, Any]) -> Any:
    if is_dataclass(kind):
        if not isinstance(value, Mapping):
            raise UserError(f"option {path} is a group; got {shown(value)}")
        return from_dict(kind, value, f"{path}.", base)  # type: ignore[arg-type]
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        (inner,) = [a for a in typing.get_args(kind) if a is not type(None)]
        absent = value is None or (isinstance(value, str) and value == "none")
        return None if absent else _convert(inner, value, path, None, limits)
    if typing.get_origin(kind) is Literal:
        choices = typing.get_args(kind)
        if not isinstance(value, str) or value not in choices:
            raise UserError(f"option {path} = {shown(value)}: choose one of {', '.join(map(str, choices))}")
        return value
    if typing.get_origin(kind) is tuple:
        return _tuple(kind, value, path, limits)
    if typing.get_origin(kind) is dict or kind is dict:
        if not isinstance(value, Mapping):
            raise UserError(f"option {path} is a group; got {shown(value)}")
        return dict(value)
    return _in_range(_scalar(kind, value, path), path, limits)


def _tuple(kind: Any, value: Any, path: str, limits: Mapping[str, Any]) -> tuple:
    inner = typing.get_args(kind)[0]
    items = [v for v in value.split(",") if v.strip()] if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise UserError(f"option {path} = {shown(value)}: expected a list such as 128,128")
    return tuple(_in_range(_scalar(inner, v, path), path, limits) for v in items)


def _scalar(kind: type, value: Any, path: str) -> Any:
    """One value of type int, float, bool or str, from TOML (already typed) or from text."""
    wrong = UserError(f"option {path} = {shown(value)}: expected {_NAMES.get(kind, kind.__name__)}")
    if kind is bool:
        if isinstance(value, bool | np.bool_):
            return bool(value)
        text = value.lower() if isinstance(value, str) else value
        if isinstance(text, str | int) and text in ("true", "yes", "on", "1", 1):
            return True
        if isinstance(text, str | int) and text in ("false", "no", "off", "0", 0):
            return False
        raise wrong
    if kind is str:
        if not isinstance(value, str):
            raise wrong
        return value
    if isinstance(value, bool):
        raise wrong
    text = value.replace("_", "").strip() if isinstance(value, str) else value
    if kind is int:
        exact = _whole(text)
        if exact is not None:
            return _in_range(exact, path, _INT64)
    try:
        number = float(text)
    except (TypeError, ValueError, OverflowError):
        raise wrong from None
    if not math.isfinite(number) or (kind is int and number != int(number)):
        raise wrong
    return _in_range(int(number), path, _INT64) if kind is int else number


def _whole(value: Any) -> int | None:
    """A whole number that a float could not hold without rounding; None where the value is not one."""
    try:
        return int(value) if isinstance(value, str) else operator.index(value)
    except (TypeError, ValueError):
        return None


def shown(value: Any) -> str:
    """A value on one line, however long it is."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a whole number of more than 4,300 digits, or a class of the user's
        text = f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= 80 else f"{text[:79]}…"


_INT64 = {"ge": -(2**63), "le": 2**63 - 1}  # what TOML and NumPy can hold
_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def _in_range(value: Any, path: str, limits: Mapping[str, Any]) -> Any:
    for sign, name, holds in (
        ("at least", "ge", lambda a, b: a >= b),
        ("more than", "gt", lambda a, b: a > b),
        ("at most", "le", lambda a, b: a <= b),
    ):
        bound = limits.get(name)
        if bound is not None and not holds(value, bound):
            raise UserError(f"option {path} = {shown(value)}: must be {sign} {bound}")
    return value
