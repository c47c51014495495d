"""Where each thread's time went, over the run: from the rows of metrics where they say so, else from the trace, which
holds the newest events only."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SECTIONS = "sections/"  # seconds per section since the last row: sections/<track>/<name>
BINS = 60
LARGEST_TRACE = 64 * 2**20  # bytes; what is larger would take longer to read than the report may take
REST = "rest"


@dataclass(frozen=True)
class Phases:
    """One thread."""

    track: str
    axis: str  # what `at` counts
    at: np.ndarray  # [K]
    shares: dict[str, np.ndarray]  # section -> [K], 0 to 1; `rest` is the time in none of them
    source: str = ""


def from_columns(columns: Mapping[str, np.ndarray]) -> list[Phases]:
    seconds = columns.get("seconds")
    keys = [k for k in columns if k.startswith(SECTIONS) and k.count("/") == 2]
    if seconds is None or not keys:
        return []
    took = np.diff(seconds, prepend=0.0)
    fine = took > 0  # a row that took no time has no shares
    out = []
    for track in dict.fromkeys(k.split("/")[1] for k in keys):
        own = {k.split("/")[2]: columns[k] for k in keys if k.split("/")[1] == track}
        shares = {name: np.nan_to_num(s[fine] / took[fine], posinf=0.0, neginf=0.0) for name, s in own.items()}
        out.append(Phases(track, "env steps", columns["env_steps"][fine], _whole(shares), "the rows of metrics"))
    return out


def from_trace(path: Path) -> list[Phases]:
    """Nothing where there is no trace, or none that can be read: it is a leftover of the run, not its record."""
    try:
        if path.stat().st_size > LARGEST_TRACE:
            return []
        found = json.loads(path.read_bytes())
        return _from_events(found["traceEvents"], found.get("otherData", {}).get("dropped_events", {}))
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return []


def _from_events(events: Sequence[Mapping[str, Any]], dropped: Mapping[str, int]) -> list[Phases]:
    names = {e["tid"]: str(e["args"]["name"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    spans: dict[int, list[tuple[float, float, str]]] = {}
    for e in events:
        if e["ph"] == "X":
            spans.setdefault(e["tid"], []).append((float(e["ts"]), float(e["dur"]), str(e["name"])))
    if not spans:
        return []
    # Where a ring has forgotten its oldest events, only what all threads still remember can be set side by side.
    begins = {names.get(tid, str(tid)): s[0][0] for tid, s in spans.items()}
    begin = max((at for name, at in begins.items() if dropped.get(name)), default=min(begins.values()))
    end = max(t + d for s in spans.values() for t, d, _ in s)
    edges = np.linspace(begin, end, BINS + 1)
    if not end > begin:
        return []
    out = []
    for tid, own in spans.items():
        shares = {name: _share(np.array(times), edges) for name, times in _alone(own).items()}
        at = (edges[:-1] + edges[1:]) / 2e6 - begin / 1e6
        source = "the newest events of the trace" if any(dropped.values()) else "the trace"
        out.append(Phases(names.get(tid, str(tid)), "s", at, _whole(shares), source))
    return out


def _alone(spans: Sequence[tuple[float, float, str]]) -> dict[str, list[tuple[float, float]]]:
    """Section -> [(start, end)] of the time that belongs to no section inside it. Spans are ordered by start, outer
    ones first."""
    out: dict[str, list[tuple[float, float]]] = {}
    open_: list[tuple[float, str]] = []  # (end, name), outermost first
    at = 0.0
    for start, took, name in spans:
        while open_ and open_[-1][0] <= start:
            end, inner = open_.pop()
            out.setdefault(inner, []).append((min(at, end), end))
            at = max(at, end)
        if open_ and start > at:
            out.setdefault(open_[-1][1], []).append((at, start))
        open_.append((start + took, name))
        at = start
    while open_:
        end, inner = open_.pop()
        out.setdefault(inner, []).append((min(at, end), end))
        at = max(at, end)
    return out


def _share(times: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Of each bin, how much lies within the spans [n, 2], which are ordered and do not overlap."""
    took = times[:, 1] - times[:, 0]
    covered = np.cumsum(took)
    at = np.stack([covered - took, covered], 1).ravel()
    return np.diff(np.interp(edges, times.ravel(), at)) / np.diff(edges)


def _whole(shares: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """With the rest; the clock is read at slightly different moments, so that a sum may exceed 1 by a little."""
    total = np.sum(list(shares.values()), axis=0)
    scale = np.maximum(total, 1.0)
    return {name: s / scale for name, s in shares.items()} | {REST: np.maximum(1.0 - total, 0.0)}
