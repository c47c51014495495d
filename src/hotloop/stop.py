"""SIGINT and SIGTERM end the cycle, not the process: the run saves and leaves cleanly. A second signal leaves at
once; the checkpoint before it stays whole."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any


class Stop:
    """`with Stop() as stop:` then ask `stop.asked` once per cycle."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    @property
    def asked(self) -> bool:
        return self.signal is not None

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python sets no handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._on)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            os._exit(128 + number)
        self.signal = number
