"""Writes docs/scaling.md from bench/results/scaling.json: python bench/scaling_page.py [--check]

Nothing of it is written by hand; what limits a point is read off the shares of time that its run has measured."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from bench.run import figure, origin  # noqa: E402 - the root is no package of the interpreter's

PAGE, RESULTS = ROOT / "docs" / "scaling.md", ROOT / "bench" / "results" / "scaling.json"
TITLES = {
    "lanes": "Lanes",
    "cycle_steps": "Batched steps per cycle (T)",
    "batch_size": "Batch, at 2 samples per step",
    "width": "Width of both layers, batch 64",
    "replay_capacity": "Replay, transitions",
    "workers": "Workers, CartPole-v1 of Gymnasium (Python), 16 lanes, 0.5 samples per step",
}
NO_MORE = 1.15  # times the speed of the point before: less than this is where it stops
FULL = 0.75  # of a thread's time: what takes so much limits it
COLLECTING = ("main/act", "main/env")


def main() -> int:
    if not RESULTS.exists():
        print(f"no {RESULTS.relative_to(ROOT)}; make it with: python bench/run.py --only scaling")
        return 1
    text = page(json.loads(RESULTS.read_text()))
    if "--check" in sys.argv[1:]:
        return int(not PAGE.exists() or PAGE.read_text() != text)
    PAGE.write_text(text)
    return 0


def page(result: Mapping[str, Any]) -> str:
    ceilings = {row["unit"]: row["median"] for row in result["rows"] if row["what"].startswith("ceiling")}
    parts = [
        "# How far it scales",
        "Throughput while learning, and what ends its growth. Where nothing else is said: snake, 256 lanes, 128-128, "
        "batch 64, 2 samples per step, so that every point of a table learns equally much per env step.",
        f"This machine's ceilings, one core: {figure(ceilings['GFLOP/s'])} GFLOP/s in matrix products, "
        f"{figure(ceilings['GB/s'])} GB/s read and written.",
        f"{origin(result)}, then `python bench/scaling_page.py`.",
    ]
    for sweep, title in TITLES.items():
        rows = [r for r in result["rows"] if r["detail"].get("sweep") == sweep]
        if rows:
            parts += [f"## {title}", "\n".join(table(rows, ceilings["GFLOP/s"])), stops(rows, ceilings["GFLOP/s"])]
    return "\n\n".join(parts) + "\n"


def table(rows: Sequence[Mapping[str, Any]], peak: float) -> list[str]:
    lines = [
        "| | env steps/s | updates/s | GFLOP/s (of the ceiling) | update | act and env | waiting |",
        "|---" * 7 + "|",
    ]
    for row in rows:
        d, shares = row["detail"], row["detail"]["shares"]
        rate = f"{figure(d['gflops'])} ({d['gflops'] / peak:.0%})" if d["gflops"] is not None else ""
        spent = [updating(shares), collecting(shares), sum(v for k, v in shares.items() if "wait" in k)]
        cells = [f"{d['value']:,}", figure(row["median"]), figure(d["updates_per_s"]), rate]
        lines.append("| " + " | ".join([*cells, *(f"{x:.0%}" for x in spent)]) + " |")
    return lines


def updating(shares: Mapping[str, float]) -> float:
    return shares.get("learn/update", 0.0) + shares.get("main/update", 0.0)


def collecting(shares: Mapping[str, float]) -> float:
    workers = [v for k, v in shares.items() if k.startswith("worker")]
    return max([sum(shares.get(k, 0.0) for k in COLLECTING), *workers])


def stops(rows: Sequence[Mapping[str, Any]], peak: float) -> str:
    """Where the next value brings no more, and what its time goes to there."""
    for row, after in pairwise(rows):
        if after["median"] < NO_MORE * row["median"]:
            return f"No more beyond {row['detail']['value']:,}: {limit(row['detail'], peak)}."
    return f"Grows over the whole range; at its end {limit(rows[-1]['detail'], peak)}."


def limit(detail: Mapping[str, Any], peak: float) -> str:
    shares = detail["shares"]
    if updating(shares) > FULL:
        at = f", at {detail['gflops'] / peak:.0%} of what a core's matrix products reach" if detail["gflops"] else ""
        return f"the learner's core is {updating(shares):.0%} busy with updates{at}"
    if collecting(shares) > FULL:
        return f"the collector's core is {collecting(shares):.0%} busy"
    halves = f"{updating(shares):.0%} update, {collecting(shares):.0%} collecting"
    return f"neither half is full ({halves}): a cycle has a cost of its own"


if __name__ == "__main__":
    sys.exit(main())
