"""Trials: while the script runs, stretches with a remedy stand between stretches without any, each of so many env
steps (updates, where no step is seen). What each took is written at once: a remedy that breaks the script is known."""

from __future__ import annotations

import os
import threading
from typing import Any, Callable

from . import leaving_out
from .recorder import WINDOW_NS, ident, now
from .remedies import REMEDIES

SETTLING_NS = 400_000_000  # after the first update
GAUGING_NS = (300_000_000, 2_000_000_000)  # least and most time in which the length of a stretch is found
BURSTS = 4  # of updates that are to be seen in it
TURNS = 64  # calls: longer turns than this are not waited for
UPDATES = 8  # that a stretch has at least, where only updates are seen: what lies between them may come in turns
NONE = -1
Switch = Callable[[], Any]


def install(doctor: Any) -> None:
    Switching(doctor, doctor.control["sides"])


class Switching:
    def __init__(self, doctor: Any, sides: list[dict[str, Any]]) -> None:
        self.doctor, self.rec, self.sides = doctor, doctor.rec, sides
        self.learning: bool = doctor.control["learning"]
        self.stretch_ns = int(doctor.control["stretch_s"] * 1e9)
        self.gates = leaving_out.prepare(doctor, sides)
        self.switches: list[tuple[Switch, Switch]] = []
        self.thread = 0
        self.lengths: list[int] = []
        self.calls = self.length = self.updates_seen = 0
        self.bursts: list[int] = []  # calls with updates since the one before, while the length is found
        self.stage = self.wait
        self.waits: int | None = None
        self.delayed = 0
        self.since = 0  # when the present stage began
        self.from_calls = self.from_updates = self.from_steps = 0
        self.side, self.turn, self.left = NONE, 0, WINDOW_NS
        self.rec.on = False
        doctor.boundary = self.boundary

    def boundary(self) -> None:
        """Before each env step."""
        if self.thread != ident():
            if self.thread:
                return
            self.thread = ident()
        self.calls += 1
        if self.rec.updates != self.updates_seen:
            self.updates_seen = self.rec.updates
            if self.stage == self.gauge:
                self.bursts.append(self.calls)
        self.stage()

    def wait(self) -> None:
        """Until it learns, and a little longer."""
        if self.learning and not self.rec.updates:
            return
        if not self.since:
            self.since = now()
        elif now() - self.since > SETTLING_NS:
            self.begin()
            self.stage = self.gauge

    def gauge(self) -> None:
        """How many calls make a stretch: whole rounds, from one burst of updates to the next."""
        took, calls, least = now() - self.since, self.calls - self.from_calls, GAUGING_NS[0]
        if took < least or (self.learning and len(self.bursts) < BURSTS and took < GAUGING_NS[1]):
            return
        gaps = sorted(b - a for a, b in zip(self.bursts, self.bursts[1:]))
        cycle = gaps[len(gaps) // 2] if gaps else 1
        length = max(1 if self.rec.env_calls else UPDATES, round(self.stretch_ns * calls / took))
        self.length = -(-length // cycle) * cycle
        self.lengths = [self.whole(side["settings"].get("keep_one_in", 0) * cycle) for side in self.sides]
        self.switches = [self.made(number, side) for number, side in enumerate(self.sides)]
        self.probes(False)
        self.rec.row("stretch", self.length, cycle)
        self.rec.write()
        self.stage = self.count
        self.begin()

    def whole(self, turns: int) -> int:
        """A stretch of whole turns, where one in so many times is kept."""
        return -(-self.length // turns) * turns if 0 < turns <= TURNS else self.length

    def made(self, number: int, side: dict[str, Any]) -> tuple[Switch, Switch]:
        gate, name = self.gates.get(number), side["remedy"]
        if gate is not None:
            return gate.on, gate.off
        if name == "watched":
            return self.watched, self.unwatched
        if name == "idle":
            return lambda: self.probes(True), lambda: self.probes(False)
        on, off = REMEDIES[name](self.doctor, side["settings"])
        if not side["by_probes"]:
            return on, off
        return lambda: (self.probes(True), on()), lambda: (off(), self.probes(False))

    def count(self) -> None:
        if self.calls - self.from_calls >= (self.length if self.side == NONE else self.lengths[self.side]):
            self.switch()

    def switch(self) -> None:
        """End this stretch and begin the next: none, one remedy, none, another."""
        rec, took, kept_waiting = self.rec, now() - self.since, self.delay() - self.delayed
        if self.side != NONE:
            self.switches[self.side][1]()
        done = (self.calls - self.from_calls, rec.updates - self.from_updates, rec.env_steps - self.from_steps)
        rec.row("took", self.side, took, kept_waiting, *done)
        if self.side == NONE:
            self.side, self.turn = self.turn % len(self.sides), self.turn + 1
        else:
            self.side = NONE
        rec.row("turn", self.side)
        rec.write()
        if self.side != NONE:
            self.switches[self.side][0]()
        self.begin()

    def begin(self) -> None:
        self.from_calls, self.from_updates, self.from_steps = self.calls, self.rec.updates, self.rec.env_steps
        self.delayed = self.delay()
        self.since = now()

    def delay(self) -> int:
        """ns in which this thread could have run, and others had the cores; 0 where the system keeps no count."""
        if self.waits is None:
            try:
                self.waits = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
            except OSError:
                self.waits = -1
        return int(os.pread(self.waits, 100, 0).split()[1]) if self.waits >= 0 else 0

    # --- the doctor itself, as a side --------------------------------------------------------------------------------

    def watched(self) -> None:
        rec = self.rec
        rec.next_flush = now() + self.left
        self.probes(True)
        self.doctor.sampling.resume()
        rec.on = True

    def unwatched(self) -> None:
        rec = self.rec
        rec.on = False
        self.left = max(0, rec.next_flush - now())
        self.doctor.sampling.pause()
        self.probes(False)
        rec.fresh()

    def probes(self, on: bool) -> None:
        """Off, they are not even there, except those that count steps and updates."""
        self.doctor.patches.all(on)
        if not on:
            self.doctor.patches.tiny(False)
