"""One thread beside the main one, for the half of a cycle that runs at the same time. Compiled calls it makes without
the interpreter from beginning to end: a thread that needs it as well gets it only when the main one lets go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import Protocol

import numba
import numpy as np

from hotloop.core import atomic
from hotloop.core.jit import kernel
from hotloop.native import Chain, check, run_chain
from hotloop.trace import Trace

TRACK = "learn"
SPINS = 20_000  # looks at a word, some tens of microseconds, before going to sleep on it
MOST_PARTS = 256


class Job(Protocol):
    """What is handed over."""

    def run(self) -> None: ...


class Parts:
    """A job of several, none of which knows of the others: whoever has time takes the next. They are made one by one
    when the job is handed over or run, so that the first is under way while the others are made."""

    def __init__(self, making: Iterable[Job], count: int) -> None:
        self.count = count  # so many are going to be made
        self.jobs: list[Job] = []  # those that have been
        self._making = iter(making)

    def each(self) -> Iterator[Job]:
        """Once."""
        for job in self._making:
            self.jobs.append(job)
            yield job

    def run(self) -> None:
        """In this thread, one after the other."""
        for job in self.each():
            job.run()


class Aside(Protocol):
    """`start` hands over one job, `wait` returns when it is done or raises its error. At most one is under way. Of a
    job in parts, whoever waits takes some where it can."""

    def __enter__(self) -> Aside: ...
    def __exit__(self, *error: object) -> None: ...
    def start(self, job: Job) -> None: ...
    def wait(self) -> None: ...


def thread(section: str, trace: Trace, begin: Callable[[], None], native: bool) -> Aside:
    """native: whether the jobs are chains of native calls. section: what a job is called in the trace. begin: called
    once on the thread, before anything else."""
    if native and atomic.AVAILABLE and not numba.config.DISABLE_JIT:
        return _Native(section, trace, begin)
    return _Python(section, trace, begin)


class _Python:
    """Runs any job, taking turns with the main thread for the interpreter."""

    def __init__(self, section: str, trace: Trace, begin: Callable[[], None]) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._ends: SimpleQueue[BaseException | None] = SimpleQueue()
        self._begin, self._trace, self._section = begin, trace, trace.section(section)
        self._busy = False
        self._thread = threading.Thread(target=self._serve, name=TRACK, daemon=True)

    def __enter__(self) -> _Python:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._jobs.put(None)
        self._thread.join()

    def start(self, job: Job) -> None:
        if isinstance(job, Parts):  # made here: the thread only runs them
            job = Parts(list(job.each()), job.count)
        self._busy = True
        self._jobs.put(job)

    def wait(self) -> None:
        if not self._busy:
            raise RuntimeError("nothing was started")
        self._busy = False
        error = self._ends.get()
        if error is not None:
            raise error

    def _serve(self) -> None:
        self._trace.track(TRACK)
        self._begin()
        while (job := self._jobs.get()) is not None:
            try:
                with self._section:
                    job.run()
                self._ends.put(None)
            except BaseException as error:
                self._ends.put(error)


# The words that the main thread and the native one share. REQUEST and DONE, a cache line each, count jobs, and each is
# written by one side only. What else a side writes, it writes before its count, so the other has it with the count.
REQUEST, DONE, STOP, STATUS, BEGAN, ENDED, ROOM, PARTS, TAKEN, READY, CHAIN = 0, 8, 16, 17, 18, 19, 20, 22, 24, 32, 40
_LONG = 9  # words of a chain


class _Native:
    """Runs chains of native calls. The thread enters one kernel when it starts and leaves it at the end. Which thread
    runs a part of a job is left to chance; nothing depends on it."""

    def __init__(self, section: str, trace: Trace, begin: Callable[[], None]) -> None:
        self._words = np.zeros(CHAIN + MOST_PARTS * _LONG, np.int64)
        self._addresses = atomic.addresses()
        self._begin, self._section = begin, trace.section(section)
        self._track = trace.beside(TRACK)
        self._chains: list[Job] = []  # kept until they are done: the thread knows addresses only
        self._thread = threading.Thread(target=self._serve, name=TRACK, daemon=True)

    def __enter__(self) -> _Native:
        self._thread.start()
        _post(self._addresses, self._words)  # a job of no parts: once it is done, the thread is in its kernel
        _wait(self._addresses, self._words)
        return self

    def __exit__(self, *error: object) -> None:
        _wait(self._addresses, self._words)  # for what is under way, if anything
        self._words[STOP] = 1
        _post(self._addresses, self._words)
        self._thread.join()

    def start(self, job: Job) -> None:
        words, parts = self._words, job if isinstance(job, Parts) else Parts([job], 1)
        self._chains = parts.jobs
        words[PARTS], words[TAKEN], words[READY] = parts.count, 0, 0
        begun = False
        try:
            for i, chain in enumerate(parts.each()):
                assert isinstance(chain, Chain), "only chains of native calls run without the interpreter"
                words[CHAIN + i * _LONG : CHAIN + (i + 1) * _LONG] = chain.words
                _add(self._addresses, words, i + 1)
                if not begun:
                    _post(self._addresses, words)
                    begun = True
        except BaseException:
            words[PARTS] = len(parts.jobs)  # the thread is not to wait for those that will not come
            _add(self._addresses, words, MOST_PARTS + 1)
            if begun:
                _wait(self._addresses, words)
            self._chains = []
            raise

    def wait(self) -> None:
        if not self._chains:
            raise RuntimeError("nothing was started")
        status = 0
        if len(self._chains) > 1:
            with self._section:
                status = _take(self._addresses, self._words)
        _wait(self._addresses, self._words)
        self._chains = []
        self._section.record(self._track, int(self._words[BEGAN]), int(self._words[ENDED]))
        check(status or self._words[STATUS])

    def _serve(self) -> None:
        self._begin()
        _serve(self._addresses, self._words)


@kernel
def _post(addresses, words):
    atomic.store_release(words, REQUEST, words[REQUEST] + 1)
    atomic.wake(addresses, words, REQUEST)


@kernel
def _wait(addresses, words):
    """Until the newest request is done: DONE is either it or the one before."""
    atomic.await_change(addresses, words, DONE, words[REQUEST] - 1, SPINS)


@kernel
def _add(addresses, words, ready):
    """So many parts may be taken."""
    atomic.store_release(words, READY, ready)
    atomic.wake(addresses, words, READY)


@kernel
def _take(addresses, words):
    """Run parts as long as there are some that nobody has taken -> 0, or the status of one that failed."""
    status = 0
    while True:
        i = atomic.fetch_add(words, TAKEN, 1)
        ready = atomic.load_acquire(words, READY)
        while ready <= i and i < words[PARTS]:
            atomic.await_change(addresses, words, READY, ready, SPINS)
            ready = atomic.load_acquire(words, READY)
        if i >= words[PARTS]:
            return status
        failed = run_chain(words[CHAIN + i * _LONG : CHAIN + (i + 1) * _LONG])
        if failed:
            status = failed


@kernel
def _serve(addresses, words):
    served = 0
    while True:
        atomic.await_change(addresses, words, REQUEST, served, SPINS)
        if words[STOP]:
            return
        served += 1
        words[BEGAN] = atomic.now(addresses, words, ROOM)
        words[STATUS] = _take(addresses, words)
        words[ENDED] = atomic.now(addresses, words, ROOM)
        atomic.store_release(words, DONE, served)
        atomic.wake(addresses, words, DONE)
