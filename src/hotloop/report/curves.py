"""Curves of one run and of several: groups of runs that differ by their seed alone, means with intervals, thinning that
keeps every extreme. Knows nothing of pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hotloop.report.reading import Run

MOST_POINTS = 2_000  # per curve
_GRID = 400  # points of a mean over runs
# Student's t, two-sided 95 %, by degrees of freedom from 1 on; beyond, an expansion that is exact to 0.1 %.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


@dataclass(frozen=True)
class Group:
    """Runs of one workload that differ by their seed alone."""

    label: str  # what tells it from the other groups; empty where it is the only one
    runs: Sequence[Run]

    @property
    def seeds(self) -> list[Run]:
        """One run of each seed: those that repeat one say nothing new about learning."""
        return list({run.seed: run for run in reversed(self.runs)}.values())[::-1]


@dataclass(frozen=True)
class Mean:
    """Over runs, as far as every one of them got."""

    x: np.ndarray  # [K]
    y: np.ndarray  # [K]
    low: np.ndarray  # [K]
    high: np.ndarray  # [K]


def grouped(runs: Sequence[Run]) -> dict[str, list[Group]]:
    """Workload -> its groups, in the order in which they were named."""
    workloads: dict[str, dict[tuple, list[Run]]] = {}
    for run in runs:
        same = tuple(sorted(run.settings().items()))
        workloads.setdefault(run.workload, {}).setdefault(same, []).append(run)
    return {workload: _labelled(list(groups.values())) for workload, groups in workloads.items()}


def _labelled(groups: list[list[Run]]) -> list[Group]:
    if len(groups) == 1:
        return [Group("", groups[0])]
    differ = differing([g[0] for g in groups])
    labels: list[str] = []
    for runs in groups:
        own = runs[0].settings()
        parts = [f"{_short(key)} {own.get(key, '–')}" for key in differ]
        label = ", ".join(parts[:3]) + (", …" if len(parts) > 3 else "")
        labels.append(label if label not in labels else f"{label} ({len(labels) + 1})")
    return [Group(label, runs) for label, runs in zip(labels, groups, strict=True)]


def _short(key: str) -> str:
    """variant.name -> variant, learner.gamma -> gamma"""
    return (key.removesuffix(".name") if _names_a_part(key) else key).rpartition(".")[2]


def _names_a_part(key: str) -> bool:
    return key.endswith(".name") and not key.startswith("env.")


def differing(runs: Sequence[Run]) -> list[str]:
    """Options that are not the same in all of them: names of parts first, the budget last, since it seldom is the
    point."""
    keys = dict.fromkeys(k for run in runs for k in run.settings())
    found = [k for k in keys if len({run.settings().get(k) for run in runs}) > 1]
    return sorted(found, key=lambda k: (k == "total_env_steps", not _names_a_part(k)))


def curve(run: Run, key: str, x: str = "env_steps", low: str = "", high: str = "") -> list[np.ndarray]:
    """[x, y, …] of a key, without rows where x is unknown; gaps at the ends, and those of what is seldom written, are
    left out, a gap between two values stays one."""
    if key not in run.columns or x not in run.columns:
        return []
    columns = [run.columns[k] for k in (x, key, low, high) if k in run.columns]
    known = np.isfinite(columns[1]) & np.isfinite(columns[0])
    if not known.any():
        return []
    if known.mean() < 0.5:
        return [c[known] for c in columns]
    first, last = np.flatnonzero(known)[[0, -1]]
    inside = np.isfinite(columns[0][first : last + 1])
    return [c[first : last + 1][inside] for c in columns]


def mean_curve(runs: Sequence[Run], key: str, x: str = "env_steps") -> Mean | None:
    """Mean over runs with its interval; None where it would be that of one run."""
    curves = [c[:2] for run in runs if (c := curve(run, key, x))]
    curves = [(at[fine], value[fine]) for at, value in curves if (fine := np.isfinite(value)).sum() > 1]
    if len(curves) < 2:
        return None
    begin, end = max(at[0] for at, _ in curves), min(at[-1] for at, _ in curves)
    if not end > begin:
        return None
    grid = np.linspace(begin, end, min(_GRID, max(len(at) for at, _ in curves)))
    values = np.stack([np.interp(grid, *_rising(at, value)) for at, value in curves])
    low, high = interval(values)
    return Mean(grid, values.mean(0), low, high)


def _rising(at: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    ahead = np.concatenate([[True], at[1:] > np.maximum.accumulate(at)[:-1]])
    return at[ahead], value[ahead]


def interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the mean over the first axis: Student's t, 95 %; of two values, their range, since t of one degree of freedom
    would say nothing."""
    n = len(values)
    if n < 3:
        return values.min(0), values.max(0)
    half = students_t(n - 1) * values.std(0, ddof=1) / math.sqrt(n)
    return values.mean(0) - half, values.mean(0) + half


def students_t(freedom: int) -> float:
    """The 97.5 % quantile (beyond the table: Abramowitz & Stegun 26.7.5)."""
    z = 1.959964
    if freedom <= len(_T):
        return _T[freedom - 1]
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def thin(columns: Sequence[np.ndarray], most: int = MOST_POINTS) -> list[np.ndarray]:
    """[x, y, …] with at most so many points: of each stretch the lowest and the highest y, so that no peak is lost; a
    stretch of gaps stays a gap."""
    y = columns[1]
    if len(y) <= most:
        return list(columns)
    kept = [0]
    for stretch in np.array_split(np.arange(1, len(y) - 1), (most - 2) // 2):
        values = y[stretch]
        if np.isfinite(values).any():
            kept += sorted({int(stretch[np.nanargmin(values)]), int(stretch[np.nanargmax(values)])})
        else:
            kept.append(int(stretch[0]))
    kept.append(len(y) - 1)
    return [c[kept] for c in columns]


def learning_rows(run: Run, batch: float | None, samples_per_step: float | None) -> np.ndarray:
    """[rows] bool: whether all env steps of a row were made while learning. A row that straddles its beginning is
    counted as before, so that no speed mixes the two."""
    steps, updates = run.columns.get("env_steps"), run.columns.get("updates")
    if steps is None or updates is None:
        return np.zeros(0 if steps is None else len(steps), bool)
    new_steps, new_updates = np.diff(steps, prepend=0.0), np.diff(updates, prepend=0.0)
    if not batch or not samples_per_step:
        return new_updates > 0
    with np.errstate(all="ignore"):
        return new_updates * batch / new_steps > 0.99 * samples_per_step
