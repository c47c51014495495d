"""LunarLander-v3 learnt: the preset's 300,000 env steps, 5 seeds, 100 greedy episodes each. Published for the same
number of frames: 195 for DQN, 266 for Double DQN with prioritised replay (SLM-Lab)."""

from __future__ import annotations

from typing import Any

from bench.measure import Row, stage
from bench.stages._learning import trained

LONG = True  # run only where it is named, or with all
SOLVED = 200.0


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    seeds = range(1 if quick else 5)
    runs = [trained("LunarLander-v3", "default", seed, "eval_return_mean", SOLVED, quick) for seed in seeds]
    means, sampled = tuple(r["return_mean"] for r in runs), runs[0]["samples_per_step"]
    times = tuple(r["seconds_to_threshold"] for r in runs if r["seconds_to_threshold"] is not None)
    what = "LunarLander-v3: greedy return, per seed"
    rows = [Row(what, "return", means, must=SOLVED, aim=266, samples_per_step=sampled)]
    rows.append(Row("LunarLander-v3: whole training", "s", tuple(r["train_s"] for r in runs), "less"))
    if times:
        rows.append(Row(f"LunarLander-v3: training until an evaluation reached {SOLVED:g}", "s", times, "less"))
    return {"preset": "LunarLander-v3 default", "runs": runs}, rows


if __name__ == "__main__":
    stage(run)
