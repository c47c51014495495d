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

# All of Rainbow (Hessel et al. 2018, arXiv 1710.02298), within 3,000 episodes' worth of env steps: at a score of 38 an
# episode lasts some 390. Noise alone takes 200,000 of them to get going, so the first ones are random. Values lie
# between a death and what food every eight steps is worth.
_RAINBOW: dict[str, Any] = {
    **_BASIC,
    "total_env_steps": 1_000_000,
    "samples_per_step": 4.0,
    "network": {"name": "mlp", "hidden": [128, 128], "head": "dueling", "noisy": True},
    "variant": {"name": "c51", "double": True, "atoms": 51, "v_min": -20.0, "v_max": 100.0},
    "sampler": {"name": "prioritized", "alpha": 0.5, "beta": 0.4},
    "explore": {"start": 1.0, "end": 0.0, "decay_env_steps": 50_000},
    "replay": {"capacity": 200_000, "n_step": 3},
    "learner": {
        "batch_size": 64,
        "gamma": 0.98,
        "target_every_updates": 250,
        "optimizer": {"learning_rate": 1e-3, "learning_rate_end": 0.0, "max_grad_norm": 10.0},
    },
}
# Many lanes, each with a share of random actions of its own, for good (Horgan et al. 2018, arXiv 1803.00933).
_APEX: dict[str, Any] = {
    **_RAINBOW,
    "network": {"name": "mlp", "hidden": [128, 128], "head": "dueling"},
    "variant": {"name": "dqn", "double": True},
    "sampler": {"name": "prioritized", "alpha": 0.6, "beta": 0.4},
    "explore": {"start": 0.4, "end": 0.4, "lane_power": 7.0},
}

PRESETS = {
    "default": _BASIC,
    "flood": {**_BASIC, "env": {"size": 10, "observation": "flood"}},
    "rainbow": _RAINBOW,
    "rainbow_flood": {**_RAINBOW, "env": {"size": 10, "observation": "flood"}},
    "apex": _APEX,
    "apex_flood": {**_APEX, "env": {"size": 10, "observation": "flood"}},
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
