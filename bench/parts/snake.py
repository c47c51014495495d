"""Snake with flood-fill features: 256 lanes, random play."""

from __future__ import annotations

from collections.abc import Callable


def make() -> Callable[[], object]:
    from bench.stages.snake_env import _player

    play = _player("flood")
    return lambda: play(1_000, True)
