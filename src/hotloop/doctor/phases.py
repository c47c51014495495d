"""The parts of a run: before the first step, before learning, learning, after. Only the learning part is judged;
where nothing was learnt, the part with steps; where there were none, all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hotloop.doctor.recording import Window

SETTLING_S = 0.5  # of the first updates: allocation, first use of kernels, caches
LEAST_S = 1.0  # of learning; below this the settling is kept too


@dataclass(frozen=True)
class Phases:
    kind: str  # "learning", "stepping" or "running": what the judged windows show
    judged: tuple[Window, ...]
    first_step_s: float | None  # since the process began
    first_update_s: float | None
    before: Window | None  # the window before the judged ones, whose counters they start from

    @property
    def seconds(self) -> float:
        return sum(w.seconds for w in self.judged)


def phases(windows: Sequence[Window]) -> Phases:
    first_step = next((i for i, w in enumerate(windows) if w.env_steps), None)
    first_update = next((i for i, w in enumerate(windows) if w.updates), None)
    if first_update is not None and windows[-1].updates > windows[first_update].updates:
        kind, start = "learning", first_update + 1
        last = max(i for i in range(1, len(windows)) if windows[i].updates > windows[i - 1].updates)
    elif first_step is not None and windows[-1].env_steps > windows[first_step].env_steps:
        kind, start = "stepping", first_step + 1
        last = max(i for i in range(1, len(windows)) if windows[i].env_steps > windows[i - 1].env_steps)
    else:
        kind, start, last = "running", 0, len(windows) - 1
    chosen = list(windows[start : last + 1])
    while kind != "running" and len(chosen) > 2 and _seconds(chosen) > LEAST_S:
        if chosen[0].ended - windows[start].began > SETTLING_S * 1e9:
            break
        chosen.pop(0)
    at = windows.index(chosen[0]) if chosen else 0
    return Phases(
        kind,
        tuple(chosen),
        windows[first_step].began / 1e9 if first_step is not None else None,
        windows[first_update].began / 1e9 if first_update is not None else None,
        windows[at - 1] if at else None,
    )


def _seconds(windows: Sequence[Window]) -> float:
    return sum(w.seconds for w in windows)
