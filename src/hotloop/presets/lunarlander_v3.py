"""LunarLander-v3; needs the extra box2d."""

PRESETS = {
    "default": {
        "lanes": 16,
        "total_env_steps": 300_000,
        "samples_per_step": 32.0,
        "learning_starts_env_steps": 5_000,
        "network": {"name": "mlp", "hidden": [256, 256]},
        "variant": {"name": "dqn", "double": True},
        "explore": {"start": 1.0, "end": 0.02, "decay_env_steps": 60_000},
        "replay": {"capacity": 300_000},
        "learner": {
            "batch_size": 128,
            "gamma": 0.99,
            "target_every_updates": 1_000,
            "optimizer": {"learning_rate": 5e-4, "learning_rate_end": 0.0, "max_grad_norm": 10.0},
        },
    },
}
PRESETS["lunar"] = PRESETS["default"]
PRESETS["per"] = {**PRESETS["default"], "sampler": {"name": "prioritized", "alpha": 0.6, "beta": 0.4}}
