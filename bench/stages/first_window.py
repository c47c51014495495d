"""Fast from the first step: the speed of the first 5 % of a learning phase over that of its median window, in fresh
processes whose programs are in the cache."""

from __future__ import annotations

from typing import Any

from bench.measure import Row, stage
from bench.stages import _starts

RUNS = {"cartpole": 100_000, "snake": 400_000}  # env steps
QUICK = {"cartpole": 20_000, "snake": 60_000}


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    rows = []
    for workload, env_steps in (QUICK if quick else RUNS).items():
        words = (workload, "--env-steps", str(env_steps), "--evaluate-episodes", "1")
        _starts.train(*words)  # compile, where the cache has it not
        runs = [_starts.train(*words, "--seed", str(seed)) for seed in range(1 if quick else 7)]
        assert all(r["warm_start"] for r in runs)
        values = tuple(r["first_window_ratio"] for r in runs)
        detail = {"env_steps_per_s_windows": [r["env_steps_per_s_windows"] for r in runs]}
        rows.append(
            Row(
                f"{workload}: first 5 % / median window",
                "×",
                values,
                must=0.9,
                aim=0.97,
                samples_per_step=runs[-1]["samples_per_step"],
                detail=detail,
            )
        )
    return {"env_steps": QUICK if quick else RUNS, "windows": 20}, rows


if __name__ == "__main__":
    stage(run)
