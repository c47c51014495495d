"""Service chains on two to eight data centres, drawn anew for each episode."""

PRESETS = {
    "default": {
        "lanes": 64,
        "total_env_steps": 3_000_000,
        "samples_per_step": 1.0,
        "learning_starts_env_steps": 50_000,
        "evaluate_episodes": 64,
        "network": {"name": "service_chain", "head": "dueling"},
        "variant": {"name": "dqn", "double": True},
        "explore": {"start": 1.0, "end": 0.01, "decay_env_steps": 500_000},
        "replay": {"capacity": 400_000, "n_step": 10},
        "learner": {
            "batch_size": 64,
            "gamma": 0.99,
            "target_every_updates": 500,
            "optimizer": {"learning_rate": 5e-4, "learning_rate_end": 0.0, "max_grad_norm": 10.0},
        },
        "env": {"reward": "credited"},
    },
}
