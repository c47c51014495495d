"""replay_objects: a batch is put together from Python objects, transition by transition, where arrays would be
gathered once."""

from __future__ import annotations

from hotloop.doctor.case import Case, heaviest_line
from hotloop.doctor.cuts import cut
from hotloop.doctor.finding import Finding, amdahl

LEAST = 0.04
KEPT = 0.1  # of the time: what gathering from arrays still costs


def find(case: Case) -> list[Finding]:
    places = [p for p in case.placed if p.role == "replay" and p.part == "sample"]
    share = sum(p.ns for p in places) / case.wall
    draws = [(p, t) for p, t in case.totals.items() if p.what == "random.sample" and p.track == 0]
    frame = heaviest_line(places)
    if share < LEAST or frame is None or not case.updates:
        return []
    each = sum(p.ns for p in places) / case.updates / 1e3
    if not draws and case.facts.batch and each < 1.0 * case.facts.batch:  # µs per transition: it is gathered already
        return []
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
