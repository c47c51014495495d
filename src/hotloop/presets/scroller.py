"""Scroller."""

from typing import Any

_DEFAULT: dict[str, Any] = {
    "lanes": 16,
    "total_env_steps": 120_000,
    "samples_per_step": 4.0,
    "learning_starts_env_steps": 4_000,
    "evaluate_episodes": 50,
    "network": {
        "name": "nature_cnn",
        "channels": [16, 32],
        "kernels": [6, 4],
        "strides": [3, 2],
        "features": 128,
    },
    "variant": {"name": "dqn", "double": True},
    "explore": {"start": 1.0, "end": 0.02, "decay_env_steps": 40_000},
    "replay": {"capacity": 50_000, "n_step": 3, "truncated_share": 1 / 64},  # one in 250 at the most is cut
    "learner": {
        "batch_size": 32,
        "gamma": 0.97,
        "target_every_updates": 500,
        "optimizer": {"learning_rate": 5e-4, "learning_rate_end": 0.0, "max_grad_norm": 10.0},
    },
    "env": {"frame": 48, "stack": 2},
}

PRESETS = {
    "default": _DEFAULT,
    # Frames, stacks and batches of mario's preset of this name: what its replay and its learner cost, without a ROM.
    "seed": {
        **_DEFAULT,
        "network": {"name": "nature_cnn", "channels_last": True},
        "replay": {"capacity": 10_000, "truncated_share": 1 / 64},
        "learner": {
            "batch_size": 256,
            "gamma": 0.95,
            "target_every_updates": 1,
            "target_tau": 0.01,
            "optimizer": {"learning_rate": 5e-4, "max_grad_norm": 0.0},
        },
        "env": {"frame": 128, "stack": 8},
    },
}
