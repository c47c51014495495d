"""The identity world: solved in seconds, or something is broken."""

PRESETS = {
    "default": {
        "lanes": 8,
        "total_env_steps": 4_000,
        "samples_per_step": 8.0,
        "learning_starts_env_steps": 256,
        "network": {"name": "mlp", "hidden": [32]},
        "explore": {"start": 1.0, "end": 0.1, "decay_env_steps": 2_000},
        "replay": {"capacity": 4_000},
        "learner": {"batch_size": 32, "gamma": 0.5, "target_every_updates": 50, "optimizer": {"learning_rate": 5e-3}},
    },
}
