"""The collector that lives in processes of its own: for environments that hold the interpreter, are slow, or crash.
Owns cycles: who fills which lanes of a block, with which weights, and that every env step is accounted for."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from torch import Tensor

from hotloop.collect import _worker
from hotloop.collect._worker import ENV_STEPS, FOREVER, SET_STATE, STATE
from hotloop.collect._worker_blocks import block_in, copy_block
from hotloop.collect._worker_crew import Crew, Patience, Zygote, first_cause
from hotloop.collect._worker_seat import Seat, gauges, merged, new_seats
from hotloop.collect.collector import NothingLeft
from hotloop.collect.episodes import Episodes, Finished
from hotloop.collect.memory import reserved
from hotloop.collect.ring import DamagedRing, Header, await_any
from hotloop.collect.weights import Weights
from hotloop.collect.weights import bytes_for as weights_bytes
from hotloop.core.errors import UserError
from hotloop.core.options import option
from hotloop.core.packing import packed, unpacked
from hotloop.core.schema import new_block
from hotloop.core.types import Arrays, Block, EnvSpec
from hotloop.trace import Trace

# Who owns what
# -------------
# A *seat* is a share of the run's lanes with a ring to put blocks into; a *worker* is the process that sits on it now.
# Workers die, seats stay, and so does all that is counted. The memory of a seat has one writer per word: the worker
# writes blocks, its counts and its beat, the trainer how far it has read and how far the run is. Weights have one
# writer, the trainer. No process ever waits for something that another one could die holding: there is no lock.
#
# Three ways out for three kinds of end. A worker that dies is buried by the *zygote*, the process it was forked from,
# which says so; the seat gets another one, which reads from the ring where to go on (ring.py), begins new episodes in
# its lanes, and says in each header which start of the worker it is. The trainer needs no message to keep episodes
# apart: a block whose start, or whose number of dropped env steps, differs from the one before does not continue it,
# and `Block.anew` has the replay cut there. What the dead one had not published is lost: one block at most, counted.
# A worker that hangs is one whose beat stands still while it has something to do; it is asked for its last words
# (SIGABRT makes faulthandler write them), then ended. A trainer that dies is noticed by the end of a socket, and where
# a worker is too busy to look, by the system, which kills the zygote with its parent and the workers with theirs.
#
# Lockstep: each cycle, every seat fills one block with the weights of that cycle, and blocks are taken in the order of
# the seats. Between a block and the next `publish` all workers rest, which is when their state can be had. Nothing
# depends on timing, so the same seed gives the same bits; a cycle lasts as long as its slowest worker.
# Free: workers never rest unless their ring is full, and a cycle takes the blocks that come first. A seat may then fill
# more than its share of a block; each block has its place where it continues the one there, or else any that is free.
#
# A seat that is given up leaves its place in the block to the others: in lockstep the seats that are left take turns
# and fill one block more, in free whoever comes first. The block keeps its size, and so does samples per step.


_LOOK_S = 0.01  # how often it is looked whether anybody has died


@dataclass(frozen=True)
class Options:
    """How the worker processes of --workers N collect."""

    schedule: Literal["lockstep", "free"] = option(
        "lockstep",
        "lockstep: a block of each worker per cycle, bit-exact; free: blocks as they come, for uneven worlds",
    )
    ring_blocks: int = option(3, "blocks that a worker may be ahead (free)", ge=2, le=4096)
    ring_full: Literal["block", "drop"] = option("block", "block: the worker waits; drop: what does not fit is lost")
    publish_every_cycles: int = option(1, "cycles between weights for the workers", ge=1)
    deadline_s: float = option(
        60.0, "seconds for one batched step, or to be made, before a worker counts as hung", gt=0
    )
    restarts_per_minute: int = option(5, "restarts of one worker within a minute, after which it is given up", ge=0)


@dataclass(frozen=True)
class Recipe:
    """What a worker is made of: `factory` is module:name of a callable (spec, of) -> _worker.Make, called once by the
    process that forks workers; `of` is for JSON."""

    factory: str
    spec: EnvSpec
    of: dict[str, Any]


class Workers:
    """W processes × N/W lanes."""

    def __init__(
        self,
        zygote: Zygote,
        recipe: Recipe,
        options: Options,
        *,
        workers: int,
        lanes: int,
        steps: int,
        params: int,
        seed: int,
        trace: Trace,
    ) -> None:
        """params: P. The rest as for inline.Inline, of the whole run."""
        self.spec, self.options, self.lanes, self.steps = recipe.spec, options, lanes, steps
        self.env_steps = 0
        self.finished: Finished | None = None
        self._seed, self._params, self._share = seed, params, lanes // workers
        self._free = options.schedule == "free"
        self._batched_before = [0] * workers  # batched steps of each seat before this process
        self._granted = False  # whether workers have been told to collect, and may be at it
        # What workers act with, where these are not always the newest weights.
        self._acting = np.zeros(params, np.float32) if options.publish_every_cycles > 1 else None
        self.faults: list[tuple[str, int]] = []  # for tests: where the workers that are started next end
        self._turn = 0  # the seat that is looked at first (free)
        self._collected_here = 0  # env steps
        self._staleness: list[int] = []
        way_out = "lower --workers, --lanes, --cycle-steps or collect.ring_blocks"
        seats = new_seats(self.spec, steps, lanes, workers, options.ring_blocks, way_out)
        try:
            self._memory = reserved({"weights": weights_bytes(params)}, way_out)
            self._weights = Weights(self._memory.parts["weights"], params)
            prepared = {"factory": recipe.factory, "of": recipe.of, "spec": dataclasses.asdict(recipe.spec)}
            patience = Patience(options.deadline_s, options.restarts_per_minute)
            self._crew = Crew(zygote, prepared, self.spec.name, seats, patience)
        except BaseException:
            for segment in (getattr(self, "_memory", None), *(seat.segment for seat in seats)):
                if segment:
                    segment.close()
            raise
        self.seats: Sequence[Seat] = seats
        self._block = new_block(self.spec, steps, lanes)
        self._anew = self._block.anew = np.zeros(lanes, np.bool_)
        self._slots: dict[int, Block] = {}
        self._episodes = [Episodes(self._share) for _ in seats]
        self._last = [Header(-1, 0, 0, 0, 0, 0, 0, 0, 0, ()) for _ in seats]  # newest header taken from each seat
        self._holds = [(k, self._last[k]) for k in range(workers)]  # what each place of the block held last
        self._stored = [0] * workers  # env steps taken from each seat
        self._tracks = [trace.beside(f"worker {k}") for k in range(workers)]
        self._collecting, self._wait = trace.section("collect"), trace.section("wait for workers")
        for seat in seats:
            self._start(seat)

    # --- one cycle

    def publish(self, weights: Tensor) -> None:
        """Workers act with these from their next block on, and begin it."""
        cycle = self.env_steps // (self.steps * self.lanes)
        if cycle % self.options.publish_every_cycles == 0 and self._weights.newest() < cycle:
            self._weights.publish(weights.numpy(), cycle)
            if self._acting is not None:
                self._acting[:] = weights.numpy()
        for seat in self.seats:
            seat.words[ENV_STEPS] = self.env_steps
        self._granted = True
        for seat in self._crew.left:
            wanted = FOREVER if self._free else self._last[seat.number].seq + 1 + self._share_of(seat)
            self._ask_for(seat, wanted)

    def _ask_for(self, seat: Seat, blocks: int) -> None:
        if seat.wanted < blocks:
            seat.wanted = blocks
            self._crew.go(seat)

    def _share_of(self, seat: Seat) -> int:
        """How many places of a block a seat fills in lockstep: its own, and some of those of seats given up."""
        left = self._crew.left
        missing = len(self.seats) - len(left)
        return 1 + sum(left[i % len(left)] is seat for i in range(missing))

    def next_block(self) -> Block:
        if not self._granted:
            raise RuntimeError("a block was asked for before weights were published")
        self._anew[:] = False
        ended: list[tuple[Finished, np.ndarray]] = []
        with self._wait:
            empty = list(range(len(self.seats)))
            if not self._free:
                empty = self._take_own(ended)
            while empty:
                seat = self._next_seat(len(self.seats) - len(empty))
                place = self._place_for(seat, empty)
                ended.append(self._take(seat, place))
                empty.remove(place)
        self.env_steps += self.steps * self.lanes
        self._collected_here += self.steps * self.lanes
        self._granted = self._free
        self.finished = merged(ended)
        self._check_accounts()
        return self._block

    def _take_own(self, ended: list[tuple[Finished, np.ndarray]]) -> list[int]:
        """One block of each seat into its own place, in the order of the seats -> places that stay empty, since their
        seats were given up."""
        empty = []
        for seat in self.seats:
            if self._await(seat):
                ended.append(self._take(seat, seat.number))
            else:
                empty.append(seat.number)
        return empty

    def _next_seat(self, filled: int) -> Seat:
        """Whose block comes next: in lockstep the seats that are left in turn, free whoever has one."""
        while True:
            self._refuse_nobody()
            if not self._free:
                seat = self._crew.left[filled % len(self._crew.left)]
                self._ask_for(seat, self._last[seat.number].seq + 2)
                if self._await(seat):
                    return seat
                continue
            turns = [self.seats[(self._turn + i) % len(self.seats)] for i in range(len(self.seats))]
            for seat in turns:
                if self._peek(seat, 0.0):
                    self._turn = seat.number + 1
                    return seat
            await_any([seat.ring for seat in self.seats], _LOOK_S)
            self._attend()

    def _place_for(self, seat: Seat, empty: list[int]) -> int:
        """Where a block continues the one there; else the seat's own place; else any."""
        found = self._peek(seat, 0.0)
        assert found is not None
        goes_on = [p for p in empty if self._continues(self._holds[p], seat, found[0])]
        return (goes_on or [p for p in empty if p == seat.number] or empty)[0]

    def _await(self, seat: Seat) -> bool:
        """Until a seat has a block -> False where it is given up."""
        while not self._peek(seat, 0.0 if seat.status == "given up" else _LOOK_S):
            if seat.status == "given up":
                return False
            self._attend()
        return True

    def _peek(self, seat: Seat, timeout_s: float) -> tuple[Header, np.ndarray] | None:
        if seat.damaged:
            return None
        try:
            return seat.ring.peek(timeout_s)
        except DamagedRing as why:
            seat.damaged = True
            self._crew.give_up(seat, str(why))
            return None

    def _take(self, seat: Seat, place: int) -> tuple[Finished, np.ndarray]:
        """The oldest block of a seat into its place -> episodes that ended in it, and in which batched step."""
        found = self._peek(seat, 0.0)
        assert found is not None
        header, slot = found
        block = self._slots.get(id(slot))
        if block is None:
            block = self._slots[id(slot)] = block_in(slot, self.spec, self.steps, self._share)
        k, lanes = seat.number, slice(place * self._share, (place + 1) * self._share)
        copy_block(block, self._block, lanes)
        self._anew[lanes] = not self._continues(self._holds[place], seat, header)
        if not self._continues((k, self._last[k]), seat, header):
            self._episodes[k] = Episodes(self._share)  # those under way will never end
        finished = self._episodes[k].add(block)
        finished = dataclasses.replace(finished, lanes=finished.lanes + lanes.start)
        ends = np.nonzero(block.terminated | block.truncated)[0]
        seat.ring.release()  # nothing of the slot is looked at from here on
        self._last[k] = header
        self._holds[place] = (k, header)
        self._stored[k] += header.env_steps
        self._staleness.append(header.staleness)
        self._collecting.record(self._tracks[k], *header.notes[:2])
        return finished, ends

    @staticmethod
    def _continues(before: tuple[int, Header], seat: Seat, header: Header) -> bool:
        """Whether a block goes on where another one ended: the next of the same start of the same worker, and nothing
        dropped in between."""
        number, last = before
        same = number == seat.number and last.epoch == header.epoch and last.dropped == header.dropped
        return same and last.seq + 1 == header.seq

    def _check_accounts(self) -> None:
        """Every env step that was ever made is stored, under way, dropped or lost, to the unit. The ring sees to it in
        every header that produced = published + dropped + lost; here its counts are held against what was taken."""
        block = self.steps * self._share
        for seat in self.seats:
            if seat.damaged:
                continue
            counts, taken = seat.counts(), self._stored[seat.number]
            rests = not self._free and seat.status == "works" and seat.wanted == self._last[seat.number].seq + 1
            most = 0 if rests else block
            if counts.stored != taken or not 0 <= counts.making <= most or (rests and counts.in_flight):
                raise AssertionError(f"{seat.name}: {taken} env steps were taken, but its ring counts {counts}")
        if sum(self._stored) != self._collected_here:
            raise AssertionError(f"{sum(self._stored)} env steps were taken for {self._collected_here} collected")

    # --- starts and ends

    def _start(self, seat: Seat) -> None:
        batched = self._batched_before[seat.number] + int(seat.words[_worker.BEAT])
        games = (self._seed + (batched + 1_000_003 * (seat.epoch + 1) if seat.epoch >= 0 else 0)) % 2**63
        told = {
            "steps": self.steps,
            "all_lanes": self.lanes,
            "blocks": self.options.ring_blocks,
            "drops": self.options.ring_full == "drop",
            "params": self._params,
            "games": games,
            "env_steps": self.env_steps,
            "batched_steps": batched,
            "fault": self.faults.pop(0) if self.faults else None,
        }
        seat.words[ENV_STEPS] = self.env_steps
        self._crew.start(seat, told, self._memory.descriptor)

    def _attend(self) -> None:
        for seat in self._crew.attend():
            self._start(seat)

    def _refuse_nobody(self) -> None:
        if not self._crew.left:
            raise NothingLeft(f"none of {len(self.seats)} workers is left to collect from {self.spec.name}")

    def warm(self, weights: Tensor) -> None:
        """Return when every worker has made its lanes and run the network. One that cannot begin ends the run."""
        while any(seat.status != "works" for seat in self.seats):
            self._attend()
            if self._crew.said:
                said = self._crew.said[0]
                first, _, rest = said.partition("\n")
                raise UserError(f"{first.partition(' and was')[0]}: {first_cause(said)}" if rest else first)
            time.sleep(0.001)

    def close(self) -> None:
        self._crew.close()
        self._memory.close()

    # --- state

    @property
    def exact(self) -> bool:
        return not self._free and not any(seat.restarts for seat in self.seats)

    def state(self) -> Arrays:
        counters = {"counters": np.array([self.env_steps, self.env_steps // self.lanes], np.int64)}
        if self._granted:
            return counters
        parts = []
        for seat in self.seats:
            answer = self._answer(seat, STATE)
            if answer is None:
                return counters
            parts.append(unpacked(answer))
        out = {name: np.concatenate([part[name] for part in parts]) for name in parts[0] if name != "counters"}
        if self._acting is not None:
            out["weights"] = self._acting.copy()
        return {**out, **counters}

    def set_state(self, state: Mapping[str, np.ndarray]) -> bool:
        self.env_steps, batched = (int(c) for c in state["counters"])
        rest = {k: v for k, v in state.items() if k not in ("counters", "weights")}
        goes_on = bool(rest) and self.spec.exact and not self._free
        for seat in self.seats:
            lanes = slice(seat.first_lane, seat.first_lane + seat.lanes)
            part = {name: array[lanes] for name, array in rest.items()} if goes_on else {}
            self._answer(seat, SET_STATE + packed({**part, "counters": state["counters"]}))
            self._batched_before[seat.number] = batched - int(seat.words[_worker.BEAT])
            self._episodes[seat.number] = Episodes(seat.lanes)
            if goes_on:
                self._episodes[seat.number].set_state({k: rest[f"episodes.{k}"][lanes] for k in ("returns", "lengths")})
        cycle, every = self.env_steps // (self.steps * self.lanes), self.options.publish_every_cycles
        if self._acting is not None and "weights" in state and cycle:
            self._acting[:] = state["weights"]
            self._weights.publish(self._acting, (cycle - 1) // every * every)  # when they were new
        return goes_on

    def _answer(self, seat: Seat, question: bytes) -> bytes | None:
        """What a worker says to it, or the next one on its seat; None where nobody is left there."""
        while seat.status != "given up":
            epoch, seat.answer = seat.epoch, None
            if self._crew.ask(seat, question):
                while seat.answer is None and seat.epoch == epoch and seat.control:
                    self._attend()
                    self._crew.await_word(seat, _LOOK_S)
                if seat.answer is not None:
                    return seat.answer
            self._attend()
            time.sleep(0.001)
        return None

    # --- what there is to see

    def gauges(self) -> dict[str, Any]:
        stale, self._staleness = self._staleness, []
        mean = sum(stale) / len(stale) if stale else 0.0
        return {**gauges(self.seats, self.options.ring_blocks), "worker_staleness_cycles": mean}

    def said(self) -> list[str]:
        texts, self._crew.said = self._crew.said, []
        return texts
