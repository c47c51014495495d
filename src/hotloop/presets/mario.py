"""Super Mario Bros., level 1-1. Counts are env steps, of `skip` emulated frames each."""

PRESETS = {
    "default": {
        "lanes": 8,
        "total_env_steps": 300_000,
        "samples_per_step": 4.0,
        "learning_starts_env_steps": 4_000,
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
        "explore": {"start": 1.0, "end": 0.05, "decay_env_steps": 100_000},
        "replay": {"capacity": 60_000, "n_step": 3, "truncated_share": 0.001},  # the game's clock cuts nothing
        "learner": {
            "batch_size": 32,
            "gamma": 0.95,
            "target_every_updates": 500,
            "optimizer": {"learning_rate": 4e-4, "learning_rate_end": 0.0, "eps": 1e-5, "max_grad_norm": 10.0},
        },
        # Going right is all that 1-1 asks for, and what random play then does is worth learning from.
        "env": {"frame": 84, "skip": 4, "stack": 4, "actions": "right_only", "reward": "shaped"},
    },
    # What https://github.com/ThiloK1410/rl_mario trained with at 772c101, as far as it is written there.
    "seed": {
        "lanes": 8,
        "total_env_steps": 500_000,
        "samples_per_step": 8.0,
        "learning_starts_env_steps": 5_000,
        "evaluate_episodes": 16,
        "network": {"name": "nature_cnn", "channels": [32, 64, 64], "features": 512, "channels_last": True},
        "variant": {"name": "dqn", "double": True},
        "explore": {"start": 1.0, "end": 0.1, "decay_env_steps": 200_000},
        "sampler": {"name": "prioritized", "alpha": 0.6, "beta": 0.4},
        "replay": {"capacity": 10_000, "truncated_share": 0.001},
        "learner": {
            "batch_size": 256,
            "gamma": 0.95,
            "target_every_updates": 1,
            "target_tau": 0.01,
            "optimizer": {"learning_rate": 5e-4, "max_grad_norm": 0.0},
        },
        "env": {
            "frame": 128,
            "skip": 6,
            "stack": 8,
            "actions": "complex",
            "reward": "shaped",
            "stuck_env_steps": 40,
            "recorded_starts": 0.8,
        },
    },
}
