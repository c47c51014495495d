"""Everything that is known of a patient after it was watched, laid out for the diagnoses: facts, speed over time, and
where the time went, place by place. Knows no diagnosis."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from hotloop.doctor.facts import Facts, acting_forwards, facts
from hotloop.doctor.loop import Loop, find_loop
from hotloop.doctor.phases import Phases, phases
from hotloop.doctor.recording import Frame, Function, Probe, Recording, Timed
from hotloop.doctor.roles import Placed, Roles
from hotloop.doctor.source import Source, is_own, source
from hotloop.doctor.throughput import Throughput, throughput
from hotloop.doctor.weighing import Weighed, counts, totals, weigh


@dataclass(frozen=True, eq=False)
class Case:
    recordings: tuple[Recording, ...]
    learner: Recording  # the process whose time is looked at: the one that updates
    script: str
    phases: Phases
    wall: float  # ns of the judged windows
    places: tuple[Weighed, ...]
    totals: dict[Probe, Timed]
    counts: dict[Probe, float]
    acting: frozenset[Probe]
    loop: Loop | None
    roles: Roles
    facts: Facts
    throughput: Throughput

    @property
    def placed(self) -> list[Placed]:
        return self.roles.placed

    @cached_property
    def shares(self) -> dict[str, dict[str, float]]:
        return self.roles.shares(self.wall)

    def share(self, chosen: Callable[[Placed], bool]) -> float:
        return sum(p.ns for p in self.placed if chosen(p)) / self.wall if self.wall else 0.0

    def share_of_role(self, *roles: str) -> float:
        return sum(sum(self.shares.get(role, {}).values()) for role in roles)

    @property
    def env_calls(self) -> int:
        """Batched steps of the judged windows."""
        before = self.phases.before
        return self.phases.judged[-1].env_calls - (before.env_calls if before else 0) if self.phases.judged else 0

    @property
    def env_steps(self) -> int:
        before = self.phases.before
        return self.phases.judged[-1].env_steps - (before.env_steps if before else 0) if self.phases.judged else 0

    @property
    def updates(self) -> int:
        before = self.phases.before
        return self.phases.judged[-1].updates - (before.updates if before else 0) if self.phases.judged else 0

    @property
    def busy(self) -> float:
        """Cores that the process had, at most 1: less where it waits, or where others have them."""
        windows = self.phases.judged
        if len(windows) < 2:
            return 1.0
        return min(1.0, (windows[-1].cpu - windows[0].cpu) / max(1, windows[-1].ended - windows[0].ended))

    def thirds(self) -> tuple[Case, Case] | None:
        """The first and the last third of the judged windows, with the roles of the whole."""
        windows = self.phases.judged
        third = len(windows) // 3
        if third < 2 or self.phases.before is None:
            return None
        parts = []
        for judged, before in ((windows[:third], self.phases.before), (windows[-third:], windows[-third - 1])):
            part = replace(self.phases, judged=judged, before=before)
            places, wall = weigh(part)
            roles = Roles(places, self.loop, self.acting)
            parts.append(
                replace(
                    self, phases=part, wall=wall, places=tuple(places), totals=totals(part), counts=counts(part),
                    roles=roles,
                )
            )  # fmt: skip
        return parts[0], parts[1]


def case_of(recordings: Sequence[Recording], script: str) -> Case:
    """recordings: at least one process that wrote at least one window."""
    written = [r for r in recordings if r.windows]
    learner = max(written, key=lambda r: (r.windows[-1].updates, r.windows[-1].env_steps, -r.windows[0].began))
    if not learner.windows[-1].updates:
        learner = max(written, key=lambda r: (r.windows[-1].env_steps > 0 and not r.forked, len(r.windows)))
    part = phases(learner.windows)
    places, wall = weigh(part)
    timed, counted = totals(part), counts(part)
    acting = acting_forwards(timed, counted)
    loop = find_loop(places)
    roles = Roles(places, loop, acting)
    return Case(
        tuple(written), learner, script, part, wall, tuple(places), timed, counted, acting, loop, roles,
        facts(written, learner, part, timed, counted, acting), throughput(learner.windows, part),
    )  # fmt: skip


# --- places in the user's source -------------------------------------------------------------------------------------


def own_frame(frames: Iterable[Frame]) -> Frame | None:
    """The innermost frame that is the user's."""
    return next((f for f in frames if is_own(f.function.file)), None)


def near_frame(frames: Sequence[Frame]) -> Frame | None:
    """The user's, or the innermost there is."""
    return own_frame(frames) or (frames[0] if frames else None)


def heaviest_line(places: Iterable[Placed]) -> Frame | None:
    """The user's line under which most of the time of these places lies."""
    weight: dict[tuple[Function, int], float] = defaultdict(float)
    frames: dict[tuple[Function, int], Frame] = {}
    for placed in places:
        frame = near_frame(placed.place.frames)
        if frame is not None:
            key = (frame.function, frame.line)
            weight[key] += placed.ns
            frames[key] = frame
    return frames[max(weight, key=lambda k: weight[k])] if weight else None


def outermost_loop(frame: Frame) -> ast.stmt | None:
    """The outermost loop of a function around one of its lines."""
    text: Source = source(frame.function.file)
    statement = text.statement(frame.function, frame.line)
    if statement is None:
        return None
    around = text.loops(statement)
    if isinstance(statement, ast.For | ast.While) and not around:
        return statement
    return around[-1] if around else None
