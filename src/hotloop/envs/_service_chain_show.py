"""One lane of service_chain for people: as text, and as a picture. Reads the record and changes nothing."""

from __future__ import annotations

import numpy as np

from hotloop.envs._service_chain_state import EVERYWHERE
from hotloop.envs._service_chain_tables import (
    CPU,
    KIND_OF,
    KINDS,
    LENGTH,
    LIMIT_MS,
    MOST_CPU,
    STAGES,
    TRAFFIC_EVERY_MS,
    VNFS,
)

WIDE = 30  # characters that stand for the CPU of the largest data centre
COLOURS = np.array(  # of the VNFs, told apart by the colour-blind, too
    [(230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0)], np.float64
)
PAPER, FREE, NOW = 255, 226, (20, 20, 20)
EDGE, BAR, PER_GHZ, CELL = 16, 28, 2, 24  # pixels


def text(lane: np.record, per_ms: int, link_kbps: int) -> str:
    """Data centres, the one whose turn it is marked, then types of requests."""
    satisfied, generated, active = int(lane.satisfied.sum()), int(lane.generated.sum()), int(lane.requests)
    lines = [
        f"{_now(lane, per_ms):.2f} ms, {generated} requests: {satisfied} satisfied, {active} active, "
        f"{generated - satisfied - active} dropped",
        "",
        f"  {'data centre':<12}{''.join(f'{name:>8}' for name in VNFS)}  CPU",
    ]
    for d in range(int(lane.centres)):
        cells = "".join(
            f"{f'{n - idle}/{n}' if n else '-':>8}" for n, idle in zip(lane.installed[d], lane.idle[d], strict=True)
        )
        has, used = int(lane.cpu[d]), int(lane.cpu[d] - lane.free_cpu[d])
        bar = ("#" * round(WIDE * used / MOST_CPU)).ljust(round(WIDE * has / MOST_CPU), ".")
        lines.append(f"{'>' if d == lane.current else ' '} {d:<12}{cells}  {bar} {used} of {has} GHz")
    fullest = 1 - lane.spare_kbps[: _links(lane)].min() / link_kbps
    lines += [f"  busy/installed; the fullest link is at {fullest:.0%}", ""]
    lines += [f"  {'type':<18}{'satisfied':>12}{'active':>8}   how many wait for or travel to VNF 1, 2, …"]
    for kind, name in enumerate(KINDS):
        ratio = f"{lane.satisfied[kind]}/{lane.generated[kind]}"
        stages = "".join(f"{n:>6}" for n in lane.standing[EVERYWHERE, kind, : LENGTH[kind]])
        lines.append(f"  {name:<18}{ratio:>12}{lane.active[kind]:>8}   {stages:<30}  {_left(lane, kind, per_ms)}")
    return "\n".join(line.rstrip() for line in lines)


def _now(lane: np.record, per_ms: int) -> float:
    return int(lane.ms) + int(lane.phase) / per_ms


def _links(lane: np.record) -> int:
    return int(lane.centres) * (int(lane.centres) - 1) // 2


def _left(lane: np.record, kind: int, per_ms: int) -> str:
    """How long the oldest active request of a kind has left."""
    words = np.flatnonzero((lane.alive > 0) & (kind == KIND_OF))
    if not len(words):
        return ""
    return f"{TRAFFIC_EVERY_MS * int(lane.born[words].min()) + LIMIT_MS[kind] - _now(lane, per_ms):.2f} ms left"


def picture(lane: np.record) -> np.ndarray:
    """uint8 [H, W, 3]. Above, a bar of CPU for each data centre: what is installed by colour of VNF, pale where it is
    idle, grey where it is free; the black mark is the current one. Below, a row for each type: how many requests
    stand before each VNF, the darker the more."""
    n = int(lane.centres)
    high, wide = MOST_CPU * PER_GHZ, max(n * (BAR + EDGE), STAGES * CELL + EDGE) + EDGE
    out = np.full((3 * EDGE + high + len(KINDS) * CELL, wide, 3), PAPER, np.uint8)
    for d in range(n):
        x, floor = EDGE + d * (BAR + EDGE), EDGE + high
        out[floor - PER_GHZ * int(lane.cpu[d]) : floor, x : x + BAR] = FREE
        for vnf, colour in enumerate(COLOURS):
            idle, installed = int(lane.idle[d, vnf]), int(lane.installed[d, vnf])
            for count, shade in ((installed - idle, colour), (idle, 0.4 * colour + 0.6 * PAPER)):
                top = floor - PER_GHZ * count * int(CPU[vnf])
                out[top:floor, x : x + BAR] = shade.astype(np.uint8)
                floor = top
        if d == lane.current:
            out[EDGE + high + 4 : EDGE + high + 10, x : x + BAR] = NOW
    for kind in range(len(KINDS)):
        y = 2 * EDGE + high + kind * CELL
        for stage in range(int(LENGTH[kind])):
            x, count = EDGE + stage * CELL, int(lane.standing[EVERYWHERE, kind, stage])
            out[y : y + CELL - 2, x : x + CELL - 2] = round(FREE * (1 - min(np.log1p(count) / np.log1p(2_000), 1)))
    return out
