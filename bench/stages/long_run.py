"""Does it last? Speed late over speed early in one long run, and its private memory as seen from outside."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.measure import Row, stage, theil_sen
from bench.stages._starts import COMMAND

LONG = True  # run only where it is named, or with all
SAMPLES_PER_STEP = 1.0  # half of the preset's, so that 20 M env steps take two minutes
WARM = 0.2  # share of the run left out of both figures: epsilon falls, the replay fills, rings wrap for the first time
EVERY_S = 0.5


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    env_steps = 1_000_000 if quick else 20_000_000
    words = [
        "snake", "--env-steps", str(env_steps), "--samples-per-step", str(SAMPLES_PER_STEP),
        "--evaluate-episodes", "1", "--explore.decay-env-steps", str(env_steps // 10),
    ]  # fmt: skip
    summary, seconds, private = _watched(words, 0.05 if quick else EVERY_S)
    windows = summary["env_steps_per_s_windows"]
    warm = round(len(windows) * WARM)
    quarter = (len(windows) - warm) // 4
    early, late = windows[warm : warm + quarter], windows[-quarter:]
    kept = slice(round(len(private) * WARM), None)
    slope = theil_sen(seconds[kept], private[kept])  # MiB per second
    growth = slope * (seconds[-1] - seconds[kept][0]) / float(np.median(private[kept])) * 100
    what = f"{env_steps / 1e6:g} M env steps of snake basic"
    speed_note = f"median of windows {warm + 1}–{warm + quarter} of {len(windows)} against the last {quarter}"
    memory = {"seconds": [round(s, 2) for s in seconds], "private_mib": [round(p, 2) for p in private]}
    sampled = summary["samples_per_step"]
    rows = [
        Row(
            f"{what}: env steps/s late / early", "×", (float(np.median(late) / np.median(early)),), "more", 0.9, 0.97,
            sampled, speed_note, {"env_steps_per_s_windows": windows},
        ),
        Row(
            f"{what}: growth of private memory after the first {WARM:.0%}", "%", (growth,), "less", 1.0, 0.1,
            sampled, "Theil–Sen slope × time, share of the median", memory,
        ),
        Row(f"{what}: speed", "env steps/s", (summary["env_steps_per_s"],), samples_per_step=sampled),
        Row(f"{what}: private memory, median", "MiB", (float(np.median(private[kept])),), "less"),
    ]  # fmt: skip
    return {"command": "hotloop train " + " ".join(words), "slope_mib_per_hour": slope * 3600}, rows


def _watched(words: list[str], every_s: float) -> tuple[dict[str, Any], list[float], list[float]]:
    """Run it -> summary, and (seconds, private MiB) from its first row of metrics to its last."""
    seconds, private = [], []
    last_row = int(words[words.index("--env-steps") + 1]) * 0.98  # after it come evaluation and a checkpoint
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [*COMMAND, *words, "--run", f"{folder}/run", "--json"], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout
        metrics = Path(folder, "run", "metrics.jsonl")
        while process.poll() is None and (reached := _env_steps(metrics)) < last_row:
            if reached and (now := private_mib(process.pid)):
                seconds.append(time.perf_counter())
                private.append(now)
            time.sleep(every_s)
        line = process.stdout.read().splitlines()
        if process.wait():
            raise RuntimeError(f"hotloop train {' '.join(words)}: exit code {process.returncode}")
    return json.loads(line[-1]), [s - seconds[0] for s in seconds], private


def _env_steps(metrics: Path) -> int:
    """Of the newest whole row; 0 while there is none."""
    rows = metrics.read_text().split("\n")[:-1] if metrics.exists() else []
    return json.loads(rows[-1])["env_steps"] if rows else 0


def private_mib(pid: int) -> float:
    """Memory that is this process's alone; what is shared with others, such as library code, is left out. 0 for a
    process that is no more."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(x.split()[1]) for x in lines if x.startswith("Private_")) / 1024


if __name__ == "__main__":
    stage(run)
