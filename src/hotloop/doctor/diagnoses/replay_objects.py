"""replay_objects: a batch is put together from Python objects, transition by transition, where arrays would be
gathered once."""

from __future__ import annotations

import re

from hotloop.doctor.case import Case, heaviest_line, near_frame
from hotloop.doctor.cuts import cut
from hotloop.doctor.finding import Finding, amdahl
from hotloop.doctor.roles import Placed
from hotloop.doctor.source import source

LEAST = 0.04
OBJECTS = re.compile(
    r"zip\(\*|stack\(|random\.(sample|choices)|deque|\[\d\] for|"
    r"for \w+ in (self\.)?\w*(batch|sample|transition|idx|ind)",
    re.I,
)
ONE_BY_ONE = 0.3  # of the time that lies on lines that say so
KEPT = 0.1  # of the time: what gathering from arrays still costs


def find(case: Case) -> list[Finding]:
    places = [p for p in case.placed if p.role == "replay" and p.part == "sample"]
    share = sum(p.ns for p in places) / case.wall
    draws = [(p, t) for p, t in case.totals.items() if p.what == "random.sample" and p.track == 0]
    frame = heaviest_line(places)
    if share < LEAST or frame is None or not case.updates:
        return []
    each = sum(p.ns for p in places) / case.updates / 1e3
    if not draws and sum(p.ns for p in places if _one_by_one(p)) < ONE_BY_ONE * share * case.wall:
        return []  # it is gathered already
    evidence = [f"{each:,.0f} µs per update to draw {case.facts.batch or 0:.0f} transitions and make tensors of them"]
    for probe, timed in draws:
        if probe.detail[:1] == ("deque",):
            evidence.append(
                f"random.sample reaches into a deque, {timed.inclusive / timed.calls / 1e3:,.0f} µs per draw"
            )
    saved = share * (1 - KEPT)
    return [
        Finding(
            name="replay_objects",
            title="batches are put together from Python objects",
            file=frame.function.file,
            line=frame.line,
            share=saved,
            remedy="one preallocated array per field; draw indices, gather once",
            evidence=tuple(evidence),
            predicted_gain=amdahl(saved),
            trial=cut(case, places),
        )
    ]


def _one_by_one(placed: Placed) -> bool:
    frame = near_frame(placed.place.frames)
    if frame is None:
        return False
    text = source(frame.function.file)
    return bool(OBJECTS.search(text.text(text.statement(frame.function, frame.line)) or text.line(frame.line)))
