"""garbage: Python's collector walks over everything a replay of objects holds, again and again."""

from __future__ import annotations

from hotloop.doctor.case import Case, heaviest_line
from hotloop.doctor.finding import Finding, Trial, amdahl

LEAST = 0.02


def find(case: Case) -> list[Finding]:
    probes = [(p, t) for p, t in case.totals.items() if p.what == "gc" and p.track == 0]
    share = sum(t.exclusive for _, t in probes) / case.wall
    frame = heaviest_line([p for p in case.placed if p.role == "gc"])
    if share < LEAST:
        return []
    calls, ns = sum(t.calls for _, t in probes), sum(t.exclusive for _, t in probes)
    return [
        Finding(
            name="garbage",
            title="Python's garbage collector",
            file=frame.function.file if frame else case.script,
            line=frame.line if frame else 0,
            share=share,
            remedy="keep transitions in arrays; or gc.freeze() after set-up and a higher gc.set_threshold",
            evidence=(f"{calls:,} collections, {ns / calls / 1e6:,.2f} ms each",),
            predicted_gain=amdahl(share),
            trial=Trial("no_gc", says="the collector switched off"),
        )
    ]
