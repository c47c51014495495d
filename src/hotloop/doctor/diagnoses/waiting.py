"""waiting: the script sleeps, renders or saves while it trains."""

from __future__ import annotations

from hotloop.doctor.case import Case
from hotloop.doctor.finding import Finding, Trial, amdahl

LEAST = 0.01
KINDS = {
    "sleep": ("the script sleeps", "no sleep in the training loop", "no_sleep"),
    "render": ("every step is rendered", "render when evaluating", "no_render"),
    "save": ("the model is saved while it trains", "save every few minutes, or from a thread of its own", "no_save"),
}


def find(case: Case) -> list[Finding]:
    out = []
    for what, (title, remedy, trial) in KINDS.items():
        probes = [(p, t) for p, t in case.totals.items() if p.what == what and p.track == 0]
        share = sum(t.exclusive for _, t in probes) / case.wall
        if share < LEAST:
            continue
        probe, _ = max(probes, key=lambda x: x[1].exclusive)
        calls, ns = sum(t.calls for _, t in probes), sum(t.inclusive for _, t in probes)
        frame = probe.at
        out.append(
            Finding(
                name="waiting",
                title=title,
                file=frame.function.file if frame else case.script,
                line=frame.line if frame else 0,
                share=share,
                remedy=remedy,
                evidence=(f"{calls:,} times, {ns / calls / 1e6:,.2f} ms each",),
                predicted_gain=amdahl(share),
                trial=Trial("skip_calls", {"what": [what]}, says=f"{trial.replace('_', ' ')}"),
            )
        )
    return out
