"""Any Atari game. Counts are env steps, of four emulated frames each."""

from typing import Any

# Mnih et al. 2015 (doi 10.1038/nature14236), extended data table 1, whose 50 M frames are 12.5 M env steps here. A
# million transitions need 7 GB.
_NATURE: dict[str, Any] = {
    "lanes": 8,
    "total_env_steps": 12_500_000,
    "samples_per_step": 8.0,  # one update of 32 per 4 env steps
    "learning_starts_env_steps": 50_000,
    "evaluate_episodes": 30,
    "network": {"name": "nature_cnn", "channels_last": True},
    "variant": {"name": "dqn"},
    "explore": {"start": 1.0, "end": 0.1, "decay_env_steps": 1_000_000},
    "replay": {"capacity": 1_000_000, "truncated_share": 0.001},  # a game is cut after 27,000 env steps
    "learner": {
        "batch_size": 32,
        "gamma": 0.99,
        "target_every_updates": 10_000,
        "optimizer": {"name": "rmsprop", "learning_rate": 2.5e-4, "alpha": 0.95, "eps": 0.01, "max_grad_norm": 0.0},
    },
    "env": {"frame": 84, "skip": 4, "stack": 4, "life_ends": True, "noop_frames": 30},
}

PRESETS = {
    "default": {
        **_NATURE,
        "total_env_steps": 2_000_000,
        "learning_starts_env_steps": 10_000,
        "variant": {"name": "dqn", "double": True},
        "explore": {"start": 1.0, "end": 0.02, "decay_env_steps": 200_000},
        "replay": {"capacity": 200_000, "n_step": 3, "truncated_share": 0.001},
        "learner": {
            "batch_size": 32,
            "gamma": 0.99,
            "target_every_updates": 2_000,
            "optimizer": {"learning_rate": 1e-4, "eps": 1.5e-4, "max_grad_norm": 10.0},
        },
    },
    "nature_dqn": _NATURE,
}
