"""True speed over time: env steps and seconds of the same windows, from the first to the last judged one, and which
part of the work is behind a change. A count since the start over the time of a window is not a speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from hotloop.doctor.phases import Phases
from hotloop.doctor.recording import Window

PIECES = 20
FLAT = 0.15  # change from start to end that is no trend


@dataclass(frozen=True)
class Throughput:
    unit: str  # "env steps" or "updates"
    per_s: float | None  # median of the pieces
    pieces: tuple[tuple[float, float], ...]  # (seconds since the process began, units per second)
    first_ratio: float | None  # first piece over the median
    change: float | None  # fitted end over fitted start
    before_learning_per_s: float | None

    @property
    def trend(self) -> str:
        if self.change is None or abs(self.change - 1) <= FLAT:
            return "flat"
        return "ramping" if self.change > 1 else "falling"


def throughput(windows: Sequence[Window], phases: Phases) -> Throughput:
    unit = "env steps" if windows and windows[-1].env_steps else "updates"

    def count(w: Window) -> int:
        return w.env_steps if unit == "env steps" else w.updates

    before = None
    if phases.kind == "learning" and phases.judged:
        early = [w for w in windows if w.ended <= phases.judged[0].began and w.env_steps and not w.updates]
        before = _rate(early, count) if len(early) > 1 else None
    pieces = _pieces(phases, count)
    if not pieces or phases.kind == "running":
        return Throughput(unit, None, (), None, None, before)
    middle = median(rate for _, rate in pieces)
    return Throughput(unit, middle, tuple(pieces), pieces[0][1] / middle if middle else None, _change(pieces), before)


def _pieces(phases: Phases, count) -> list[tuple[float, float]]:  # type: ignore[no-untyped-def]
    """The judged windows in pieces of equal number that each hold some work."""
    windows = phases.judged
    if not windows or phases.before is None:
        return []
    done = count(windows[-1]) - count(phases.before)
    pieces = min(PIECES, len(windows), done)
    out: list[tuple[float, float]] = []
    last = phases.before
    for i in range(pieces):
        piece = windows[i * len(windows) // pieces : (i + 1) * len(windows) // pieces]
        end = piece[-1]
        seconds = (end.ended - last.ended - (end.lost - last.lost)) / 1e9
        if seconds > 0:
            out.append(((last.ended + end.ended) / 2e9, (count(end) - count(last)) / seconds))
        last = end
    return out


def _rate(windows: Sequence[Window], count) -> float | None:  # type: ignore[no-untyped-def]
    first, last = windows[0], windows[-1]
    seconds = (last.ended - first.ended) / 1e9
    return (count(last) - count(first)) / seconds if seconds > 0 else None


def _change(pieces: Sequence[tuple[float, float]]) -> float | None:
    """Theil and Sen's line through the pieces, its end over its start."""
    if len(pieces) < 4:
        return None
    slopes = sorted((b[1] - a[1]) / (b[0] - a[0]) for i, a in enumerate(pieces) for b in pieces[i + 1 :] if b[0] > a[0])
    slope = median(slopes)
    offset = median(y - slope * x for x, y in pieces)
    start, end = offset + slope * pieces[0][0], offset + slope * pieces[-1][0]
    low = 0.02 * median(y for _, y in pieces)
    return max(end, low) / max(start, low) if low > 0 else None
