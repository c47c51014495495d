"""environment: stepping takes much of the time, and not in loops of the user's that could be named."""

from __future__ import annotations

from hotloop.doctor.case import Case, heaviest_line
from hotloop.doctor.diagnoses import env_loops
from hotloop.doctor.finding import Finding, Trial, amdahl

LEAST = 0.25


def find(case: Case) -> list[Finding]:
    named = sum(f.share for f in env_loops.find(case))
    share = case.share_of_role("env") - named
    if share < LEAST or not case.env_calls:
        return []
    inside = [p for p in case.placed if p.role == "env"]
    site = next((p.at for p in case.totals if p.what == "env step" and p.at), None)
    frame = site or heaviest_line(inside)
    if frame is None:
        return []
    steps = [t for p, t in case.totals.items() if p.what in ("env step", "env reset") and p.track == 0]
    each = sum(t.inclusive for t in steps) / max(1, case.env_calls) / 1e3
    heavy = heaviest_line([p for p in inside if p.part == "step"])
    where = f", most at {heavy.function.name} line {heavy.line}" if heavy and heavy is not frame else ""
    lanes = case.facts.lanes
    return [
        Finding(
            name="environment",
            title=f"the environment takes {each:,.0f} µs per {'batched ' if lanes > 1 else ''}step",
            file=frame.function.file,
            line=frame.line,
            share=share,
            remedy="a batch of lanes in one native call, or worker processes beside the update",
            evidence=(f"{case.facts.env_class}, {lanes} lane{'s' * (lanes != 1)}{where}",),
            predicted_gain=amdahl(share) if not named else None,
            tier="slow",
            trial=Trial("canned_env", bound=True, says="steps answered with results of earlier ones")
            if not named
            else None,
        )
    ]
