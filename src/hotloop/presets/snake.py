"""Snake on a 10×10 board."""

from typing import Any

_BASIC: dict[str, Any] = {
    "lanes": 256,
    "total_env_steps": 3_000_000,
    "samples_per_step": 2.0,
    "learning_starts_env_steps": 20_000,
    "network": {"name": "mlp", "hidden": [128, 128]},
    "explore": {"start": 1.0, "end": 0.01, "decay_env_steps": 300_000},
    "replay": {"capacity": 200_000},
    "learner": {
        "batch_size": 64,
        "gamma": 0.99,
        "target_every_updates": 1_000,
        "optimizer": {"learning_rate": 1e-3, "learning_rate_end": 0.0, "max_grad_norm": 1.0},
    },
    "env": {"size": 10, "observation": "basic"},
}

PRESETS = {
    "default": _BASIC,
    "flood": {**_BASIC, "env": {"size": 10, "observation": "flood"}},
    "grid": {
        **_BASIC,
        "lanes": 64,
        "total_env_steps": 1_000_000,
        "network": {
            "name": "nature_cnn",
            "channels": [32, 64],
            "kernels": [3, 3],
            "strides": [1, 2],
            "padding": 1,
            "features": 128,
        },
        "env": {"size": 10, "observation": "grid"},
    },
    "pqn": {
        **_BASIC,
        "cycle_steps": 32,
        "learning_starts_env_steps": 0,
        "network": {"name": "mlp", "hidden": [128, 128], "layer_norm": True},
        "variant": {"name": "pqn", "trace_lambda": 0.65},
        "sampler": {"name": "newest"},
        "replay": {"capacity": 8_192, "truncated_share": 1.0},
        "learner": {
            "batch_size": 256,
            "gamma": 0.99,
            "target_every_updates": 0,
            "optimizer": {"learning_rate": 1e-3, "learning_rate_end": 0.0, "max_grad_norm": 10.0},
        },
    },
    # The settings of a published trainer whose speed was said to fall fourteenfold: 64 updates of 64 after each step of
    # 256 boards are 16 samples per step. Its exploration decayed per finished episode, over some 20,000 env steps, and
    # its target moved every 64,000 updates, both by accident; here both are what was meant.
    "seed": {
        **_BASIC,
        "total_env_steps": 1_000_000,
        "samples_per_step": 16.0,
        "learning_starts_env_steps": 1_000,
        "explore": {"start": 1.0, "end": 0.01, "decay_env_steps": 100_000},
        "replay": {"capacity": 100_000},
        "learner": {
            "batch_size": 64,
            "gamma": 0.99,
            "target_every_updates": 1_000,
            "optimizer": {"learning_rate": 1e-3, "max_grad_norm": 1.0},
        },
    },
}
