"""Monotonic time. Code that measures takes a clock, so that a test can hand it one that does not move by itself."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]

now_ns: Clock = time.perf_counter_ns


class FakeClock:
    """A clock that moves only when told, or by `tick_ns` at every reading."""

    def __init__(self, tick_ns: int = 0) -> None:
        self.time_ns = 0
        self.tick_ns = tick_ns

    def __call__(self) -> int:
        self.time_ns += self.tick_ns
        return self.time_ns

    def advance(self, ns: int) -> None:
        self.time_ns += ns
