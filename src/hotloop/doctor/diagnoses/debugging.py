"""debugging: PyTorch was asked to check every operation for where a NaN began."""

from __future__ import annotations

from hotloop.doctor.case import Case
from hotloop.doctor.finding import Finding, Trial


def find(case: Case) -> list[Finding]:
    if not any(row[0] == "anomaly detection" for row in case.learner.some("event")):
        return []
    backward = [(p, t) for p, t in case.totals.items() if p.what == "backward" and p.track == 0]
    if not backward:
        return []
    probe, _ = max(backward, key=lambda x: x[1].inclusive)
    share = sum(t.inclusive for _, t in backward) / case.wall
    return [
        Finding(
            name="debugging",
            title="anomaly detection is on",
            file=probe.at.function.file if probe.at else case.script,
            line=probe.at.line if probe.at else 0,
            share=share,
            remedy="torch.autograd.set_detect_anomaly only while looking for a NaN",
            trial=Trial("no_anomaly", says="anomaly detection off"),
        )
    ]
