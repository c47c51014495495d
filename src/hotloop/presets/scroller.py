"""Scroller."""

PRESETS = {
    "default": {
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
        "replay": {"capacity": 50_000, "n_step": 3},
        "learner": {
            "batch_size": 32,
            "gamma": 0.97,
            "target_every_updates": 500,
            "optimizer": {"learning_rate": 5e-4, "learning_rate_end": 0.0, "max_grad_norm": 10.0},
        },
        "env": {"frame": 48, "stack": 2},
    },
}
