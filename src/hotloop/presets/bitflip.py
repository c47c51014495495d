"""Bit flipping: solved with goals in hindsight, and not without (`plain`)."""

PRESETS = {
    "default": {
        "lanes": 16,
        "total_env_steps": 40_000,
        "samples_per_step": 16.0,
        "learning_starts_env_steps": 1_000,
        "network": {"name": "mlp", "hidden": [128]},
        "variant": {"name": "dqn", "double": True},
        "explore": {"start": 1.0, "end": 0.05, "decay_env_steps": 15_000},
        "replay": {"capacity": 50_000, "hindsight": 4, "truncated_share": 0.2},
        "learner": {
            "batch_size": 128,
            "gamma": 0.98,
            "target_every_updates": 100,
            "optimizer": {"learning_rate": 1e-3},
        },
    },
}
PRESETS["plain"] = {**PRESETS["default"], "replay": {**PRESETS["default"]["replay"], "hindsight": 0}}
