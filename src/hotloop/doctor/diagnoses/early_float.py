"""early_float: bytes become floats on the host before they are handed to the network: four times as much to move and
to write."""

from __future__ import annotations

import re
from collections import defaultdict

from hotloop.doctor.case import Case, near_frame
from hotloop.doctor.cuts import cut
from hotloop.doctor.finding import Finding, amdahl
from hotloop.doctor.recording import Frame
from hotloop.doctor.roles import Placed
from hotloop.doctor.source import source

LEAST = 0.03
CONVERTS = re.compile(
    r"\.astype\((np\.|numpy\.)?['\"]?float|dtype=(np\.|torch\.|numpy\.)?['\"]?float|\.float\(\)|FloatTensor\(|/\s*255"
)


def find(case: Case) -> list[Finding]:
    sites: dict[tuple[str, int], list[Placed]] = defaultdict(list)
    frames: dict[tuple[str, int], Frame] = {}
    for placed in case.placed:
        frame = near_frame(placed.place.frames)
        if frame is None or placed.place.within is not None or placed.role in ("env", "logging"):
            continue
        text = source(frame.function.file)
        statement = text.statement(frame.function, frame.line)
        if CONVERTS.search(text.expression(frame)) or CONVERTS.search(text.line(frame.line)):
            key = (frame.function.file, statement.lineno if statement is not None else frame.line)
            sites[key].append(placed)
            frames[key] = frame
    out = []
    for key, places in sites.items():
        share = sum(p.ns for p in places) / case.wall
        if share < LEAST:
            continue
        each = sum(p.ns for p in places) / max(1, case.updates) / 1e3
        out.append(
            Finding(
                name="early_float",
                title="converted to floats on the host, whole batches at a time",
                file=key[0],
                line=key[1],
                share=share,
                remedy="keep bytes as bytes until they are on the device; convert there, in the network's first layer",
                evidence=(f"{each:,.0f} µs per update: {source(key[0]).line(key[1])[:70]}",),
                predicted_gain=amdahl(share),
                trial=cut(case, places),
            )
        )
    return out
