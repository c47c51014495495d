"""transport: transitions travel between processes or threads one by one: pickled, locked, and sometimes dropped."""

from __future__ import annotations

from collections import defaultdict

from hotloop.doctor.case import Case, near_frame
from hotloop.doctor.cuts import cut
from hotloop.doctor.finding import Finding, amdahl
from hotloop.doctor.recording import Frame, Probe, Timed
from hotloop.doctor.weighing import counts, totals

LEAST = 0.03
QUEUES = ("process queue", "thread queue")


def find(case: Case) -> list[Finding]:
    return [*_travel(case), *_dropped(case)]


def _travel(case: Case) -> list[Finding]:
    places = [p for p in case.placed if p.role == "transport"]
    share = sum(p.ns for p in places) / case.wall
    calls = {p: t for p, t in case.totals.items() if p.what in QUEUES and p.track == 0}
    if share < LEAST or not calls:
        return []
    sites: dict[tuple[str, int], float] = defaultdict(float)
    frames: dict[tuple[str, int], Frame] = {}
    for placed in places:
        probe = placed.place.within
        frame = probe.at if probe and probe.what in QUEUES and probe.at else near_frame(placed.place.frames)
        if frame is not None:
            sites[frame.function.file, frame.line] += placed.ns
            frames[frame.function.file, frame.line] = frame
    key = max(sites, key=lambda k: sites[k])
    number = sum(t.calls for t in calls.values())
    pickling = sum(t.exclusive for p, t in case.totals.items() if p.what in ("pickle", "unpickle") and p.track == 0)
    each = sum(p.ns for p in places) / number / 1e3
    size = sum(n for p, n in case.counts.items() if p.what in ("pickled bytes", "unpickled bytes"))
    evidence = [
        f"{number / case.phases.seconds:,.0f} items per second one by one, {each:,.0f} µs each, of which pickling is "
        f"{pickling / number / 1e3:,.0f} µs"
    ]
    if size:
        evidence.append(f"{size / number / 1e3:,.1f} kB per item, {size / case.phases.seconds / 1e6:,.0f} MB/s")
    return [
        Finding(
            name="transport",
            title="transitions travel one by one through a queue",
            file=key[0],
            line=key[1],
            share=share,
            remedy="one block of many steps per message, or a ring in shared memory that is written in place",
            evidence=tuple(evidence),
            predicted_gain=amdahl(share),
            trial=cut(case, places),
        )
    ]


def _dropped(case: Case) -> list[Finding]:
    """Full queues, in whichever process puts."""
    refused: dict[Probe, float] = defaultdict(float)
    put: dict[Probe, Timed] = {}
    for recording in case.recordings:
        everything = _whole(recording.windows)
        for probe, number in counts(everything).items():
            if probe.what == "refused" and probe.detail[1:3] == ("put", "Full"):
                refused[probe] += number
        put |= {p: t for p, t in totals(everything).items() if p.what in QUEUES and p.detail[:1] == ("put",)}
    lost = sum(refused.values())
    tried = max(lost, sum(t.calls for t in put.values()))
    if lost < 10 or lost < 0.01 * tried:
        return []
    probe = max(refused, key=lambda p: refused[p])
    frame = probe.at
    return [
        Finding(
            name="dropped",
            title=f"{100 * lost / tried:.0f} % of what was collected is thrown away",
            file=frame.function.file if frame else case.script,
            line=frame.line if frame else 0,
            share=0.0,
            remedy="let the collector wait, or collect less; count what is dropped",
            evidence=(
                f"the queue was full {lost:,.0f} times of {tried:,.0f}; those transitions were stepped for nothing",
            ),
            learning="changes",
            tier="wrong",
        )
    ]


def _whole(windows):  # type: ignore[no-untyped-def]
    from hotloop.doctor.phases import Phases

    return Phases("running", tuple(windows), None, None, None)
