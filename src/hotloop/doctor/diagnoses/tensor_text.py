"""tensor_text: tensors are turned into text, often for a log that is switched off; an f-string is made whatever the
log's level."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

from hotloop.doctor.case import Case, near_frame
from hotloop.doctor.finding import Finding, Trial, amdahl
from hotloop.doctor.recording import Frame
from hotloop.doctor.source import short, source

LEAST = 0.01
LOGGING = re.compile(r"\.(debug|info|warning|log)\(")


def find(case: Case) -> list[Finding]:
    sites: dict[tuple[str, int], list[float]] = defaultdict(lambda: [0.0, 0.0])
    frames: dict[tuple[str, int], Frame] = {}
    for probe, timed in case.totals.items():
        if probe.what == "format" and probe.track == 0 and probe.at is not None:
            key = (probe.at.function.file, probe.at.line)
            sites[key][0] += timed.calls
            sites[key][1] += timed.exclusive
            frames[key] = probe.at
    total = sum(ns for _, ns in sites.values())
    share = total / case.wall
    if share < LEAST:
        return []
    key = max(sites, key=lambda k: sites[k][1])
    calls, ns = sites[key]
    frame = frames[key]
    statement = source(key[0]).statement(frame.function, frame.line)
    line = statement.lineno if statement is not None and not isinstance(statement, ast.For | ast.While) else key[1]
    evidence = [f"{sum(c for c, _ in sites.values()):,.0f} tensors made into text, {ns / calls / 1e3:,.0f} µs each"]
    if LOGGING.search(source(key[0]).text(statement)) and not _written(case, key[0], line, frame.end):
        evidence.append("the log is switched off at this line: none of it was written")
    others = sorted((f"{short(f)}:{n}" for f, n in sites if (f, n) != key and sites[f, n][1] > 0.1 * total))
    if others:
        evidence.append(f"also {', '.join(others[:4])}")
    says = "tensors turned into text at no cost"
    return [
        Finding(
            "tensor_text", "tensors are turned into text", key[0], line, share,
            "log with %s and arguments, or ask logger.isEnabledFor first; print numbers, not tensors",
            tuple(evidence), amdahl(share), "same", "waste", Trial("plain_text", says=says),
        )
    ]  # fmt: skip


def _written(case: Case, file: str, first: int, last: int) -> bool:
    for probe in case.totals:
        frame = near_frame((probe.at,)) if probe.at else None
        if probe.what == "log" and frame and frame.function.file == file and first <= frame.line <= last:
            return True
    return False
