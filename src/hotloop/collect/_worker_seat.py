"""A seat: some of a run's lanes, the memory in which their blocks arrive, and who collects them now. Seats stay when
workers die, and with them all that is counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Literal

import numpy as np

from hotloop.collect._worker import ACTIONS, sizes
from hotloop.collect._worker_blocks import block_bytes
from hotloop.collect.episodes import Finished
from hotloop.collect.memory import Segment, reserved
from hotloop.collect.ring import WRITE, Counts, Ring
from hotloop.core.types import EnvSpec


@dataclass
class Seat:
    """Some lanes of the run, and whoever collects them now."""

    number: int
    first_lane: int
    lanes: int
    segment: Segment
    ring: Ring
    words: np.ndarray  # int64, see _worker.py
    status: Literal["away", "born", "works", "given up"] = "away"
    epoch: int = -1  # which start of it, from 0
    pid: int = 0
    wanted: int = 0  # blocks that it shall have put into the ring in all
    control: Connection | None = None
    last_words: int = -1  # a descriptor
    due: float = 0.0  # when to start it, where it is away
    began: int = 0  # blocks in the ring when it was started
    starts: list[float] = field(default_factory=list)  # again, within the last minute
    in_vain: int = 0  # starts in a row that led to no block
    restarts: int = 0
    answer: bytes | None = None  # to the newest question
    fault: dict[str, Any] | None = None  # what it has said of itself
    hung: bool = False
    killed_at: float = 0.0  # when it is to be killed, having been asked for its last words
    beat: int = -1
    damaged: bool = False  # its ring holds nonsense
    known: Counts | None = None
    still_s: float = 0.0  # time during which the beat was not seen to change

    @property
    def actions(self) -> np.ndarray:
        return self.segment.parts["words"][8 * ACTIONS :].view(np.int32)

    @property
    def published(self) -> int:
        """Blocks that its ring has ever held."""
        return int(self.ring.words[WRITE])

    @property
    def name(self) -> str:
        last = self.first_lane + self.lanes - 1
        lanes = f"lane {last}" if self.lanes == 1 else f"lanes {self.first_lane} … {last}"
        return f"worker {self.number} ({lanes})"

    @property
    def lives(self) -> bool:
        return self.status in ("born", "works")

    def counts(self) -> Counts:
        """Where its env steps are. Of a ring whose worker has written where it should not, as they were before."""
        if not self.damaged:
            self.known = self.ring.counts()
        assert self.known is not None
        return self.known


def new_seats(spec: EnvSpec, steps: int, lanes: int, workers: int, blocks: int, way_out: str) -> list[Seat]:
    """Seats with memory of their own. steps, lanes: T and N of the run's blocks. blocks: room in each ring."""
    share, seats = lanes // workers, []
    try:
        for k in range(workers):
            parts = sizes(spec, steps, share, blocks)
            segment = reserved(parts, f"each of {workers} workers needs as much; {way_out}")
            ring = Ring(segment.parts["ring"], block_bytes(spec, steps, share), blocks)
            words = segment.parts["words"][: 8 * ACTIONS].view(np.int64)
            seats.append(Seat(k, k * share, share, segment, ring, words, known=ring.counts()))
    except BaseException:
        for seat in seats:
            seat.segment.close()
        raise
    return seats


def gauges(seats: Sequence[Seat], blocks: int) -> dict[str, Any]:
    """Env steps by where they are; their sum is `worker_produced`."""
    counts = [seat.counts() for seat in seats]
    # What is in the making is under way, or lost where nobody lives who makes it.
    making = [c.making if seat.lives else 0 for seat, c in zip(seats, counts, strict=True)]

    def each(values: Sequence[float]) -> dict[str, float]:
        return {str(k): value for k, value in enumerate(values)}

    return {
        "worker_produced": each([c.produced for c in counts]),
        "worker_stored": each([c.stored for c in counts]),
        "worker_in_flight": each([c.in_flight + m for c, m in zip(counts, making, strict=True)]),
        "worker_dropped": each([c.dropped for c in counts]),
        "worker_lost": each([c.lost + c.making - m for c, m in zip(counts, making, strict=True)]),
        "worker_restarts": sum(seat.restarts for seat in seats),
        "workers_given_up": sum(seat.status == "given up" for seat in seats),
        "ring_filled": sum(c.blocks_in_flight for c in counts) / (len(counts) * blocks),
        "ring_blocked_s": each([round(c.blocked_ns / 1e9, 6) for c in counts]),
    }


def merged(parts: Sequence[tuple[Finished, np.ndarray]]) -> Finished:
    """Episodes that ended in several places of a block, and in which batched step, in order of time, then lane."""
    order = np.lexsort((np.concatenate([f.lanes for f, _ in parts]), np.concatenate([t for _, t in parts])))
    columns = ([getattr(f, name) for f, _ in parts] for name in ("returns", "lengths", "measures", "lanes"))
    return Finished(*(np.concatenate(column)[order] for column in columns))
