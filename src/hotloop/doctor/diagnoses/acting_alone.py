"""acting_alone: the network is asked about one state at a time, where a batch would cost about the same."""

from __future__ import annotations

from hotloop.doctor.case import Case, near_frame
from hotloop.doctor.cuts import cut
from hotloop.doctor.finding import Finding, amdahl

LEAST = 0.03


def find(case: Case) -> list[Finding]:
    rows, per_step = case.facts.act_rows, case.facts.act_forwards_per_step
    acting = [p for p in case.placed if p.role == "act"]
    share = sum(p.ns for p in acting) / case.wall
    if rows is None or per_step is None or rows > 1.5 or share < LEAST:
        return []
    forwards = {p: t for p, t in case.totals.items() if p in case.acting}
    calls = sum(t.calls for t in forwards.values())
    probe = max(forwards, key=lambda p: forwards[p].inclusive, default=None)
    frame = near_frame((probe.at,)) if probe is not None and probe.at is not None else None
    if frame is None or not calls:
        return []
    each = sum(p.ns for p in acting) / calls / 1e3
    network = sum(t.inclusive for t in forwards.values()) / calls / 1e3
    evidence = [f"batch 1, {each:,.0f} µs per action, of which the network's forward is {network:,.0f} µs"]
    if case.facts.lanes > 1:
        evidence.append(f"{case.facts.lanes} environments are stepped, and each is asked about alone")
        remedy = "act once for all environments: stack their states, one forward"
    else:
        remedy = "step several environments and act once for all of them"
    return [
        Finding(
            "acting_alone", f"one state per forward pass ({per_step:.1f} per env step)", frame.function.file,
            frame.line, share, remedy, tuple(evidence), amdahl(share), "same", "waste", cut(case, acting),
        )
    ]  # fmt: skip
