"""Snake end to end, 256 lanes, our preset's terms: hotloop against Stable-Baselines3, which plays the same game through
Gymnasium."""

from __future__ import annotations

from typing import Any

from bench.measure import Row, stage
from bench.stages import _equal

LONG = True  # run only where it is named, or with all
OURS = "ours, native Snake, overlap (2 cores)"


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    total, starts = (12_000, 4_000) if quick else (60_000, 20_000)
    work = {
        "env": "hotloop.envs.registration:hotloop/Snake-v0", "env_options": {"observation": "basic"}, "lanes": 256,
        "total_env_steps": total, "learning_starts": starts, "env_steps_per_update": 32, "updates_at_once": 8,
        "batch": 64, "hidden": [128, 128], "learning_rate": 1e-3, "gamma": 0.99, "capacity": 200_000,
        "target_every_updates": 1_000, "epsilon": [1.0, 0.01], "epsilon_decay": 30_000, "max_grad_norm": 1.0, "seed": 1,
    }  # fmt: skip
    layer = {
        "seed": 1,
        "total_env_steps": total,
        "learning_starts_env_steps": starts,
        "explore": {"start": 1.0, "end": 0.01, "decay_env_steps": 30_000},
        "learner": {"optimizer": {"learning_rate": 1e-3, "learning_rate_end": -1.0}},
    }
    return _equal.compare(work, {OURS: (("snake", "default"), layer)}, OURS, (6.0, 10.0), 2 if quick else 5)


if __name__ == "__main__":
    stage(run)
