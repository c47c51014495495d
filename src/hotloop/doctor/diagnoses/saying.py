"""saying: prints, log records, dashboards, progress bars and plots that take time from training."""

from __future__ import annotations

from collections import defaultdict

from hotloop.doctor.case import Case, near_frame
from hotloop.doctor.finding import Finding, Trial, amdahl
from hotloop.doctor.recording import Frame

LEAST = 0.01
WHAT = {
    "print": "print",
    "log": "log records",
    "dashboard": "a dashboard's scalars",
    "bar": "a progress bar",
    "plot": "plots",
}


def find(case: Case) -> list[Finding]:
    places = [p for p in case.placed if p.role == "logging" and p.part in WHAT]
    share = sum(p.ns for p in places) / case.wall
    if share < LEAST:
        return []
    sites: dict[tuple[str, int], float] = defaultdict(float)
    frames: dict[tuple[str, int], Frame] = {}
    parts: dict[str, float] = defaultdict(float)
    for placed in places:
        probe = placed.place.within
        frame = probe.at if probe is not None and probe.at is not None else near_frame(placed.place.frames)
        parts[placed.part] += placed.ns
        if frame is not None:
            key = (frame.function.file, frame.line)
            sites[key] += placed.ns
            frames[key] = frame
    if not sites:
        return []
    key = max(sites, key=lambda k: sites[k])
    calls = sum(t.calls for p, t in case.totals.items() if p.what in WHAT and p.track == 0)
    rounds, name = (case.env_steps, "env step") if case.env_steps else (max(1, case.updates), "update")
    said = " · ".join(
        f"{WHAT[part]} {100 * ns / case.wall:.0f} %" for part, ns in sorted(parts.items(), key=lambda x: -x[1])
    )
    return [
        Finding(
            name="saying",
            title=f"{calls / rounds:.2g} lines said per {name}",
            file=key[0],
            line=key[1],
            share=share,
            remedy="say it every few seconds, not every step; buffer what is written",
            evidence=(said,),
            predicted_gain=amdahl(share),
            trial=Trial(
                "skip_calls",
                {"what": ["print", "log", "dashboard", "bar"]},
                says="prints, log records, bars and dashboards silenced",
            ),
        )
    ]
