"""What a sampler is, and how one is made: an Options dataclass and `make(options, lanes, slots_per_lane,
total_env_steps)`. It names slots and weighs them; it sees neither observations nor networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from hotloop.core import discover
from hotloop.core.options import from_dict
from hotloop.core.types import Arrays
from hotloop.replay.store import Window

PACKAGE = "hotloop.replay.samplers"


class Sampler(Protocol):
    """Chooses what is learnt from. What it knows of the replay is the window, and the priorities it is told."""

    def choose(self, window: Window, seed: int, update: int, slots: np.ndarray, weight: np.ndarray) -> None:
        """Fill slots [U, B] int64 and weight [U, B] float32, the importance weights; row u is what update number
        `update + u` learns from. Draws are keyed by (seed, number of the update, place in the batch)."""
        ...

    def written(self, window: Window) -> None:
        """A block was committed, or an episode cut: this is the window now."""
        ...

    def learned(self, slots: np.ndarray, priority: np.ndarray) -> None:
        """Once per cycle: what the updates found out about the slots that were chosen last, [U, B] float32. With
        overlap the cycle's block has been committed meanwhile, so some of them may have left the window."""
        ...

    def state(self) -> Arrays:
        """Everything a later choice depends on; valid until the next call."""
        ...

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from what `state` gave, bit for bit."""
        ...

    def check_valid(self) -> tuple[bool, str]:
        """Whether the sampler is sound, and what is wrong with it if not. Reads all of it: for tests and resume."""
        ...


def make(name: str, options: Mapping[str, Any], lanes: int, slots_per_lane: int, total_env_steps: int) -> Sampler:
    """By the name of a file here, or a user's own as `module:name`, which is given its options as a mapping."""
    if ":" in name:
        return discover.by_path(name)(options, lanes, slots_per_lane, total_env_steps)
    module = discover.load(PACKAGE, name)
    return module.make(from_dict(module.Options, options, "sampler."), lanes, slots_per_lane, total_env_steps)
