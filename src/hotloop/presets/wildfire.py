"""Fuel breaks on landscapes of 20×20 cells; `seed` in the setting of the project that the world answers."""

PRESETS = {
    "default": {
        "lanes": 64,
        "total_env_steps": 40_000,
        "samples_per_step": 4.0,
        "learning_starts_env_steps": 1_280,
        "network": {"name": "residual_cnn", "channels": 16, "dilations": [1, 2], "pool": True, "shortcut": True},
        "variant": {"name": "dqn"},
        "explore": {"start": 0.3, "end": 0.05, "decay_env_steps": 3_000},
        "replay": {"capacity": 20_000, "n_step": 3},
        "learner": {
            "batch_size": 32,
            "gamma": 1.0,
            "target_every_updates": 200,
            "optimizer": {"learning_rate": 2e-3, "learning_rate_end": 0.0},
        },
        # With 1,000 fires that both reward and are shown, what helps against them helps against others: with 300, 5 %
        # more burnt on held-out fires than on these, with 1,000, 1.5 %. Rewards stay unscaled: a weight moves by about
        # the learning rate per update, and values of 10 would be farther away than what tells cells apart.
        "env": {"fires": 1000, "evaluation_fires": 50},
    },
    # As in the seed: 50×50 cells, 10 breaks between two rounds of 10 fires, 200 breaks, Adam 1e-4, gamma .95, batch 32,
    # norm of gradients 10, BatchNorm, target copied every 1,000 updates, epsilon × .995 per update down to .01.
    # Not literally: its fires are Pyretechnics' on Californian fuels, its 12 channels show no breaks, and its network
    # of 4.9 M parameters takes 12 GMAC per observation; ours are the world's own, and the network has that shape in
    # small. It counted experiences, not samples: 1 per step is a guess. Its 20,000 transitions need 2 GB here.
    "seed": {
        "lanes": 16,
        "total_env_steps": 80_000,  # 400 episodes, after which its speed was judged
        "samples_per_step": 1.0,
        "learning_starts_env_steps": 1_600,
        "evaluate_episodes": 16,
        "network": {"name": "residual_cnn", "channels": 32, "dilations": [1, 1, 1], "norm": "batch"},
        "variant": {"name": "dqn", "double": False, "loss": "mse"},
        "explore": {"schedule": "exponential", "start": 1.0, "end": 0.01, "decay_env_steps": 29_000},
        "replay": {"capacity": 20_000},
        "learner": {
            "batch_size": 32,
            "gamma": 0.95,
            "target_every_updates": 1_000,
            "optimizer": {"learning_rate": 1e-4, "max_grad_norm": 10.0},
        },
        "env": {"size": 50, "budget": 0.08, "cells_per_step": 10, "fires": 10, "evaluation_fires": 50},
    },
}
