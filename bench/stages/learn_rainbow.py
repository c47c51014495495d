"""Rainbow's presets learnt, 5 seeds, 100 greedy episodes each: CartPole, and Snake with either observation within 3,000
episodes' worth of env steps (one million), against the published figures (16.21 basic, 37.22 flood, one seed)."""

from __future__ import annotations

from typing import Any

from bench.measure import Row, stage
from bench.stages._learning import trained

LONG = True  # run only where it is named
# workload, preset, column of an evaluation, key of the summary's measures or none for the return, must
SIDES = (
    ("snake", "rainbow_flood", "eval_score", "score", 37.2),
    ("snake", "rainbow", "eval_score", "score", 16.2),
    ("cartpole", "rainbow", "eval_return_mean", "", 475.0),
)


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    rows, found = [], {}
    for workload, preset, column, measure, must in SIDES:
        runs = [trained(workload, preset, seed, column, must, quick) for seed in range(1 if quick else 5)]
        values = tuple(r["measures"][measure][0] if measure else r["return_mean"] for r in runs)
        times = tuple(r["seconds_to_threshold"] for r in runs if r["seconds_to_threshold"] is not None)
        what, unit = f"{workload} {preset}", measure or "return"
        sampled = runs[0]["samples_per_step"]
        rows.append(Row(f"{what}: mean {unit}, per seed", unit, values, must=must, samples_per_step=sampled))
        if times:
            rows.append(Row(f"{what}: training until an evaluation reached {must:g}", "s", times, "less"))
        found[what] = runs
    return {"runs": found}, rows


if __name__ == "__main__":
    stage(run)
