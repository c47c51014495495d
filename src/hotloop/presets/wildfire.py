"""Fuel breaks on landscapes of 20×20 cells."""

PRESETS = {
    "default": {
        "lanes": 64,
        "total_env_steps": 40_000,
        "samples_per_step": 4.0,
        "learning_starts_env_steps": 2_560,
        "network": {"name": "residual_cnn", "channels": 16, "dilations": [1, 2, 4]},
        "variant": {"name": "dqn"},
        "explore": {"start": 1.0, "end": 0.05, "decay_env_steps": 10_000},
        "replay": {"capacity": 20_000, "n_step": 5},
        "learner": {
            "batch_size": 64,
            "gamma": 1.0,
            "target_every_updates": 200,
            "optimizer": {"learning_rate": 1e-3, "learning_rate_end": 0.0},
        },
        "env": {"fires": 50, "shown_fires": 100, "reward_scale": 10.0},
    },
}
