"""one_row_updates: a batch is gone through one transition at a time, each with an optimizer step of its own. A network
takes about as long for one row as for a whole batch of them."""

from __future__ import annotations

from hotloop.doctor.case import Case, heaviest_line
from hotloop.doctor.cuts import cut
from hotloop.doctor.finding import Finding, amdahl

SEVERAL = 4  # updates per env step, from which on they are a batch taken apart
LEAST = 0.05


def find(case: Case) -> list[Finding]:
    rows, each = case.facts.batch, case.facts.updates_per_step
    if rows is None or each is None or rows > 1.5 or each < SEVERAL:
        return []
    places = [p for p in case.placed if p.role == "update"]
    together = round(each)
    share = sum(p.ns for p in places) / case.wall
    saved = share * (1 - 1 / together)
    frame = heaviest_line([p for p in places if p.place.within and p.place.within.what == "backward"] or places)
    if saved < LEAST or frame is None:
        return []
    return [
        Finding(
            name="one_row_updates",
            title=f"{together} updates of one transition each per env step",
            file=frame.function.file,
            line=frame.line,
            share=saved,
            remedy=f"stack the {together} transitions and make one update of them, as DQN is written down: as many "
            "samples per step, fewer optimizer steps",
            evidence=(f"{share * case.wall * case.busy / max(1, case.updates) / 1e3:,.0f} µs per update of one row",),
            predicted_gain=amdahl(saved),
            learning="changes",
            tier="waste",
            trial=cut(case, places, together),
        )
    ]
