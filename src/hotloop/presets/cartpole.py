"""CartPole-v1."""

_CLEANRL = {
    "lanes": 10,
    "total_env_steps": 500_000,
    "samples_per_step": 12.8,  # one update of 128 per 10 env steps
    "cycle_steps": 10,
    "learning_starts_env_steps": 10_000,
    "network": {"name": "mlp", "hidden": [120, 84]},
    "variant": {"name": "dqn", "loss": "mse"},
    "explore": {"start": 1.0, "end": 0.05, "decay_env_steps": 250_000},
    "replay": {"capacity": 10_000},
    "learner": {
        "batch_size": 128,
        "gamma": 0.99,
        "target_every_updates": 50,
        "optimizer": {"learning_rate": 2.5e-4, "max_grad_norm": 0.0},
    },
}

PRESETS = {
    "default": {
        "lanes": 16,
        "total_env_steps": 200_000,
        "samples_per_step": 8.0,
        "learning_starts_env_steps": 2_000,
        "network": {"name": "mlp", "hidden": [128, 128]},
        "variant": {"name": "dqn", "double": True},
        "explore": {"start": 1.0, "end": 0.04, "decay_env_steps": 30_000},
        "replay": {"capacity": 100_000},
        "learner": {
            "batch_size": 64,
            "gamma": 0.99,
            "target_every_updates": 200,
            "optimizer": {"learning_rate": 1e-3, "learning_rate_end": 0.0},
        },
    },
    "cleanrl": _CLEANRL,
}
