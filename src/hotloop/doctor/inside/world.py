"""Whether a reset restores the world: arrays that an environment holds are compared, after some of its resets, with
what they were after the first. Also puts them back, where the doctor asks for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from .recorder import Recorder, now

LEAST, MOST = 64, 4_000_000  # entries of an array that is watched
ARRAYS, NODES, DEPTH = 24, 400, 4
SHARE = 0.01  # of the run that may be spent on this
FOREIGN = ("numpy", "torch", "builtins", "collections", "random", "threading", "logging", "types", "pygame")


class World:
    def __init__(self, rec: Recorder, restore: Sequence[str]) -> None:
        self.rec = rec
        self.restore = frozenset(restore)
        self.first: dict[int, tuple[Any, Any, str]] = {}  # id of an array -> it, as it first was, its name
        self.changed: dict[int, Any] = {}
        self.owners: dict[int, set[int]] = {}
        self.resets = 0
        self.due = 1
        self.spent = 0

    def before(self, env: Any) -> None:
        """What was found to be spoilt is put back before the environment's own reset."""
        if self.restore:
            for array, was, name in self.first.values():
                if name in self.restore:
                    array[...] = was

    def after(self, env: Any) -> None:
        rec, at = self.rec, now()
        if not (rec.on or self.restore) or (self.restore and self.first):
            return
        self.resets += 1
        if self.resets > 2 and (self.resets < self.due or self.spent > SHARE * (at - rec.began)):
            return
        self.due = self.resets + max(1, self.resets // 5)
        for path, array in found(env):
            self.compare(env, path, array)
        took = now() - at
        self.spent += took
        rec.lost += took

    def compare(self, env: Any, path: str, array: Any) -> None:
        i = id(array)
        self.owners.setdefault(i, set()).add(id(env))
        if i not in self.first:
            if len(self.first) < ARRAYS:
                self.first[i] = (array, array.copy(), path)
            return
        was = self.first[i][1]
        if was.shape != array.shape:
            return
        differs = was != array
        back = int((self.changed[i] & ~differs).sum()) if i in self.changed else 0
        self.changed[i] = differs
        self.rec.row(
            "world", path, type(env).__module__ + "." + type(env).__qualname__, i, int(array.size), self.resets,
            int(differs.sum()), back, len(self.owners[i]), now() - self.rec.began,
        )  # fmt: skip


def found(env: Any) -> Iterator[tuple[str, Any]]:
    """(name, array) of what can be reached from an environment, itself and what its methods use of their module."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return
    queue: list[tuple[str, Any, int]] = [("", env, 0)]
    seen: set[int] = set()
    while queue and len(seen) < NODES:
        name, value, depth = queue.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if type(value) is numpy.ndarray:
            if LEAST <= value.size <= MOST and value.dtype.kind in "biuf":
                yield name, value
        elif depth < DEPTH:
            queue += [(inner or name, x, depth + 1) for inner, x in parts(value)]
            if hasattr(value, "step"):
                queue += [(inner, x, depth + 1) for inner, x in used_globals(value)]


def parts(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, (list, tuple)):
        return [("", x) for x in value[:16]]
    if isinstance(value, dict):
        return [(str(k), x) for k, x in list(value.items())[:32]]
    module = type(value).__module__.partition(".")[0]
    if module in FOREIGN or isinstance(value, type) or not hasattr(value, "__dict__"):
        return []
    return list(vars(value).items())


def used_globals(env: Any) -> list[tuple[str, Any]]:
    module = sys.modules.get(type(env).__module__)
    names: set[str] = set()
    for method in vars(type(env)).values():
        code = getattr(getattr(method, "__wrapped__", method), "__code__", None)
        names |= set(code.co_names) if code is not None else set()
    space = getattr(module, "__dict__", {})
    return [(name, space[name]) for name in names if name in space]
