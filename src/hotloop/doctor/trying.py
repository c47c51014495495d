"""Tries the remedies: the script is run again, stretches with a remedy between stretches without, so that a gain is a
ratio of neighbours in one run. A remedy that breaks or hangs the script is left out of the next run."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from hotloop.doctor.finding import Trial
from hotloop.doctor.patient import Patient, run
from hotloop.doctor.recording import read, read_all

ROUNDS = 12  # aimed at
STRETCH_S = (0.06, 0.5)
START_S = 1.5  # of a run that are not trials, beside what it takes until it learns
LEAST_S = 2.0
HUNG_S = 4.0  # and 20 stretches: nothing written for so long
WATCHED = Trial("watched")  # the doctor's own probes, tried as if they were a remedy
IDLE = Trial("idle")  # the probes there and switched off: what remedies that act where a probe stands are held against
BY_PROBES = frozenset(("skip_calls", "plain_text", "no_grad", "kept_forwards"))
RESAMPLES = 2000


@dataclass(frozen=True)
class Gain:
    """Of one remedy: the median of its rounds, and the 95 % interval of that median."""

    gain: float
    low: float
    high: float
    rounds: int


@dataclass(frozen=True)
class Tried:
    gains: dict[int, Gain]  # which of the trials -> what it gave
    broke: dict[int, str]  # which of the trials -> what it did to the script
    overhead: float | None  # of the doctor's probes: time with them over time without, less 1
    disturbed: float = 0.0  # share of the time of the trials in which other programs had the core


def try_all(
    patient: Patient, folder: Path, trials: Sequence[Trial], learning: bool, seconds: float, start_s: float = 0.0
) -> Tried:
    """The trials that can be switched while the script runs, all in one run, again in another where one broke it.
    start_s: until it learns, or steps where it never learns."""
    until = time.monotonic() + seconds
    ratios: dict[int, list[float]] = defaultdict(list)
    broke: dict[int, str] = {}
    sides = [WATCHED, *([IDLE] if any(t.remedy in BY_PROBES for t in trials) else []), *trials]
    own = len(sides) - len(trials)
    attempt = 0
    while (left := until - time.monotonic()) > LEAST_S:
        numbers = [n for n in range(len(sides)) if n - own not in broke]
        attempt += 1
        part = folder / f"trials-{attempt}"
        culprit, words = _run(patient, part, [sides[n] for n in numbers], learning, left, start_s)
        found = read_stretches(part, len(numbers))
        for i, values in found.items():
            ratios[numbers[i]] += values
        if culprit is None and not found:
            break
        if culprit is not None and numbers[culprit] >= own:
            broke[numbers[culprit] - own] = words
    if own > 1 and len(ratios[1]) >= 2:
        idle = median(ratios[1])
        for n in range(own, len(sides)):
            if sides[n].remedy in BY_PROBES:
                ratios[n] = [ratio / idle for ratio in ratios[n]]
    gains = {n - own: gain_of(values) for n, values in ratios.items() if len(values) >= 2}
    watched = gains.get(-own)
    return Tried(
        {n: gain for n, gain in gains.items() if n >= 0 and n not in broke}, broke,
        None if watched is None else 1 / watched.gain - 1, disturbed(folder),
    )  # fmt: skip


def _run(
    patient: Patient, folder: Path, sides: Sequence[Trial], learning: bool, left: float, start_s: float
) -> tuple[int | None, str]:
    """One run until the time is up: (the side at work when the script broke, what happened)."""
    stretch = min(max((left - start_s - START_S) / (2 * len(sides) * ROUNDS), STRETCH_S[0]), STRETCH_S[1])
    control: dict[str, Any] = {
        "sides": [{"remedy": s.remedy, "settings": s.settings, "by_probes": s.remedy in BY_PROBES} for s in sides],
        "learning": learning,
        "stretch_s": stretch,
    }
    hung = Hung(folder, HUNG_S + 20 * stretch)
    ending = run(patient, folder, control, left, hung)
    side = last_side(folder)
    if hung.is_so and side is not None:
        return side, "the script stood still"
    if not ending.stopped and ending.code and side is not None:
        rows = [row for r in read_all(folder) for row in r.some("raised")]
        return side, f"the script failed: {rows[-1][0]}: {rows[-1][1]}" if rows else "the script failed"
    return None, ""


class Hung:
    """Whether trials have begun and nothing was written since."""

    def __init__(self, folder: Path, after_s: float) -> None:
        self.folder, self.after_s = folder, after_s
        self.size, self.changed, self.is_so = 0, 0.0, False

    def __call__(self, at: float) -> bool:
        size = sum(file.stat().st_size for file in self.folder.glob("rows-*.jsonl"))
        if size != self.size:
            self.size, self.changed = size, at
        self.is_so = at - self.changed > self.after_s and last_side(self.folder) is not None
        return self.is_so


def last_side(folder: Path) -> int | None:
    """Which remedy was at work last; None where there was none at that moment."""
    turns = [row[0] for r in read_all(folder) for row in r.some("turn")]
    return turns[-1] if turns and turns[-1] >= 0 else None


def read_stretches(folder: Path, sides: int) -> dict[int, list[float]]:
    """side -> what each of its stretches gave, against the two beside it without a remedy, per env step."""
    out: dict[int, list[float]] = defaultdict(list)
    for recording in read_all(folder):
        rows = recording.some("took")
        for before, row, after in zip(rows, rows[1:], rows[2:], strict=False):
            if row[0] >= 0 and min(_undisturbed(r) for r in (before, row, after)) > 0:
                plain = (_undisturbed(before) + _undisturbed(after)) / (before[3] + after[3])
                out[row[0]].append(plain / (_undisturbed(row) / row[3]))
    return dict(out)


def _undisturbed(row: Sequence[int]) -> int:
    """ns of a stretch, without those in which other programs kept the script from running."""
    return row[1] - row[2]


def disturbed(folder: Path) -> float:
    """The share of all stretches in which other programs kept the script from running."""
    rows = [row for file in folder.glob("*/rows-*.jsonl") for row in read(file).some("took")]
    return sum(row[2] for row in rows) / sum(row[1] for row in rows) if rows else 0.0


def gain_of(ratios: Sequence[float]) -> Gain:
    draw = random.Random(len(ratios))
    medians = sorted(median(draw.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    return Gain(median(ratios), medians[RESAMPLES // 40], medians[-RESAMPLES // 40], len(ratios))
