"""One worker's blocks on their way to the trainer: a ring of blocks of one size in memory that both map, one process
writing and one reading, without a lock. Owns the order of loads and stores, the waiting, and the count of every env
step; does not know what a block holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hotloop.core import atomic
from hotloop.core.jit import kernel

# The protocol
# ------------
# Two words do it all. WRITE counts the records that were published, READ those that were released; both only grow.
# Record n lies in slot n modulo the number of slots. The ring is empty where WRITE = READ and full where
# WRITE - READ = slots, so zeroed memory is an empty ring. Each word has one writer: WRITE the worker, READ the trainer.
# Nobody ever takes anything that a process killed at that moment could fail to give back.
#
#     worker                                          trainer
#     w = WRITE                                       r = READ
#     wait until w - READ < slots    (1: acquire)     wait until WRITE > r           (3: acquire)
#     write block and header of w                     read block and header of r
#     WRITE = w + 1                  (2: release)     READ = r + 1                   (4: release)
#
# What breaks without each (tests/collect/test_protocols.py takes them away one at a time, and finds it):
#   2  The count may be seen before the block is: the trainer reads a block that is half the one before. On x86 stores
#      are seen in order and a compiler's whim would be needed; an ARM core does it by itself.
#   3  The trainer may read the block before it looks at the count, and so one that had not been written yet.
#   4  The slot may be handed back while it is still being read, and be half overwritten under the reader.
#   1  The worker may write into a slot before it has seen it handed back. Cores do not write on a guess, and so no
#      machine known to us does this; the language that the kernels are compiled from allows it.
# And a plain load in place of an acquire is taken out of a waiting loop by the compiler: it waits for ever.
#
# A worker that dies leaves a slot half written and WRITE as it was. What it had published is the trainer's; the rest
# was never there. Its successor begins by reading WRITE, never with a count of its own, which would publish records
# twice or not at all. It must not begin before the old process is gone for good (`waitpid`): then its last stores have
# arrived as well, and there is one writer again.
#
# Every env step is counted once. PRODUCED grows when the worker has made some, DROPPED when it throws some away; what
# was published is in the header of the newest record, and so becomes known in the same instant as the record itself.
# A successor finds LOST = PRODUCED - published - DROPPED: what its predecessor had made and nobody will get. Hence in
# each header produced = published + dropped + lost, to the unit, whatever was killed when.
#
# Waiting is a futex on the other side's word: the system looks at the word once more before it lets a process sleep,
# and it is woken after every change, so no wake-up is missed. Sleeps are bounded all the same: the other side may be
# dead, and whoever waits has signals and a lifeline to look after.

WRITE, READ = 0, 32
PRODUCED, DROPPED, LOST, BLOCKED_NS, DROPPED_BLOCKS = 16, 17, 18, 19, 20  # the worker's
RELEASED, WAITED_NS = 48, 49  # the trainer's. Env steps, except where a name says otherwise
_CONTROL = 64  # words; what different processes write lies two cache lines apart

# Words of a header: which record, from which start of the worker, what it holds, and all counts up to and with it.
_SEQ, _EPOCH, _ENV_STEPS, _VERSION, _STALENESS, _PRODUCED, _PUBLISHED, _DROPPED, _LOST, _NOTES = range(10)
NOTES = 7  # words of a header that are the caller's
_HEADER = _NOTES + NOTES  # two cache lines
_LINE = 64
_LOOKS = 1_000  # at counts that go on while they are read; a block takes longer to make than one look
_SLICE_NS = 100_000_000  # the longest sleep in compiled code; between two of them Python looks after signals


class Header(NamedTuple):
    """What stands before a block. Counts are in env steps, of all starts of this worker up to and with this record."""

    seq: int
    epoch: int  # which start of the worker
    env_steps: int
    weights_version: int  # that it was collected with
    staleness: int  # newest version known when it was published, less its own
    produced: int
    published: int
    dropped: int
    lost: int  # made by starts of the worker that were killed before they published them
    notes: tuple[int, ...]


@dataclass(frozen=True)
class Counts:
    """Where the env steps of a ring are, as its reader sees it: produced = stored + in flight + dropped + lost +
    in the making."""

    produced: int
    stored: int  # released by the reader
    in_flight: int  # published, and not yet released
    dropped: int
    lost: int
    making: int  # of the block that is being collected; of a dead worker, what its successor will find lost
    blocks_in_flight: int
    blocks_dropped: int
    blocked_ns: int  # the writer waited for room
    waited_ns: int  # the reader waited for a record


class DamagedRing(RuntimeError):
    """Its words say what no writer of ours writes: a worker has written where it should not."""


def bytes_for(block_bytes: int, blocks: int) -> int:
    """Of a ring with so many slots."""
    return 8 * (_CONTROL + blocks * _HEADER) + blocks * _slot(block_bytes)


def _slot(block_bytes: int) -> int:
    return -(-block_bytes // _LINE) * _LINE


class Ring:
    """Either end. The writer calls `take_over`, then again and again `claim`, `made` and `publish` or `drop`; the
    reader `peek` and `release`. At least two blocks: the newest header must outlive the next block's writing."""

    def __init__(self, memory: np.ndarray, block_bytes: int, blocks: int) -> None:
        """memory: uint8 [bytes_for(block_bytes, blocks)], zeroed before the first start."""
        if blocks < 2 or block_bytes < 1:
            raise ValueError(f"a ring has two blocks of one byte or more, not {blocks} of {block_bytes}")
        if memory.nbytes != bytes_for(block_bytes, blocks):
            raise ValueError(f"memory of {memory.nbytes} bytes for a ring of {bytes_for(block_bytes, blocks)}")
        self.blocks, self.block_bytes = blocks, block_bytes
        headers_end = 8 * (_CONTROL + blocks * _HEADER)
        self.words = memory[: 8 * _CONTROL].view(np.int64)
        self._headers = memory[8 * _CONTROL : headers_end].view(np.int64).reshape(blocks, _HEADER)
        slots = memory[headers_end:].reshape(blocks, _slot(block_bytes))
        self._slots = [slot[:block_bytes] for slot in slots]
        self._addresses, self._room = atomic.addresses(), np.zeros(4, np.int64)
        self._notes = np.zeros(NOTES, np.int64)
        self._epoch = 0

    # --- the writer --------------------------------------------------------------------------------------------------

    def take_over(self, epoch: int) -> None:
        """Be the writer from now on. Only when the one before is gone for good; what it had not published is lost."""
        self._epoch = epoch
        _settle(self.words, self._headers)

    def claim(self, timeout_s: float) -> np.ndarray | None:
        """The next slot, uint8 [block_bytes], to be written in place; None while the ring is full. What it holds is
        of any age. May be claimed again; it is given away by `publish` only."""
        left = int(timeout_s * 1e9)
        while True:
            index = _await_room(self._addresses, self.words, self.blocks, min(left, _SLICE_NS), self._room)
            if index >= 0:
                return self._slots[index % self.blocks]
            left -= _SLICE_NS
            if left <= 0:
                return None

    def made(self, env_steps: int) -> None:
        """Count env steps as soon as they are made."""
        self.words[PRODUCED] += env_steps

    def publish(self, env_steps: int, weights_version: int, staleness: int = 0, notes: Sequence[int] = ()) -> None:
        """Give the claimed slot to the reader, with what was `made` for it."""
        self._notes.fill(0)
        for k, note in enumerate(notes):
            self._notes[k] = note
        wrong = _publish(
            *(self._addresses, self.words, self._headers, self._epoch),
            *(env_steps, weights_version, staleness, self._notes),
        )
        if wrong:
            raise RuntimeError(_MISUSE[wrong])

    def drop(self, env_steps: int) -> None:
        """Count what was `made` and will not be published."""
        self.words[DROPPED_BLOCKS] += 1
        self.words[DROPPED] += env_steps

    # --- the reader --------------------------------------------------------------------------------------------------

    def peek(self, timeout_s: float) -> tuple[Header, np.ndarray] | None:
        """The oldest record that was not released, or None while there is none. Valid until it is released."""
        left = int(timeout_s * 1e9)
        while True:
            index = _await_record(self._addresses, self.words, self.blocks, min(left, _SLICE_NS), self._room)
            if index >= 0:
                return self._header(index), self._slots[index % self.blocks]
            if index == _DAMAGED:
                raise DamagedRing("a worker's ring counts more records than it has room for")
            left -= _SLICE_NS
            if left <= 0:
                return None

    def release(self) -> None:
        """Hand the slot of the oldest record back. Whoever wants to keep what it held has copied it."""
        if not _release(self._addresses, self.words, self._headers):
            raise RuntimeError("a block was released that was not there")

    def counts(self) -> Counts:
        """By the reader, at any moment; by anybody where nothing moves."""
        words, read, released = self.words, int(self.words[READ]), int(self.words[RELEASED])
        looks = 0
        while True:  # until the writer has changed nothing but PRODUCED meanwhile
            write, seen = int(_look(words, WRITE)), self._thrown()
            published = released if write == read else self._header(write - 1).published
            dropped, lost, blocks_dropped = seen
            produced = max(int(_look(words, PRODUCED)), published + dropped + lost)
            looks += 1
            if (int(_look(words, WRITE)) == write and self._thrown() == seen) or looks == _LOOKS:
                break
        return Counts(
            produced=produced,
            stored=released,
            in_flight=published - released,
            dropped=dropped,
            lost=lost,
            making=produced - published - dropped - lost,
            blocks_in_flight=write - read,
            blocks_dropped=blocks_dropped,
            blocked_ns=int(words[BLOCKED_NS]),
            waited_ns=int(words[WAITED_NS]),
        )

    def _thrown(self) -> tuple[int, int, int]:
        return int(self.words[DROPPED]), int(self.words[LOST]), int(self.words[DROPPED_BLOCKS])

    def _header(self, index: int) -> Header:
        words = self._headers[index % self.blocks].tolist()  # sync: a header's own words, nothing to wait for
        header = Header(*words[:_NOTES], tuple(words[_NOTES : _NOTES + NOTES]))
        if header.seq != index or header.produced != header.published + header.dropped + header.lost:
            raise DamagedRing(f"record {index} of a worker's ring says {header}")
        return header


def await_any(rings: Sequence[Ring], timeout_s: float) -> bool:
    """Sleep until one of several rings has a record, so long at the most -> whether one has. By the reader of all."""
    together = atomic.can_sleep_while_all()
    waits = np.empty((len(rings), 3), np.int64)
    for k, ring in enumerate(rings):
        waits[k] = ring.words[READ] & 0xFFFFFFFF, ring.words[WRITE:].ctypes.data, 2
    left = int(timeout_s * 1e9)
    while not any(_look(ring.words, WRITE) != ring.words[READ] for ring in rings):
        if left <= 0:
            return False
        first = rings[0]
        left -= _sleep_any(first._addresses, first.words, waits, together, min(left, _SLICE_NS), first._room)
    return True


# --- the kernels -----------------------------------------------------------------------------------------------------

_NONE, _DAMAGED = -1, -2
_NOT_CLAIMED, _NOT_MADE = 1, 2
_MISUSE = {
    _NOT_CLAIMED: "a block was published that was not claimed",
    _NOT_MADE: "a block was published whose env steps are not those that were made",
}


@kernel
def _await_room(addresses, words, blocks, most_ns, room):
    """-> the record that may be written next, or -1."""
    write = words[WRITE]  # what the last start of the worker has left, if this is a new one
    read = atomic.load_acquire(words, READ)
    if write - read >= blocks:
        words[BLOCKED_NS] += atomic.await_change_for(addresses, words, READ, read, most_ns, room)
        read = atomic.load_acquire(words, READ)
    return write if write - read < blocks else _NONE


@kernel
def _publish(addresses, words, headers, epoch, env_steps, version, staleness, notes):
    """-> 0, or why not."""
    write, blocks = words[WRITE], headers.shape[0]
    if write - atomic.load_acquire(words, READ) >= blocks:
        return _NOT_CLAIMED
    published = _published(headers, write) + env_steps
    if words[PRODUCED] != published + words[DROPPED] + words[LOST]:
        return _NOT_MADE
    k = write % blocks
    headers[k, _SEQ], headers[k, _EPOCH], headers[k, _ENV_STEPS] = write, epoch, env_steps
    headers[k, _VERSION], headers[k, _STALENESS] = version, staleness
    headers[k, _PRODUCED], headers[k, _PUBLISHED] = words[PRODUCED], published
    headers[k, _DROPPED], headers[k, _LOST] = words[DROPPED], words[LOST]
    for i in range(NOTES):
        headers[k, _NOTES + i] = notes[i]
    atomic.store_release(words, WRITE, write + 1)
    atomic.wake(addresses, words, WRITE)
    return 0


@kernel
def _settle(words, headers):
    words[LOST] = words[PRODUCED] - _published(headers, words[WRITE]) - words[DROPPED]


@kernel
def _published(headers, write):
    """Env steps in all records before `write`. The newest header is still there: the slot written next is another."""
    return headers[(write - 1) % headers.shape[0], _PUBLISHED] if write > 0 else 0


@kernel
def _await_record(addresses, words, blocks, most_ns, room):
    """-> the oldest record, or -1."""
    read = words[READ]
    write = atomic.load_acquire(words, WRITE)
    if write == read:
        words[WAITED_NS] += atomic.await_change_for(addresses, words, WRITE, read, most_ns, room)
        write = atomic.load_acquire(words, WRITE)
    if write < read or write - read > blocks:
        return _DAMAGED
    return read if write > read else _NONE


@kernel
def _release(addresses, words, headers):
    """-> whether there was a record."""
    read = words[READ]
    if atomic.load_acquire(words, WRITE) == read:
        return False
    words[RELEASED] = headers[read % headers.shape[0], _PUBLISHED]
    atomic.store_release(words, READ, read + 1)
    atomic.wake(addresses, words, READ)
    return True


@kernel
def _look(words, i):
    return atomic.load_acquire(words, i)


@kernel
def _sleep_any(addresses, words, waits, together, most_ns, room):
    """-> ns slept."""
    began = atomic.now(addresses, room, 0)
    if together:
        atomic.sleep_while_all(addresses, waits, most_ns, room)
    else:  # where a system lets a process wait for one word only, the others are looked at every now and then
        atomic.sleep_while_for(addresses, words, WRITE, words[READ], min(most_ns, 1_000_000), room)
    slept = atomic.now(addresses, room, 0) - began
    words[WAITED_NS] += slept
    return slept
