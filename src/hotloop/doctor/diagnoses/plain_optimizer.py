"""plain_optimizer: the optimizer goes through the parameters one by one; fused, it is one kernel."""

from __future__ import annotations

from hotloop.doctor.case import Case
from hotloop.doctor.finding import Finding, Trial, amdahl

LEAST = 0.03
SAVED = 0.7  # of the optimizer's time, for networks of 4 to 20 tensors: bench/stages/doctor_remedies.py
FUSED = ("Adam", "AdamW", "SGD", "Adagrad")


def find(case: Case) -> list[Finding]:
    optimizer = case.facts.optimizer
    steps = [(p, t) for p, t in case.totals.items() if p.what == "optimizer" and p.track == 0]
    share = SAVED * sum(t.inclusive for _, t in steps) / case.wall
    if optimizer is None or optimizer["name"] not in FUSED or optimizer.get("fused") or share < LEAST:
        return []
    if "fused" not in optimizer:  # a PyTorch that has none
        return []
    probe, _ = max(steps, key=lambda x: x[1].inclusive)
    calls = sum(t.calls for _, t in steps)
    each = sum(t.inclusive for _, t in steps) / calls / 1e3
    frame = probe.at
    return [
        Finding(
            name="plain_optimizer",
            title=f"{optimizer['name']} goes through {optimizer['tensors']} tensors one by one",
            file=frame.function.file if frame else case.script,
            line=frame.line if frame else 0,
            share=share,
            remedy=f"{optimizer['name']}(…, fused=True)",
            evidence=(f"{each:,.0f} µs per step",),
            predicted_gain=amdahl(share),
            tier="slow",
            trial=Trial("fused_optimizer", says="fused=True"),
        )
    ]
