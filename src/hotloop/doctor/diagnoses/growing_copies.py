"""growing_copies: what is kept is copied whole each time something is added, so the cost grows with what is kept."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

from hotloop.doctor.case import Case, near_frame
from hotloop.doctor.cuts import cut
from hotloop.doctor.finding import Finding, amdahl
from hotloop.doctor.recording import Frame
from hotloop.doctor.roles import Placed
from hotloop.doctor.source import source

LEAST = 0.03
GROWS = 1.5  # cost per step, last third of the run over the first
COPIES = re.compile(r"np\.append|np\.concatenate|np\.v?stack|np\.hstack|torch\.cat\b|np\.array\(|list\(|torch\.stack")


def find(case: Case) -> list[Finding]:
    sites: dict[tuple[str, int], list[Placed]] = defaultdict(list)
    frames: dict[tuple[str, int], Frame] = {}
    for placed in case.placed:
        frame = near_frame(placed.place.frames)
        if frame is not None and placed.role != "env" and COPIES.search(source(frame.function.file).line(frame.line)):
            sites[frame.function.file, frame.line].append(placed)
            frames[frame.function.file, frame.line] = frame
    thirds = case.thirds()
    out = []
    for key, places in sites.items():
        share = sum(p.ns for p in places) / case.wall
        if share < LEAST or thirds is None:
            continue
        early, late = (_per_round(third, key) for third in thirds)
        if not _into_itself(frames[key]) and (late < GROWS * early or not late):
            continue
        out.append(
            Finding(
                name="growing_copies",
                title="what is kept is copied whole each time",
                file=key[0],
                line=key[1],
                share=share,
                remedy="allocate once at full size and write in place; or append to a list and convert once",
                evidence=(
                    f"{early / 1e3:,.1f} µs per step in the first third of the run, {late / 1e3:,.1f} µs in the last: "
                    f"{source(key[0]).line(key[1])[:60]}",
                ),
                predicted_gain=amdahl(share),
                trial=cut(case, places),
            )
        )
    return out


def _per_round(case: Case, key: tuple[str, int]) -> float:
    ns = 0.0
    for placed in case.placed:
        frame = near_frame(placed.place.frames)
        if frame is not None and (frame.function.file, frame.line) == key:
            ns += placed.ns
    return ns / max(1, case.env_calls, case.updates)


def _into_itself(frame: Frame) -> bool:
    """`kept = np.concatenate([kept, new])` and its like: a copy of everything, whatever it has grown to."""
    statement = source(frame.function.file).statement(frame.function, frame.line)
    if not isinstance(statement, ast.Assign):
        return False
    name = ast.unparse(statement.targets[0])
    for call in ast.walk(statement.value):
        if isinstance(call, ast.Call) and call.args and COPIES.search(ast.unparse(call.func) + "("):
            first = call.args[0]
            parts = first.elts if isinstance(first, ast.List | ast.Tuple) else [first]
            if any(ast.unparse(part) == name for part in parts):
                return True
    return False
