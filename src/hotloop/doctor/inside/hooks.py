"""When a module has been imported and when a class has been made, so that probes reach what the script itself defines.
Knows no probe."""

from __future__ import annotations

import builtins
import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any, Callable

Installed = Callable[[ModuleType], None]


class Watch(importlib.abc.MetaPathFinder):
    """Stands first on sys.meta_path, lets the others find, and is told when what they found has been executed."""

    def __init__(self) -> None:
        self.awaited: dict[str, list[Installed]] = {}
        self.transforms: dict[str, Callable[[bytes, str], Any]] = {}  # file -> (source, file) -> code

    def after(self, name: str, then: Installed) -> None:
        """Call `then` with the module once it is imported; at once where it already is."""
        module = sys.modules.get(name)
        if module is not None:
            guarded(then, module)
        else:
            self.awaited.setdefault(name, []).append(then)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name not in self.awaited and not self.transforms:
            return None
        spec = None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                break
        if spec is None or not hasattr(spec.loader, "exec_module"):
            return spec
        if name in self.awaited or spec.origin in self.transforms:
            spec.loader = Loader(spec.loader, self, name)  # type: ignore[assignment]
        return spec


class Loader:
    """The real loader, which it gives back to the module; then whoever waits is called."""

    def __init__(self, real: Any, watch: Watch, name: str) -> None:
        self._real, self._watch, self._name = real, watch, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def create_module(self, spec: Any) -> Any:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = self._real
        module.__loader__ = self._real
        transform = self._watch.transforms.get(getattr(spec, "origin", None) or "")
        if transform is not None and hasattr(self._real, "get_data"):
            exec(transform(self._real.get_data(spec.origin), spec.origin), module.__dict__)  # type: ignore[union-attr]
        else:
            self._real.exec_module(module)
        for then in self._watch.awaited.pop(self._name, []):
            guarded(then, module)


def guarded(then: Callable[[Any], None], what: Any) -> None:
    """A probe that does not fit this version of a library is left out; the script goes on as it would alone."""
    try:
        then(what)
    except Exception as why:
        MISFITS.append("{}: {}: {}".format(getattr(what, "__name__", what), type(why).__name__, why))


MISFITS: list[str] = []


def after_class(then: Callable[[type], None]) -> None:
    """Call `then` with every class that a `class` statement makes from now on, the script's own among them."""
    real = builtins.__build_class__

    def build(body: Any, name: str, *bases: Any, **keywords: Any) -> Any:
        made = real(body, name, *bases, **keywords)
        if isinstance(made, type):
            guarded(then, made)
        return made

    builtins.__build_class__ = build  # type: ignore[assignment]
