"""grad_while_acting: the network builds a graph for gradients when it is only asked for an action."""

from __future__ import annotations

from hotloop.doctor.case import Case
from hotloop.doctor.finding import Finding, Trial, amdahl
from hotloop.doctor.recording import Frame

LEAST = 0.03
SAVED = 0.25  # of the forward's time, for small networks


def find(case: Case) -> list[Finding]:
    graded = [(p, t) for p, t in case.totals.items() if p in case.acting and p.detail[2]]
    share = SAVED * sum(t.inclusive for _, t in graded) / case.wall
    if not graded or share < LEAST:
        return []
    probe, timed = max(graded, key=lambda x: x[1].inclusive)
    frame = probe.at
    return [
        Finding(
            name="grad_while_acting",
            title="acting builds a graph for gradients",
            file=frame.function.file if frame else case.script,
            line=frame.line if frame else 0,
            share=share,
            remedy="with torch.inference_mode(): around the forward that acts",
            evidence=(f"{timed.calls:,} forwards with gradients enabled, each followed by a step and no backward",),
            predicted_gain=amdahl(share),
            tier="slow",
            trial=Trial("no_grad", _where(frame), says="no gradients while acting") if frame else None,
        )
    ]


def _where(frame: Frame) -> dict[str, object]:
    return {"file": frame.function.file, "line": frame.line}
