"""Pong from pixels, 84×84×4, the CNN of Mnih et al. 2015, 8 lanes, one update of 32 per 4 env steps: hotloop against
Stable-Baselines3, each with its own door to ale-py. Speed, not learning: half an hour would not show any."""

from __future__ import annotations

from typing import Any

from bench.measure import Row, stage
from bench.stages import _equal

LONG = True  # run only where it is named, or with all
OVERLAP, SERIAL = "ours, overlap (2 cores)", "ours, no overlap (1 core)"


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    total, starts = (400, 200) if quick else (4_000, 1_000)
    work = {
        "env": "ALE/Pong-v5", "lanes": 8, "total_env_steps": total, "learning_starts": starts,
        "env_steps_per_update": 4, "updates_at_once": 2, "batch": 32, "learning_rate": 1e-4, "gamma": 0.99,
        "capacity": 10_000, "target_every_updates": 250, "epsilon": [1.0, 0.02], "epsilon_decay": 2_000,
        "max_grad_norm": 10.0, "seed": 1,
    }  # fmt: skip
    layer = {
        "seed": 1,
        "total_env_steps": total,
        "learning_starts_env_steps": starts,
        "samples_per_step": 8.0,
        "network": {
            "head": "scalar",
            "channels": [32, 64, 64],
            "kernels": [8, 4, 3],
            "strides": [4, 2, 1],
            "features": 512,
            "channels_last": True,
        },
        "env": {"frame": 84},
        "variant": {"name": "dqn", "double": False},
        "explore": {"start": 1.0, "end": 0.02, "decay_env_steps": 2_000},
        "replay": {"capacity": 10_000, "n_step": 1},
        "learner": {
            "target_every_updates": 250,
            "optimizer": {
                "name": "adam",
                "learning_rate": 1e-4,
                "learning_rate_end": -1.0,
                "eps": 1e-8,
                "max_grad_norm": 10.0,
            },
        },
    }
    preset = ("atari/pong", "default")
    ours = {label: (preset, {**layer, "overlap": label == OVERLAP}) for label in (OVERLAP, SERIAL)}
    return _equal.compare(work, ours, OVERLAP, (None, None), 2 if quick else 5)


if __name__ == "__main__":
    stage(run)
