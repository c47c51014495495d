"""Pong, learnt in half an hour on two cores: a small network on small frames, and returns of three steps."""

PRESETS = {
    "default": {
        "lanes": 8,
        "total_env_steps": 800_000,
        "samples_per_step": 8.0,
        "learning_starts_env_steps": 5_000,
        "evaluate_episodes": 16,
        "network": {
            "name": "nature_cnn",
            "head": "dueling",
            "channels": [16, 32, 32],
            "kernels": [8, 4, 3],
            "strides": [4, 2, 1],
            "features": 256,
        },
        "variant": {"name": "dqn", "double": True},
        "explore": {"start": 1.0, "end": 0.02, "decay_env_steps": 60_000},
        "replay": {"capacity": 100_000, "n_step": 3, "truncated_share": 0.001},
        "learner": {
            "batch_size": 32,
            "gamma": 0.99,
            "target_every_updates": 500,
            "optimizer": {"learning_rate": 4e-4, "learning_rate_end": 5e-5, "eps": 1e-5, "max_grad_norm": 10.0},
        },
        "env": {"frame": 64, "skip": 4, "stack": 4},
    },
}
