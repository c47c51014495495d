"""Snake with learning: the preset default, 256 lanes, whole pipeline, learning phase only."""

from __future__ import annotations

from typing import Any

from bench.measure import Peer, Row, stage

PRESET = ("snake", "default")


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    layer = {"total_env_steps": 60_000 if quick else 600_000}
    with Peer("ours") as us:
        us.ask("train", preset=PRESET, layer={"total_env_steps": 40_000})  # compile, where the cache has it not
        runs = [us.ask("train", preset=PRESET, layer={**layer, "seed": seed}) for seed in range(2 if quick else 5)]
    speeds = tuple(r["env_steps_per_s"] for r in runs)
    sampled = runs[-1]["samples_per_step"]
    settings = {
        "preset": "snake default: 256 lanes, 128-128, batch 64, overlap (2 cores)",
        **layer,
        "window_of_last_run": {k: runs[-1][k] for k in ("env_steps", "updates", "seconds")},
        "sections_of_last_run": runs[-1]["summary"]["sections"],
    }
    row = Row("snake training, 256 lanes", "env steps/s", speeds, must=1e5, aim=2.5e5, samples_per_step=sampled)
    return settings, [row]


if __name__ == "__main__":
    stage(run)
