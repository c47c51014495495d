"""LunarLander-v3 end to end, 8 lanes, one update of 128 per 4 env steps: hotloop against Stable-Baselines3, both on
Gymnasium's environment, which is Box2D's and takes most of a core."""

from __future__ import annotations

from typing import Any

from bench.measure import Row, stage
from bench.stages import _equal

LONG = True  # run only where it is named, or with all
OVERLAP, SERIAL = "ours, overlap (2 cores)", "ours, no overlap (1 core)"


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    total, starts = (3_000, 1_000) if quick else (20_000, 5_000)
    work = {
        "env": "LunarLander-v3", "lanes": 8, "total_env_steps": total, "learning_starts": starts,
        "env_steps_per_update": 4, "updates_at_once": 2, "batch": 128, "hidden": [256, 256], "learning_rate": 5e-4,
        "gamma": 0.99, "capacity": 100_000, "target_every_updates": 250, "epsilon": [1.0, 0.02],
        "epsilon_decay": 10_000, "max_grad_norm": 10.0, "seed": 1,
    }  # fmt: skip
    layer = {
        "seed": 1,
        "lanes": 8,
        "total_env_steps": total,
        "learning_starts_env_steps": starts,
        "samples_per_step": 32.0,
        "variant": {"name": "dqn", "double": False},
        "explore": {"start": 1.0, "end": 0.02, "decay_env_steps": 10_000},
        "replay": {"capacity": 100_000},
        "learner": {"target_every_updates": 250, "optimizer": {"learning_rate": 5e-4, "learning_rate_end": -1.0}},
    }
    ours = {
        label: (("LunarLander-v3", "default"), {**layer, "overlap": label == OVERLAP}) for label in (OVERLAP, SERIAL)
    }
    return _equal.compare(work, ours, OVERLAP, (2.0, 4.0), 2 if quick else 5)


if __name__ == "__main__":
    stage(run)
