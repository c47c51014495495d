"""Trials: while the script runs, stretches with a remedy stand between stretches without any, each of so many env
steps (updates, where no step is seen). What each took is written at once: a remedy that breaks the script is known."""

from __future__ import annotations

from typing import Any, Callable

from . import leaving_out
from .recorder import WINDOW_NS, ident, now
from .remedies import REMEDIES

SETTLING_NS = 400_000_000  # after the first update
GAUGING_NS = 300_000_000  # in which the length of a stretch is found
NONE = -1
Switch = Callable[[], None]


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
        self.calls = self.length = 0
        self.stage = self.wait
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
        """How many calls make a stretch: whole rounds of steps and updates."""
        took, calls = now() - self.since, self.calls - self.from_calls
        if took < GAUGING_NS and not (took > self.stretch_ns and calls > 3):
            return
        updates = self.rec.updates - self.from_updates
        cycle = max(1, round(calls / updates)) if updates else 1
        length = max(1, round(self.stretch_ns * calls / took))
        self.length = -(-length // cycle) * cycle
        self.switches = [self.made(number, side) for number, side in enumerate(self.sides)]
        self.rec.row("stretch", self.length, cycle)
        self.rec.write()
        self.stage = self.count
        self.begin()

    def made(self, number: int, side: dict[str, Any]) -> tuple[Switch, Switch]:
        gate = self.gates.get(number)
        if gate is not None:
            return gate.on, gate.off
        if side["remedy"] == "watched":
            return self.watched, self.unwatched
        return REMEDIES[side["remedy"]](self.doctor, side["settings"])

    def count(self) -> None:
        if self.calls - self.from_calls >= self.length:
            self.switch()

    def switch(self) -> None:
        """End this stretch and begin the next: none, one remedy, none, another."""
        rec, took = self.rec, now() - self.since
        if self.side != NONE:
            self.switches[self.side][1]()
        done = (self.calls - self.from_calls, rec.updates - self.from_updates, rec.env_steps - self.from_steps)
        rec.row("took", self.side, took, *done)
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
        self.since = now()

    # --- the doctor itself, as a side --------------------------------------------------------------------------------

    def watched(self) -> None:
        rec = self.rec
        rec.next_flush = now() + self.left
        self.doctor.patches.tiny(True)
        self.doctor.sampling.resume()
        rec.on = True

    def unwatched(self) -> None:
        rec = self.rec
        rec.on = False
        self.left = max(0, rec.next_flush - now())
        self.doctor.sampling.pause()
        self.doctor.patches.tiny(False)
        rec.fresh()
