"""updates_per_step: each transition is learnt from more often than usual. It costs time and buys learning: a trade,
not a mistake."""

from __future__ import annotations

from hotloop.doctor.case import Case, heaviest_line
from hotloop.doctor.cuts import cut
from hotloop.doctor.finding import Finding, amdahl

USUAL = 8.0  # samples per step of Mnih et al. 2015, doi 10.1038/nature14236: batches of 32 every 4 steps
LEAST = 0.05


def find(case: Case) -> list[Finding]:
    samples = case.facts.samples_per_step
    places = [p for p in case.placed if p.role == "update" or (p.role == "replay" and p.part == "sample")]
    share = sum(p.ns for p in places) / case.wall
    if samples is None or samples < 1.5 * USUAL:
        return []
    keep = max(2, round(samples / USUAL))
    saved = share * (1 - 1 / keep)
    frame = heaviest_line([p for p in places if p.place.within and p.place.within.what == "backward"] or places)
    if saved < LEAST or frame is None:
        return []
    trial = cut(case, places, keep)
    per_step = case.facts.updates_per_step or 0
    often = (
        f"{per_step:.2g} updates per env step" if per_step >= 0.1 else f"an update every {1 / per_step:.0f} env steps"
    )
    return [
        Finding(
            name="updates_per_step",
            title=f"{samples:.3g} samples per step",
            file=frame.function.file,
            line=frame.line,
            share=saved,
            remedy=f"one update where there are {keep} gives {samples / keep:.3g} samples per step; it learns less per "
            "env step, and only evaluation can say whether that matters",
            evidence=(f"{often}, batch {case.facts.batch or 0:.0f}; Mnih et al. 2015 took {USUAL:g} samples per step",),
            predicted_gain=amdahl(saved),
            learning="changes",
            tier="trade",
            trial=trial,
        )
    ]
