"""small_updates: most of an update is calls, not arithmetic: dozens of operations on a few kilobytes each."""

from __future__ import annotations

from hotloop.doctor.case import Case, heaviest_line
from hotloop.doctor.finding import Finding, amdahl

GFLOPS = 50.0  # of one core on matrices of this size; a guess in favour of the script
SAVED = 0.6  # of what is not arithmetic, by one compiled call: bench/results/update_small.json, update_medium.json
LEAST = 0.05
FORWARDS = 4.0  # multiplications of an update, in forwards: online, target, and twice for the gradients


def find(case: Case) -> list[Finding]:
    facts = case.facts
    share = case.share_of_role("update")
    if not facts.macs or not facts.batch or not case.updates:
        return []
    each = share * case.wall * case.busy / case.updates / 1e3
    arithmetic = 2 * FORWARDS * facts.macs * facts.batch / GFLOPS / 1e3
    saved = share * SAVED * (1 - min(1.0, arithmetic / each))
    frame = heaviest_line([p for p in case.placed if p.place.within is not None and p.place.within.what == "backward"])
    if saved < LEAST or arithmetic > 0.5 * each or frame is None:
        return []
    return [
        Finding(
            name="small_updates",
            title=f"an update takes {each:,.0f} µs, its arithmetic {arithmetic:,.0f} µs",
            file=frame.function.file,
            line=frame.line,
            share=saved,
            remedy="compile the whole update into one call, several updates per call (what hotloop train does)",
            evidence=(
                f"{facts.parameters:,} parameters, batch {facts.batch:.0f}: the rest is the cost of calling operations",
            ),
            predicted_gain=amdahl(saved),
            tier="slow",
        )
    ]
