"""What every replay memory is asked for: so many entries, steps of 16 lanes put in, batches of 256 taken out whole,
and where it is prioritized as many new priorities. NumPy only."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bench.measure import serve, versions

LANES, BATCH, NUMBERS, ALPHA, BETA = 16, 256, 8, 0.6, 0.4


class Memory(Protocol):
    def insert(self, step: Step) -> None:
        """One step of all lanes."""
        ...

    def sample(self, priority: np.ndarray) -> np.ndarray:
        """One batch, all of its fields as arrays. priority [256] is then that of its rows, where there is any ->
        the batch's observations [256, 8]"""
        ...


@dataclass(frozen=True)
class Step:
    """Of 16 lanes. The first number of an observation says which entry it is."""

    obs: np.ndarray  # [16, 8] float32
    action: np.ndarray  # [16] int64
    reward: np.ndarray  # [16] float32
    next_obs: np.ndarray  # [16, 8] float32
    done: np.ndarray  # [16] float32


def step(number: int) -> Step:
    obs = np.full((LANES, NUMBERS), 0.5, np.float32)
    obs[:, 0] = number * LANES + np.arange(LANES)
    zeros = np.zeros(LANES, np.float32)
    return Step(obs, zeros.astype(np.int64), zeros, obs + np.float32(0.25), zeros)


def serve_memory(make: Callable[..., Memory], *packages: str) -> None:
    """make: (entries, prioritized) -> an empty memory; one that can gives several batches at once where it is asked."""
    held: dict[str, Any] = {}

    def fill(entries: int, prioritized: bool, at_once: int = 1) -> dict[str, Any]:
        more = {"at_once": at_once} if at_once > 1 else {}
        held["memory"], held["number"] = make(entries, prioritized, **more), 0
        insert(-(-entries // LANES) + 64)  # full, and lapped
        held["random"] = np.random.default_rng(0)
        seen = sample(200)["seen"]  # whatever is compiled at the first use
        return {"versions": versions(*packages), "oldest": min(seen), "newest": max(seen)}

    def insert(steps: int) -> dict[str, Any]:
        made = [step(held["number"] + i) for i in range(steps)]
        held["number"] += steps
        began = time.perf_counter()
        for one in made:
            held["memory"].insert(one)
        return {"seconds": time.perf_counter() - began}

    def sample(batches: int) -> dict[str, Any]:
        priorities = held["random"].exponential(1.0, (batches, BATCH)).astype(np.float32)
        last = None
        began = time.perf_counter()
        for priority in priorities:
            last = held["memory"].sample(priority)
        seconds = time.perf_counter() - began
        return {"seconds": seconds, "seen": np.asarray(last)[:, 0].astype(float).tolist()}

    serve({"fill": fill, "insert": insert, "sample": sample})
