"""Where the training loop is: the deepest function that both steps the environment and updates the network. Its
statements are what a run consists of."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hotloop.doctor.recording import Frame, Function
from hotloop.doctor.source import Source, source
from hotloop.doctor.weighing import Weighed

STEPPING = ("env step",)
UPDATING = ("backward", "optimizer")


@dataclass(frozen=True)
class Loop:
    function: Function
    step_at: Frame | None  # where the environment is stepped, in this function or below

    @property
    def source(self) -> Source:
        return source(self.function.file)

    def frame(self, frames: Sequence[Frame]) -> Frame | None:
        """Where in the loop a place is; the outermost where the function calls itself."""
        return next((f for f in reversed(frames) if f.function == self.function), None)

    def statement(self, frames: Sequence[Frame]) -> ast.stmt | None:
        at = self.frame(frames)
        return self.source.statement(self.function, at.line) if at else None


def find_loop(places: Iterable[Weighed]) -> Loop | None:
    """None where neither steps nor updates were seen."""
    stepping, updating = _heaviest(places, STEPPING), _heaviest(places, UPDATING)
    chains = [c for c in (stepping, updating) if c]
    if not chains:
        return None
    step_at = stepping[-1] if stepping else None
    if len(chains) == 1:
        return Loop(_looping(chains[0]).function, step_at)
    shared = None
    for a, b in zip(*chains, strict=False):
        if a.function != b.function:
            break
        shared = a.function
        if a.line != b.line:
            break
    return Loop(shared, step_at) if shared else Loop(chains[0][-1].function, step_at)


def _looping(way: Sequence[Frame]) -> Frame:
    """Where steps and updates are not both seen: the innermost function that makes these calls in a loop of its own."""
    for frame in reversed(way):
        text = source(frame.function.file)
        statement = text.statement(frame.function, frame.line)
        if statement is not None and text.loops(statement):
            return frame
    return way[-1]


def _heaviest(places: Iterable[Weighed], under: tuple[str, ...]) -> tuple[Frame, ...]:
    """Outermost first, down to the line that makes the call: the way by which most of its time came."""
    weight: dict[tuple[tuple[Function, int], ...], float] = defaultdict(float)
    ways: dict[tuple[tuple[Function, int], ...], tuple[Frame, ...]] = {}
    for place in places:
        if place.under not in under or place.within is None:
            continue
        site = place.within.at if place.within.what in under else None
        frames = place.frames
        if site is not None:
            cut = next((i for i, f in enumerate(frames) if f.function == site.function), 0)
        else:
            cut = 0
        way = tuple(reversed(frames[cut:]))
        if way:
            key = tuple((f.function, f.line) for f in way)
            weight[key] += place.ns * len(way) ** 0.5  # a place known only by its line says little
            ways[key] = way
    return ways[max(weight, key=lambda k: weight[k])] if weight else ()
