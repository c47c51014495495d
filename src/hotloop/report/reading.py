"""A run folder as a report reads it. What a run has not written, or has written strangely, is a gap and a note, never
an error: only a folder that is no run is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hotloop.core.errors import UserError
from hotloop.report.phases import Phases, from_columns, from_trace
from hotloop.run import RunFolder

DOCTOR = "doctor.json"
# Options on which neither the learning nor the speed of a run depends: runs that differ here are repeats.
INDIFFERENT = (
    *("seed", "log_every_env_steps", "evaluate_every_env_steps", "evaluate_episodes"),
    *("checkpoint_every_env_steps", "keep_checkpoints", "tensorboard", "report"),
)

Columns = dict[str, np.ndarray]  # key of metrics, nested ones as a/b -> [rows] float64, NaN where a row has none


@dataclass(frozen=True)
class Run:
    """One folder."""

    path: str  # as it was named
    options: dict[str, str]  # dotted path -> text
    columns: Columns
    summary: Mapping[str, Any]  # empty as long as the run has none
    findings: Sequence[Mapping[str, Any]] = ()
    phases: Sequence[Phases] = ()
    notes: Sequence[str] = field(default=())  # what the reader must know of this folder

    @property
    def name(self) -> str:
        return Path(self.path).resolve().name or self.path

    @property
    def workload(self) -> str:
        return self.options.get("workload") or text(self.summary.get("workload")) or "unknown workload"

    @property
    def seed(self) -> str:
        return self.options.get("seed", "?")

    @property
    def env_steps(self) -> float:
        """As far as it got."""
        steps = self.columns.get("env_steps", np.empty(0))
        return max(float(steps[-1]) if len(steps) else 0.0, number(self.summary.get("env_steps")) or 0.0)

    def settings(self) -> dict[str, str]:
        """What tells it from other runs of its workload."""
        return {k: v for k, v in self.options.items() if k not in INDIFFERENT}


def read(path: Path, with_phases: bool = True) -> Run:
    """A run, finished or not."""
    folder = RunFolder.open(path)
    notes: list[str] = []
    config = _tried(folder.read_config, notes)
    columns = _columns(_tried(folder.read_metrics, notes) or [])
    summary = _tried(folder.read_summary, notes if (folder.path / "summary.json").exists() else []) or {}
    notes += _state(summary, columns, str(path))
    phases: list[Phases] = []
    if with_phases:
        phases = from_columns(columns) or from_trace(folder.trace)
    return Run(str(path), dict(_flat(config or {})), columns, summary, _findings(folder, notes), phases, notes)


def _tried(reading: Any, notes: list[str]) -> Any:
    try:
        return reading()
    except UserError as why:
        notes.append(str(why))
        return None


def _state(summary: Mapping[str, Any], columns: Columns, path: str) -> Iterator[str]:
    steps = columns.get("env_steps", np.empty(0))
    last, said = (float(steps[-1]) if len(steps) else 0.0), number(summary.get("env_steps"))
    if said is None:
        yield "There is no summary: the run goes on, or was interrupted. What follows is what it has written so far."
    elif said < last:
        yield (
            f"The run went on after its last summary ({said:,.0f} env steps, now {last:,.0f}): headline figures are "
            "those of the summary."
        )
    if number(summary.get("stopped_by_signal")):
        yield f"Stopped by a signal; go on with: hotloop resume {path}"
    if refused := number(summary.get("refused_updates")):
        yield f"{refused:,.0f} updates were refused: loss or gradient was not finite."
    if not len(steps):
        yield "No rows of metrics yet."


def _findings(folder: RunFolder, notes: list[str]) -> list[Mapping[str, Any]]:
    """Of the doctor, where it has seen this run."""
    path = folder.path / DOCTOR
    if not path.is_file():
        return []
    try:
        found = json.loads(path.read_text("utf-8", "replace"))
        return [f for f in found["findings"] if isinstance(f, Mapping)]
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        notes.append(f"{path} cannot be read; let the doctor write it again.")
        return []


# --- rows → columns --------------------------------------------------------------------------------------------------


def _columns(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """One array per key. Where the rows go back in env steps, as those of a run that was resumed from before them,
    what was written later holds."""
    kept: list[dict[str, float]] = []
    ahead = math.inf
    for row in reversed(rows):
        values = dict(_numbers(row))
        steps = values.get("env_steps", math.nan)
        if steps < ahead:
            ahead = steps
            kept.append(values)
    kept.reverse()
    keys = list(dict.fromkeys(k for row in kept for k in row))
    return {key: np.array([row.get(key, math.nan) for row in kept], np.float64) for key in keys}


def _numbers(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Numbers of a row by path; an interval [low, high] as key/low and key/high."""
    for key, value in row.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{key}/")
        elif isinstance(value, list) and len(value) == 2:
            yield from _numbers({"low": value[0], "high": value[1]}, f"{prefix}{key}/")
        else:
            found = number(value)
            yield f"{prefix}{key}", math.nan if found is None else found


# --- values ----------------------------------------------------------------------------------------------------------


def number(value: Any) -> float | None:
    """A finite number, or None for anything else."""
    if isinstance(value, int | float):
        with suppress(OverflowError):
            return float(value) if math.isfinite(value) else None
    return None


def span(value: Any) -> tuple[float, float] | None:
    """An interval as the summary holds it, or None."""
    if isinstance(value, list) and len(value) == 2:
        low, high = number(value[0]), number(value[1])
        if low is not None and high is not None:
            return low, high
    return None


def text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ", ".join(map(text, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", text(value)
