"""Deep Q-learning at the speed the machine allows, from the first step on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Agent", "EnvSpec", "Field", "UserError", "load", "train", "train_seeds"]

if TYPE_CHECKING:
    from hotloop.api import Agent, load, train, train_seeds
    from hotloop.core.errors import UserError
    from hotloop.core.types import EnvSpec, Field

_HOMES = {
    **dict.fromkeys(("Agent", "load", "train", "train_seeds"), "hotloop.api"),
    **dict.fromkeys(("EnvSpec", "Field"), "hotloop.core.types"),
    "UserError": "hotloop.core.errors",
}


def __getattr__(name: str) -> Any:
    """Loaded when first used: `import hotloop` alone imports neither torch nor numba."""
    if name not in _HOMES:
        raise AttributeError(f"module 'hotloop' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
