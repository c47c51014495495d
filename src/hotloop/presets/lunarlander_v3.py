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
        # Rewards of three steps at once and a target that follows soon: one step and 1,000 updates hovered to the end.
        "replay": {"capacity": 100_000, "n_step": 3},
        "learner": {
            "batch_size": 128,
            "gamma": 0.99,
            "target_every_updates": 250,
            "optimizer": {"learning_rate": 5e-4, "learning_rate_end": 0.0, "max_grad_norm": 10.0},
        },
    },
    "pqn": {
        "lanes": 32,
        "total_env_steps": 500_000,
        "cycle_steps": 64,
        "samples_per_step": 4.0,  # epochs over a block
        "learning_starts_env_steps": 0,
        "network": {"name": "mlp", "hidden": [128, 128], "layer_norm": True},
        "variant": {"name": "pqn", "trace_lambda": 0.8, "loss": "huber"},
        "sampler": {"name": "newest"},
        "explore": {"start": 1.0, "end": 0.02, "decay_env_steps": 150_000},
        "replay": {"capacity": 2_048, "truncated_share": 1.0},
        "learner": {
            "batch_size": 128,
            "gamma": 0.99,
            "target_every_updates": 0,
            "optimizer": {"learning_rate": 1e-3, "learning_rate_end": 0.0, "max_grad_norm": 10.0},
        },
    },
}
PRESETS["rainbow"] = {
    **PRESETS["default"],
    "network": {"name": "mlp", "hidden": [256, 256], "head": "dueling", "noisy": True},
    "variant": {"name": "c51", "double": True, "atoms": 101, "v_min": -200.0, "v_max": 300.0},
    "sampler": {"name": "prioritized", "alpha": 0.5, "beta": 0.4},
    "explore": {"start": 1.0, "end": 0.0, "decay_env_steps": 20_000},
    "replay": {"capacity": 300_000, "n_step": 3},
    "learner": {**PRESETS["default"]["learner"], "target_every_updates": 1_000},
}
PRESETS["lunar"] = PRESETS["default"]
PRESETS["per"] = {**PRESETS["default"], "sampler": {"name": "prioritized", "alpha": 0.6, "beta": 0.4}}
