"""env_loops: the environment runs Python loops of its own, over lanes, cells or neighbours; a finding per function."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

from hotloop.doctor.case import Case, outermost_loop
from hotloop.doctor.cuts import cut
from hotloop.doctor.finding import Finding, Trial, amdahl
from hotloop.doctor.recording import Frame, Function
from hotloop.doctor.roles import Placed
from hotloop.doctor.source import is_own, source
from hotloop.doctor.weighing import TINY

LEAST = 0.05
PER_LANE = re.compile(r"for .*(lane|env|game|num_|n_|range\(self\.n|batch|snake|agent)", re.I)
SEARCH = re.compile(r"popleft|queue|heappop|visited|frontier|flood|bfs|dfs", re.I)


def find(case: Case) -> list[Finding]:
    groups: dict[tuple[Function, ast.stmt], list[Placed]] = defaultdict(list)
    for placed in case.placed:
        if placed.role == "env":
            key = _loop(placed)
            if key is not None:
                groups[key].append(placed)
    out = []
    for (function, loop), places in groups.items():
        share = sum(p.ns for p in places) / case.wall
        if share < LEAST:
            continue
        line = _hottest(places, function, loop)
        text = source(function.file)
        copies = _copies(case, function, loop)
        evidence = [f"most of it at line {line}: {text.line(line)[:70]}"] if line != loop.lineno else []
        if copies:
            evidence.append(f"{copies:,.0f} values asked of tensors one by one per batched step")
        search = SEARCH.search(text.text(loop)) is not None
        small = search or copies > 0 or PER_LANE.search(text.line(loop.lineno)) is not None
        out.append(
            Finding(
                name="env_loops",
                title=f"a Python loop in the environment: {function.name}",
                file=function.file,
                line=loop.lineno,
                share=share,
                remedy=(
                    "search all lanes at once, on arrays or bit boards, or compile it (numba)"
                    if search
                    else "one array operation for all lanes, or compile the loop (numba)"
                ),
                evidence=tuple(evidence),
                predicted_gain=amdahl(share),
                tier="waste" if small else "slow",  # a loop over time may have to be one
                trial=cut(case, _whole(case, function, places)) or _canned(case, share),
            )
        )
    return out


def _loop(placed: Placed) -> tuple[Function, ast.stmt] | None:
    """The innermost of the user's functions that loops, and its outermost loop there."""
    for frame in placed.place.frames:
        if is_own(frame.function.file):
            loop = outermost_loop(frame)
            if loop is not None and not _steps(frame, loop):
                return frame.function, loop
    return None


def _steps(frame: Frame, loop: ast.stmt) -> bool:
    """A loop that steps the environment is the training's, not the environment's."""
    return bool(re.search(r"\.(step|reset)\(", source(frame.function.file).text(loop)))


def _hottest(places: list[Placed], function: Function, loop: ast.stmt) -> int:
    weight: dict[int, float] = defaultdict(float)
    for placed in places:
        frame = next(f for f in placed.place.frames if f.function == function)
        weight[frame.line] += placed.ns
    return max(weight, key=lambda n: weight[n])


def _copies(case: Case, function: Function, loop: ast.stmt) -> float:
    end = loop.end_lineno or loop.lineno
    number = sum(
        n for p, n in case.counts.items()
        if p.what in TINY and p.at and p.at.function == function and loop.lineno <= p.at.line <= end
    )  # fmt: skip
    return number / max(1, case.env_calls)


def _whole(case: Case, function: Function, places: list[Placed]) -> list[Placed]:
    """Everything the function does, where that is little more than its loop."""
    whole = [p for p in case.placed if p.role == "env" and any(f.function == function for f in p.place.frames)]
    return whole if sum(p.ns for p in whole) <= 1.15 * sum(p.ns for p in places) else places


def _canned(case: Case, share: float) -> Trial | None:
    """The loop alone cannot be left out; the whole environment can, where it is hardly more."""
    if share < 0.85 * case.share_of_role("env"):
        return None
    return Trial("canned_env", bound=True, says="steps answered with results of earlier ones")
