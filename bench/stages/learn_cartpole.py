"""CartPole learnt: preset default, 10 seeds, 100 greedy episodes each."""

from __future__ import annotations

from typing import Any

from bench.measure import Row, stage
from bench.stages._learning import trained

SOLVED = 475.0


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    runs = [
        trained("cartpole", "default", seed, "eval_return_mean", SOLVED, quick) for seed in range(2 if quick else 10)
    ]
    means = tuple(r["return_mean"] for r in runs)
    sampled = runs[0]["samples_per_step"]
    times = tuple(r["seconds_to_threshold"] for r in runs if r["seconds_to_threshold"] is not None)
    solved = float(sum(m >= SOLVED for m in means))
    rows = [
        Row(
            f"cartpole: seeds at {SOLVED:g} or above, of {len(runs)}",
            "seeds",
            (solved,),
            must=9,
            aim=10,
            samples_per_step=sampled,
        ),
        Row("cartpole: greedy return, per seed", "return", means, must=SOLVED, samples_per_step=sampled),
    ]
    if times:
        rows.append(Row(f"cartpole: training until an evaluation reached {SOLVED:g}", "s", times, "less"))
    return {"preset": "cartpole default", "runs": runs}, rows


if __name__ == "__main__":
    stage(run)
