"""Counts what a run did and how fast, in windows whose numerator and denominator are the same. Time spent on
evaluation and checkpoints is kept apart, so that a speed is that of training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from hotloop.collect.episodes import Finished
from hotloop.core.clock import Clock, now_ns
from hotloop.learn.step import STATS
from hotloop.trace import Trace

WINDOWS = 20  # a run's learning phase is cut into so many windows of equal env steps
_RECENT = 100  # episodes whose mean return is shown
_HALF_WIDTH = 1.96  # standard errors: 95 % of a normal distribution, which costs a row nothing
_MARKS = 4_096  # points of the speed curve; when full, every second one is dropped


class Meter:
    """Fed once per cycle."""

    def __init__(self, measures: tuple[str, ...], clock: Clock = now_ns) -> None:
        self.measures = measures
        self.episodes = 0
        self.seconds_before = 0.0  # of training, by processes before a resume
        self.resumed: list[int] = []  # env steps at which earlier processes were gone on from
        self.paused: dict[str, float] = {}  # what else the run spent time on -> seconds
        self._clock = clock
        self._started = clock()
        self._ended: int | None = None
        self._paused_ns = 0
        self._sums = np.zeros(len(STATS))  # of what was applied since the last row; the last column counts
        self._finished: list[Finished] = []  # not yet among the recent ones
        self._recent: list[tuple[float, int, np.ndarray]] = []
        self._marks: list[tuple[int, int]] = []  # (training ns, env steps) while learning
        self._every, self._skipped = 1, 0
        self._last_row = (0, 0, 0)  # training ns, env steps, updates

    def start(self, env_steps: int, updates: int) -> None:
        """Step 1 comes next: what was before is not training."""
        self._started = self._clock()
        self._last_row = (0, env_steps, updates)

    def now(self) -> int:
        """Training time in ns, pauses left out."""
        return (self._ended or self._clock()) - self._started - self._paused_ns

    def end(self) -> None:
        """What comes after is not training. Pauses that begin after it count for themselves only."""
        self._ended = self._clock()

    def pause(self, what: str) -> _Pause:
        return _Pause(self, what)

    def cycle(self, env_steps: int, finished: Finished, stats: np.ndarray | None) -> None:
        """One cycle ended. stats [U, 4] where it learnt."""
        if len(finished.returns):
            self.episodes += len(finished.returns)
            self._finished.append(finished)
        if stats is None:
            return
        self._sums += stats[stats[:, -1] > 0].sum(0, dtype=np.float64)
        self._skipped += 1
        if self._skipped >= self._every or not self._marks:
            self._skipped = 0
            self._marks.append((self.now(), env_steps))
            if len(self._marks) >= _MARKS:
                self._marks = self._marks[::2]
                self._every *= 2

    def row(self, env_steps: int, updates: int) -> dict[str, Any]:
        """What happened since the last row."""
        now = self.now()
        before_ns, before_steps, before_updates = self._last_row
        self._last_row = (now, env_steps, updates)
        seconds = max(now - before_ns, 1) / 1e9
        row: dict[str, Any] = {
            "env_steps": env_steps,
            "updates": updates,
            "seconds": round(self.seconds_before + now / 1e9, 6),
            "env_steps_per_s": (env_steps - before_steps) / seconds,
            "updates_per_s": (updates - before_updates) / seconds,
            "episodes": self.episodes,
            **self._losses(),
            **self._returns(),
        }
        return row

    def _losses(self) -> dict[str, float | None]:
        """Means over the updates that were applied since the last row."""
        *sums, applied = self._sums.tolist()
        self._sums[:] = 0.0
        return {name: total / applied if applied else None for name, total in zip(STATS, sums, strict=False)}

    def _newest(self) -> list[tuple[float, int, np.ndarray]]:
        """The episodes that ended last."""
        for f in self._finished:
            rows = zip(f.returns[-_RECENT:], f.lengths[-_RECENT:], f.measures[-_RECENT:], strict=True)
            self._recent = [*self._recent, *rows][-_RECENT:]
        self._finished = []
        return self._recent

    def _returns(self) -> dict[str, Any]:
        """Means over the newest episodes, the exploring ones of training."""
        if not self._newest():
            return {"return_mean": None, "return_ci": None, "length_mean": None, **dict.fromkeys(self.measures)}
        returns, lengths, measures = zip(*self._recent, strict=True)
        mean, error = float(np.mean(returns)), 0.0
        if len(returns) > 1:
            error = float(np.std(returns, ddof=1)) / len(returns) ** 0.5
        return {
            "return_mean": mean,
            "return_ci": [mean - _HALF_WIDTH * error, mean + _HALF_WIDTH * error],
            "length_mean": float(np.mean(lengths)),
            **dict(zip(self.measures, map(_mean_of_known, zip(*measures, strict=True)), strict=True)),
        }

    def speed(self) -> dict[str, Any]:
        """Speed of the learning phase, whole and by windows of equal env steps."""
        if len(self._marks) < 2:
            return {"env_steps_per_s": None, "first_window_ratio": None, "env_steps_per_s_windows": []}
        ns, steps = np.array(self._marks, np.float64).T
        edges = np.linspace(steps[0], steps[-1], min(WINDOWS, len(steps) - 1) + 1)
        windows = np.diff(edges) / np.maximum(np.diff(np.interp(edges, steps, ns)), 1) * 1e9
        return {
            "env_steps_per_s": float((steps[-1] - steps[0]) / max(ns[-1] - ns[0], 1) * 1e9),
            "first_window_ratio": float(windows[0] / np.median(windows)),
            "env_steps_per_s_windows": [round(float(w), 1) for w in windows],
        }

    def state(self) -> dict[str, Any]:
        """For the checkpoint: figures only, nothing that training depends on. With them the rows of a resumed run say
        what those of an uninterrupted one would."""
        recent = [[float(r), int(n), [float(x) for x in m]] for r, n, m in self._newest()]
        return {
            "episodes": self.episodes,
            "seconds": self.seconds_before + self.now() / 1e9,
            "recent": recent,
            "sums": self._sums.tolist(),
            "resumed": self.resumed,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        self.episodes, self.seconds_before = state["episodes"], state["seconds"]
        self._recent = [(r, n, np.array(m, np.float32)) for r, n, m in state["recent"]]
        self._sums[:] = state["sums"]
        self.resumed = list(state["resumed"])


class Spent:
    """Where the time went between two rows, from the trace's exact totals."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._before: dict[str, int] = {}

    def since_last(self) -> dict[str, float]:
        """track/section -> seconds"""
        now = {f"{t.track}/{t.name}": t.total_ns for t in self._trace.totals()}
        before, self._before = self._before, now
        return {name: round((ns - before.get(name, 0)) / 1e9, 6) for name, ns in now.items()}


def _mean_of_known(values: Iterable[float]) -> float | None:
    """An episode may end without saying anything of a measure: one life of a game has no score."""
    known = [float(v) for v in values if np.isfinite(v)]
    return float(np.mean(known)) if known else None


class _Pause:
    def __init__(self, meter: Meter, what: str) -> None:
        self.meter, self.what = meter, what

    def __enter__(self) -> None:
        self.entered = self.meter._clock()

    def __exit__(self, *error: object) -> None:
        ns = self.meter._clock() - self.entered
        if self.meter._ended is None:
            self.meter._paused_ns += ns
        self.meter.paused[self.what] = self.meter.paused.get(self.what, 0.0) + ns / 1e9
