"""repeated_forward: a network computes again what it has just computed: the same input, and no weight has changed."""

from __future__ import annotations

from collections import defaultdict

from hotloop.doctor.case import Case
from hotloop.doctor.finding import Finding, Trial, amdahl
from hotloop.doctor.recording import Probe
from hotloop.doctor.source import short

LEAST = 0.01


def find(case: Case) -> list[Finding]:
    repeats: dict[tuple[str, int], float] = defaultdict(float)
    probes: dict[tuple[str, int], Probe] = {}
    differs = sum(n for p, n in case.counts.items() if p.what == "repeat differs")
    proven = sum(n for p, n in case.counts.items() if p.what == "repeat equal")
    for probe, number in case.counts.items():
        if probe.what == "repeat" and probe.at is not None:
            key = (probe.at.function.file, probe.at.line)
            repeats[key] += number
            probes[key] = probe
    if not repeats or differs > 0.02 * proven or not proven:  # memory that came to hold something else
        return []
    saved, calls = 0.0, 0
    for key, number in repeats.items():
        same = [
            t for p, t in case.totals.items()
            if p.what == "forward" and p.at and (p.at.function.file, p.at.line) == key
        ]  # fmt: skip
        made = sum(t.calls for t in same)
        calls += made
        if made:
            saved += sum(t.inclusive for t in same) * min(1.0, number / made)
    share = saved / case.wall
    if share < LEAST:
        return []
    key = max(repeats, key=lambda k: repeats[k])
    total, updates = sum(repeats.values()), max(1, case.updates)
    where = ", ".join(f"{short(f)}:{n}" for f, n in sorted(repeats))
    evidence = (
        f"{total:,.0f} forwards gave what the one before had given ({total / updates:.2f} per update), "
        f"bit for bit in {proven:,.0f} of {proven:,.0f} that were compared; at {where}",
    )
    return [
        Finding(
            "repeated_forward", "the same forward is computed again", *key, share,
            "keep the result while neither the input nor the weights change; a target network changes only when it is "
            "copied to", evidence, amdahl(share), "same", "waste",
            Trial("kept_forwards", says="repeated forwards answered with the result of the one before"),
        )
    ]  # fmt: skip
