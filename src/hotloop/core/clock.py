"""Monotonic time. Code that measures takes a clock, so that a test can hand it one that does not move by itself."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

Clock = Callable[[], int]

now_ns: Clock = time.perf_counter_ns
_IMPORTED = time.perf_counter()


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


def process_age_s() -> float:
    """Seconds since this process began, the interpreter's start and all imports among them."""
    try:
        ticks = float(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        return uptime - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return time.perf_counter() - _IMPORTED
