"""Settings that are known to work, as plain values. One file per workload, found by its name; `PRESETS` maps the
preset's name to what it changes, `default` is what a workload gets unasked."""

from __future__ import annotations

from typing import Any

from hotloop.core import discover
from hotloop.core.errors import unknown

ANY = "any_gymnasium"  # what an environment gets that has no file of its own


def presets_of(workload: str) -> dict[str, dict[str, Any]]:
    """All presets of a workload, `default` among them."""
    known = discover.names("hotloop.presets")
    own = [name for name in (file_of(workload), file_of(workload.partition("/")[0])) if name in known]
    return discover.load("hotloop.presets", (own or [ANY])[0]).PRESETS


def preset(workload: str, name: str = "default") -> dict[str, Any]:
    """By its name, which may begin with that of the world: snake_seed is the `seed` of snake."""
    known = presets_of(workload)
    if name not in known and name.removeprefix(f"{file_of(workload.partition('/')[0])}_") in known:
        name = name.removeprefix(f"{file_of(workload.partition('/')[0])}_")
    if name not in known:
        raise unknown(f"preset of {workload}", name, known)
    return known[name]


def file_of(workload: str) -> str:
    """CartPole-v1 -> cartpole_v1, so that Gymnasium ids can have a file too. A world of many games has one file for
    all, and one more for each game that wants its own: atari, atari_pong."""
    return workload.replace("/", "_").replace("-", "_").lower()
