"""Snake learnt: both observations, 10 seeds, mean score of 100 greedy episodes each, against the published figures
(3,000 episodes, one seed: 16.78 basic, 25.44 flood)."""

from __future__ import annotations

from typing import Any

from bench.measure import Row, stage
from bench.stages._learning import trained

LONG = True  # run only where it is named, or with all
PUBLISHED = {"default": ("basic", 16.8), "flood": ("flood", 25.4)}


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    rows, found = [], {}
    for preset, (name, published) in PUBLISHED.items():
        runs = [trained("snake", preset, seed, "eval_score", published, quick) for seed in range(2 if quick else 10)]
        scores = tuple(r["measures"]["score"][0] for r in runs)
        times = tuple(r["seconds_to_threshold"] for r in runs if r["seconds_to_threshold"] is not None)
        sampled = runs[0]["samples_per_step"]
        rows.append(
            Row(f"snake {name}: mean score, per seed", "score", scores, must=published, samples_per_step=sampled)
        )
        if times:
            rows.append(Row(f"snake {name}: training until an evaluation reached {published}", "s", times, "less"))
        found[preset] = runs
    return {"presets": list(PUBLISHED), "runs": found}, rows


if __name__ == "__main__":
    stage(run)
