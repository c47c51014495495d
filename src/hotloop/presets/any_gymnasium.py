"""A start for environments that nobody has tuned yet."""

PRESETS = {
    "default": {
        "lanes": 16,
        "total_env_steps": 200_000,
        "samples_per_step": 8.0,
        "learning_starts_env_steps": 2_000,
        "evaluate_longest": 5_000,  # some have no time limit, and an untrained policy may never end an episode
        "network": {"name": "mlp", "hidden": [128, 128]},
        "explore": {"start": 1.0, "end": 0.05, "decay_env_steps": 40_000},
        "replay": {"capacity": 100_000},
        "learner": {"batch_size": 64, "gamma": 0.99, "target_every_updates": 500, "optimizer": {"learning_rate": 5e-4}},
    },
}
