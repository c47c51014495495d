"""Nested dict → TOML text; reading is the standard library's. Owns quoting only. TOML has no null: None is written as
"none", which core.options reads back as None wherever an option may be None."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import numpy as np

loads = tomllib.loads

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def dumps(data: Mapping[str, Any]) -> str:
    """One `[table]` per nested dict, in the order given; a table's own values come before its sub-tables."""
    lines: list[str] = []
    _table(data, "", lines)
    return "\n".join(lines).lstrip("\n") + "\n"


def _table(table: Mapping[str, Any], path: str, lines: list[str]) -> None:
    values = {k: v for k, v in table.items() if not isinstance(v, Mapping)}
    groups = {k: v for k, v in table.items() if isinstance(v, Mapping)}
    if path and (values or not groups):
        lines += ["", f"[{path}]"]
    lines += [f"{_key(k)} = {_value(v)}" for k, v in values.items()]
    for key, group in groups.items():
        _table(group, f"{path}.{_key(key)}" if path else _key(key), lines)


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"TOML keys are text; got {key!r}")
    return key if _BARE.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    # JSON's escapes are all TOML's too; only DEL is free in the one and forbidden in the other.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return '"none"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str | PurePath):
        return _text(str(value))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    raise TypeError(f"TOML cannot hold {type(value).__name__}: {value!r}")
