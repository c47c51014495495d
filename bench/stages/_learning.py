"""Whole runs of a preset as a user starts them, one process per seed: greedy quality on held-out episodes, and the
time until it was first reached."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

EVALUATIONS = 20  # greedy evaluations during a run, not counted as training time


def trained(
    workload: str, preset: str, seed: int, column: str, threshold: float, quick: bool, options: Sequence[str] = ()
) -> dict[str, Any]:
    """One run, with more flags -> its summary, the mean of 100 greedy episodes, and when `column` of an evaluation met
    the threshold."""
    from hotloop import api

    budget = api.configure(workload, preset).total_env_steps
    if quick:
        budget //= 10
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        words = [workload, "--preset", preset, "--seed", str(seed), "--run", str(run), "--json"]
        words += ["--env-steps", str(budget), "--evaluate-every-env-steps", str(budget // EVALUATIONS), *options]
        done = subprocess.run(
            [sys.executable, "-m", "hotloop", "train", *words], stdout=subprocess.PIPE, text=True, check=True
        )
        summary = json.loads(done.stdout.splitlines()[-1])
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    curve = [[r["env_steps"], r["seconds"], r[column]] for r in rows if column in r]
    reached = [seconds for _, seconds, value in curve if value >= threshold]
    return {
        "seed": seed,
        "return_mean": summary["return_mean"],
        "return_ci": summary["return_ci"],
        "measures": summary["measures"],
        "train_s": summary["train_s"],
        "cold_start_s": summary["cold_start_s"],
        "env_steps": summary["env_steps"],
        "env_steps_per_s": summary["env_steps_per_s"],
        "samples_per_step": summary["samples_per_step"],
        "seconds_to_threshold": reached[0] if reached else None,
        "curve": curve,  # env steps, seconds of training, mean of the evaluation
    }
