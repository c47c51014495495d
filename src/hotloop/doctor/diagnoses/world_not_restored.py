"""world_not_restored: a reset leaves the world as the last episode left it. What was written stays, episode after
episode, so speed and reward change by themselves."""

from __future__ import annotations

import ast
import itertools
from collections import defaultdict
from typing import Any

from hotloop.doctor.case import Case
from hotloop.doctor.finding import Finding, Trial
from hotloop.doctor.source import source

CHECKS = 4  # comparisons in which it must have grown
GROWN = 1.5  # last over first
KEPT = 0.98  # of what once changed, the part that stays changed


def find(case: Case) -> list[Finding]:
    series: dict[tuple[int, int], list[list[Any]]] = defaultdict(list)
    for recording in case.recordings:
        for row in recording.some("world"):
            series[recording.pid, row[2]].append(row)
    spoilt = [rows for rows in series.values() if _accumulates(rows)]
    if not spoilt:
        return []
    names = sorted({rows[-1][0] for rows in spoilt})
    changed, size = sum(r[-1][5] for r in spoilt), sum(r[-1][3] for r in spoilt)
    owners = max(r[-1][7] for r in spoilt)
    resets = max(r[-1][4] for r in spoilt)
    file, line = _written(case, names[0])
    evidence = [
        f"after {resets} resets {100 * changed / size:.0f} % of `{names[0]}` is not what it was after the first; "
        f"none of it ever came back",
    ]
    if owners > 1:
        evidence.append(f"the same array is held by {owners} environments")
    change = case.throughput.change
    if change is not None and case.throughput.trend != "flat":
        evidence.append(
            f"meanwhile the speed went {'up' if change > 1 else 'down'} by a factor of {max(change, 1 / change):.1f}"
        )
    return [
        Finding(
            name="world_not_restored",
            title=f"reset does not restore `{names[0]}`",
            file=file,
            line=line,
            share=case.share_of_role("env"),
            remedy=f"copy `{names[0]}` at reset and write into the copy",
            evidence=tuple(evidence),
            predicted_gain=_intact(case),
            learning="changes",
            tier="wrong",
            trial=Trial(
                "restore", {"names": names}, whole=True, says=f"`{'`, `'.join(names)}` put back before every reset"
            ),
        )
    ]


def _accumulates(rows: list[list[Any]]) -> bool:
    """Grows from check to check and never shrinks; arrays that are drawn anew, or reused, do neither."""
    counts = [row[5] for row in rows]
    if len(counts) < CHECKS or counts[-1] < max(4, GROWN * max(1, counts[0])):
        return False
    back = sum(row[6] for row in rows[1:])
    falls = sum(b < a for a, b in itertools.pairwise(counts))
    return falls <= 0.1 * len(counts) and back <= (1 - KEPT) * sum(counts)


def _intact(case: Case) -> float | None:
    """The speed if the environment always took per step what it took in the first third of the run."""
    thirds = case.thirds()
    if thirds is None or not case.env_steps or not thirds[0].env_steps:
        return None
    whole = case.wall / case.env_steps
    early, mean = (part.share_of_role("env") * part.wall / part.env_steps for part in (thirds[0], case))
    return whole / (whole + early - mean)


def _written(case: Case, name: str) -> tuple[str, int]:
    """The line that writes into it: an assignment to a part of something of that name, in the environment's file."""
    files = [row[3] for r in case.recordings for row in r.some("env")]
    for file in dict.fromkeys([*files, case.script]):
        tree = source(file).tree
        for node in ast.walk(tree) if tree else ():
            targets = (
                node.targets
                if isinstance(node, ast.Assign)
                else [node.target]
                if isinstance(node, ast.AugAssign)
                else []
            )
            for target in targets:
                if isinstance(target, ast.Subscript) and ast.unparse(target.value).rpartition(".")[2] == name:
                    return file, node.lineno
    return (files or [case.script])[0], 1
