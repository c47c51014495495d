"""How long each place took: samples, weighed so that every timed call's exact time is kept and all together are the
wall time, without what the doctor took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hotloop.doctor.phases import Phases
from hotloop.doctor.recording import Frame, Probe, Stack, Timed


@dataclass(frozen=True)
class Weighed:
    """One place: ns spent there and nowhere deeper."""

    frames: tuple[Frame, ...]  # innermost first
    within: Probe | None
    under: str | None
    ns: float


def weigh(phases: Phases, track: int = 0) -> tuple[list[Weighed], float]:
    """(every place of one thread, wall time in ns). Places add up to the wall time for the main thread."""
    exact: dict[Probe, float] = defaultdict(float)
    sampled: dict[Stack, float] = defaultdict(float)
    for window in phases.judged:
        for probe, timed in window.timed.items():
            if probe.track == track:
                exact[probe] += timed.exclusive
        for stack, (_, ns) in window.samples.items():
            if stack.track == track:
                sampled[stack] += ns
    wall = sum(w.ended - w.began for w in phases.judged) - _lost(phases)
    if wall <= 0:
        return [], 0.0
    if sum(exact.values()) > wall:  # a call that began before the first window
        scale = wall / sum(exact.values())
        exact = defaultdict(float, {p: ns * scale for p, ns in exact.items()})
    rest = wall - sum(exact.values()) if track == 0 else sum(ns for s, ns in sampled.items() if s.within is None)
    return [*_spread(sampled, exact), *_unprobed(sampled, rest)], float(wall)


def _spread(sampled: dict[Stack, float], exact: dict[Probe, float]) -> Iterable[Weighed]:
    """Each timed call's exact time over the stacks it was seen with."""
    seen: dict[Probe, float] = defaultdict(float)
    for stack, ns in sampled.items():
        if stack.within is not None:
            seen[stack.within] += ns
    for stack, ns in sampled.items():
        if stack.within is not None and seen[stack.within] > 0:
            yield Weighed(
                stack.frames, stack.within, stack.under, exact.get(stack.within, 0.0) * ns / seen[stack.within]
            )
    for probe, ns in exact.items():
        if not seen.get(probe):
            yield Weighed((probe.at,) if probe.at else (), probe, probe.what, ns)


def _unprobed(sampled: dict[Stack, float], rest: float) -> Iterable[Weighed]:
    """What no probe covers, over the lines where it was seen."""
    free = {s: ns for s, ns in sampled.items() if s.within is None}
    whole = sum(free.values())
    if whole > 0:
        for stack, ns in free.items():
            yield Weighed(stack.frames, None, None, rest * ns / whole)
    elif rest > 0:
        yield Weighed((), None, None, rest)


def _lost(phases: Phases) -> int:
    if not phases.judged:
        return 0
    return phases.judged[-1].lost - (phases.before.lost if phases.before else 0)


def totals(phases: Phases) -> dict[Probe, Timed]:
    """Every timed call, over the judged windows."""
    out: dict[Probe, Timed] = {}
    for window in phases.judged:
        for probe, t in window.timed.items():
            was = out.get(probe, Timed(0, 0, 0, 0))
            out[probe] = Timed(
                was.calls + t.calls, was.inclusive + t.inclusive, was.exclusive + t.exclusive, was.extra + t.extra
            )
    return out


def counts(phases: Phases) -> dict[Probe, float]:
    """Every counted call, scaled up where calls were only counted in some moments."""
    out: dict[Probe, float] = defaultdict(float)
    for window in phases.judged:
        whole = window.ended - window.began
        tiny = whole / max(whole - window.tiny_off, 0.02 * whole)
        for probe, number in window.counts.items():
            out[probe] += number * (tiny if probe.what in TINY else 1.0)
    return dict(out)


TINY = frozenset(("item", "cpu", "numpy", "tolist", "__float__", "__int__", "__bool__", "__index__", "__array__"))


def by_line(places: Sequence[Weighed]) -> dict[tuple[str, int], float]:
    """(file, line) -> ns of all places that are that line or were called from it."""
    out: dict[tuple[str, int], float] = defaultdict(float)
    for place in places:
        for where in {(f.function.file, f.line) for f in place.frames}:
            out[where] += place.ns
    return dict(out)
