"""The learner's weights on their way to the workers: one process writes, any number read, nobody waits for anybody.
Owns the order of loads and stores; does not know what the numbers mean."""

from __future__ import annotations

import numpy as np

from hotloop.core import atomic
from hotloop.core.jit import kernel

# The protocol
# ------------
# Two buffers, each with a sequence that is odd while it is written, and a word LATEST that says which buffer was
# completed last. The writer always takes the other one, so what LATEST points to lies still.
#
#     learner                                         worker
#     b = the buffer that LATEST does not mean        b = the buffer that LATEST means
#     SEQUENCE[b] = the next odd number               s = SEQUENCE[b]; odd: once more    (4: acquire)
#     fence                          (1: release)     read version and numbers of b
#     write version and numbers of b                  fence                              (5: acquire)
#     SEQUENCE[b] += 1               (2: release)     SEQUENCE[b] is not s: once more
#     LATEST = version and b         (3: release)     take them
#
# What breaks without each (tests/collect/test_protocols.py takes them away one at a time, and finds it):
#   1  The new numbers may be seen before the odd sequence is, and a reader that finds the old even one twice takes a
#      mixture. A release *store* does not help: it orders what comes before it, and the numbers come after.
#   2  The even sequence may be seen before the numbers are.
#   3  LATEST may be seen before what it points to is complete. The reader finds that out, and tries again until it is:
#      it waits for the learner.
#   4  The numbers may be read before the sequence is, and 5: after it was read again. An acquire *load* of the second
#      sequence does not help: it orders what comes after it (Boehm, "Can seqlocks get along with programming language
#      memory models?", 2012).
# LATEST is loaded without any order: it is a hint where to look, and 5 holds for it too. Whoever saw it and then finds
# the sequence that its buffer had two versions ago sees that it is another by now.
#
# The numbers themselves are loaded and stored as relaxed atomics: reading them while they are written is a race, which
# is allowed for atomics only, and their mixture is thrown away.
#
# With one buffer a learner that dies in the middle leaves an odd sequence, and every worker looks at it for ever. With
# two, LATEST still points to the other. A sequence only grows, over a restart too: it is not made from the version,
# which a successor may write once more into the same buffer with other numbers.
#
# A reader gives up after some tries, which needs a learner that publishes twice while it copies once. It then keeps the
# weights that it has, and they are where it had them: what it copied went into a room of its own first.

LATEST, SEQUENCE = 0, (16, 32)
_CONTROL = 48  # words; what is read by all and what is written often lie two cache lines apart
_VERSION = 2  # int32 words of a buffer before its numbers: the version, twice 32 bits
_TRIES = 8
_LINE = 64
_SLICE_NS = 100_000_000
NOTHING = -1  # the version before the first


def bytes_for(count: int) -> int:
    """For `count` float32 numbers."""
    return 8 * _CONTROL + 2 * _buffer(count)


def _buffer(count: int) -> int:
    return -(-4 * (_VERSION + count) // _LINE) * _LINE


class Weights:
    """Either end. The learner calls `publish`; a worker `newest`, `wait_for` and `read`."""

    def __init__(self, memory: np.ndarray, count: int) -> None:
        """memory: uint8 [bytes_for(count)], zeroed before the first start. count: P."""
        if memory.nbytes != bytes_for(count):
            raise ValueError(f"memory of {memory.nbytes} bytes for weights of {bytes_for(count)}")
        self.count = count
        self.words = memory[: 8 * _CONTROL].view(np.int64)
        self._buffers = memory[8 * _CONTROL :].view(np.int32)  # one after the other
        self._taken = np.zeros(_VERSION + count, np.int32)
        self._addresses, self._room = atomic.addresses(), np.zeros(4, np.int64)

    def publish(self, params: np.ndarray, version: int) -> None:
        """params: [P] float32. version: above the one before."""
        newest = self.newest()
        if version <= newest:
            raise ValueError(f"weights of version {version} after those of version {newest}")
        _publish(self._addresses, self.words, self._buffers, params.view(np.int32), version)

    def newest(self) -> int:
        """Version of what was published last; -1 where nothing was."""
        return int(_newest(self.words))

    def read(self, out: np.ndarray, newer_than: int = NOTHING) -> int:
        """Copy the newest into out [P] float32 and return its version. Where there is nothing newer, or no whole copy
        was to be had, `out` is left alone and `newer_than` is returned."""
        version = int(_read(self.words, self._buffers, self._taken, newer_than))
        if version != newer_than:
            out.view(np.int32)[...] = self._taken[_VERSION:]
        return version

    def wait_for(self, version: int, timeout_s: float) -> bool:
        """Sleep until there is this version or a newer one, so long at the most -> whether there is."""
        left = int(timeout_s * 1e9)
        while not _wait(self._addresses, self.words, version, min(left, _SLICE_NS), self._room):
            left -= _SLICE_NS
            if left <= 0:
                return False
        return True


@kernel
def _publish(addresses, words, buffers, params, version):
    b = 1 - (words[LATEST] & 1)  # read from the shared word, whoever wrote it
    at = SEQUENCE[b]
    odd = words[at] + 1 + (words[at] & 1)  # odd already, where a writer died here
    atomic.store_relaxed(words, at, odd)
    atomic.fence_release()
    begin = b * (buffers.shape[0] // 2)
    atomic.store_relaxed(buffers, begin, np.int32(version & 0x7FFFFFFF))
    atomic.store_relaxed(buffers, begin + 1, np.int32(version >> 31))
    for k in range(params.shape[0]):
        atomic.store_relaxed(buffers, begin + _VERSION + k, params[k])
    atomic.store_release(words, at, odd + 1)
    atomic.store_release(words, LATEST, 2 * (version + 1) + b)
    atomic.wake(addresses, words, LATEST)


@kernel
def _newest(words):
    return atomic.load_acquire(words, LATEST) // 2 - 1


@kernel
def _read(words, buffers, out, newer_than):
    """-> the version that was copied, or newer_than."""
    for _ in range(_TRIES):
        latest = atomic.load_relaxed(words, LATEST)
        if latest // 2 - 1 <= newer_than:
            return newer_than
        b = latest & 1
        sequence = atomic.load_acquire(words, SEQUENCE[b])
        if sequence & 1:
            continue
        begin = b * (buffers.shape[0] // 2)
        for k in range(out.shape[0]):
            out[k] = atomic.load_relaxed(buffers, begin + k)
        atomic.fence_acquire()
        if atomic.load_relaxed(words, SEQUENCE[b]) == sequence:
            return np.int64(out[0]) + (np.int64(out[1]) << 31)
    return newer_than


@kernel
def _wait(addresses, words, version, most_ns, room):
    """-> whether there is this version."""
    latest = atomic.load_acquire(words, LATEST)
    if latest // 2 - 1 < version:
        atomic.await_change_for(addresses, words, LATEST, latest, most_ns, room)
    return atomic.load_acquire(words, LATEST) // 2 - 1 >= version
