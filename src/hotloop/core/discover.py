"""Plug-ins are files: the file's name is the plug-in's name, files starting with `_` are not. Listing imports
nothing. A user's own plug-in is reached as `module:name` without touching the package."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import pkgutil
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from hotloop.core.errors import UserError, unknown


@cache
def names(package: str) -> tuple[str, ...]:
    """Names of the plug-ins in a package, sorted: names("hotloop.networks") -> ("mlp", "nature_cnn")."""
    found = importlib.import_module(package)
    return tuple(sorted(m.name for m in pkgutil.iter_modules(found.__path__) if not m.name.startswith("_")))


def load(package: str, name: str) -> ModuleType:
    """Import one plug-in, or say which name was probably meant."""
    if name not in names(package):
        raise unknown(package.rsplit(".", 1)[-1].rstrip("s").replace("_", " "), name, names(package))
    return importlib.import_module(f"{package}.{name}")


def by_path(path: str) -> Any:
    """The object a user names as `module:name`. The current directory is searched as `python -m` would."""
    module_name, _, attribute = path.partition(":")
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise UserError(f"{path!r}: expected module:name, such as my_games:make_maze")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as missing:
        if missing.name and module_name.split(".")[0] == missing.name.split(".")[0]:
            raise UserError(
                f"{path!r}: no module named {missing.name!r} in the current directory or installed"
            ) from None
        raise
    if not hasattr(module, attribute):
        public = [n for n in vars(module) if not n.startswith("_")]
        raise unknown(f"name in {module_name}", attribute, public)
    return getattr(module, attribute)


def source_digest(path: str) -> str:
    """SHA-256 of the file that defines `module:name`; what was compiled from it is made anew when it changes."""
    by_path(path)
    file = inspect.getsourcefile(sys.modules[path.partition(":")[0]])
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else path
