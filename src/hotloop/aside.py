"""One thread beside the main one, for the half of a cycle that runs at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Aside(Generic[T]):
    """`start` hands over one call, `wait` gives its result or raises its error. At most one is under way."""

    def __init__(self, begin: Callable[[], None]) -> None:
        """begin: called once on the thread, before anything else."""
        self._calls: SimpleQueue[Callable[[], T] | None] = SimpleQueue()
        self._results: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()
        self._begin = begin
        self._busy = False
        self._thread = threading.Thread(target=self._run, name="learn", daemon=True)

    def __enter__(self) -> Aside[T]:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._calls.put(None)
        self._thread.join()

    def start(self, call: Callable[[], T]) -> None:
        self._busy = True
        self._calls.put(call)

    def wait(self) -> T:
        if not self._busy:
            raise RuntimeError("nothing was started")
        self._busy = False
        result, error = self._results.get()
        if error is not None:
            raise error
        return result  # type: ignore[return-value]

    def _run(self) -> None:
        self._begin()
        call: Any
        while (call := self._calls.get()) is not None:
            try:
                self._results.put((call(), None))
            except BaseException as error:
                self._results.put((None, error))
