"""Pong learnt in half an hour: the preset as a user starts it, stopped after 30 minutes, its curve, and the score of
greedy games after it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.measure import Row, stage

LONG = True  # run only where it is named
MINUTES = 30.0
ROWS = 100  # points of the curve, at the most


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    minutes = 1.0 if quick else MINUTES
    with tempfile.TemporaryDirectory() as folder:
        found = _trained(Path(folder) / "run", minutes)
    curve, summary = found["curve"], found["summary"]
    score = summary["measures"]["score"]
    trained = {"detail": {"interval": score[1:], "env_steps": summary["env_steps"], "updates": summary["updates"]}}
    rows = [
        Row(
            f"pong: score of greedy games after {minutes:g} minutes", "points", (score[0],), must=-15, aim=0,
            samples_per_step=summary["samples_per_step"], **trained,
        ),
        Row("pong: best mean return of 100 games while training", "points", (max(c[2] for c in curve),)),
        Row("pong: speed", "env steps/s", (summary["env_steps_per_s"],), samples_per_step=summary["samples_per_step"]),
    ]  # fmt: skip
    return {"minutes": minutes, "preset": "default", "curve": curve}, rows


def _trained(run: Path, minutes: float) -> dict[str, Any]:
    """As a user would: train, and Ctrl+C when the time is over, which ends the cycle and sums up."""
    command = [sys.executable, "-m", "hotloop", "train", "atari/pong", "--run", str(run)]
    process = subprocess.Popen([*command, "--log-every-env-steps", "2000"], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    ends = 0.0
    for line in process.stdout:
        if not ends and line.startswith("env steps"):
            ends = time.monotonic() + minutes * 60  # from the first row on, so that compiling does not count
        if ends and time.monotonic() > ends:
            process.send_signal(signal.SIGINT)
            break
    process.stdout.read()
    if process.wait():
        raise SystemExit(f"training ended with exit code {process.returncode}")
    summary = json.loads((run / "summary.json").read_text())
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    # env steps, seconds of training, mean return of the newest 100 games, which explore
    curve = [[r["env_steps"], round(r["seconds"], 1), r["return_mean"]] for r in rows if r["return_mean"] is not None]
    return {"summary": summary, "curve": curve[:: -(-len(curve) // ROWS)]}


if __name__ == "__main__":
    stage(run)
