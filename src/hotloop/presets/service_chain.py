"""Service chains on two to eight data centres, drawn anew for each episode."""

from typing import Any

# The lanes play their games in step, so the replay must hold a whole episode of each, of up to 20,000 actions: with
# less it forgets how games begin while all of them end. See LOG.md.
_DEFAULT: dict[str, Any] = {
    "lanes": 32,
    "total_env_steps": 2_500_000,
    "samples_per_step": 1.0,
    "learning_starts_env_steps": 50_000,
    "network": {"name": "service_chain", "head": "dueling"},
    "variant": {"name": "dqn", "double": True},
    "explore": {"start": 1.0, "end": 0.02, "decay_env_steps": 800_000},
    "replay": {"capacity": 700_000, "n_step": 10},
    "learner": {
        "batch_size": 64,
        "gamma": 0.99,
        "target_every_updates": 500,
        "optimizer": {"learning_rate": 5e-4, "learning_rate_end": 0.0, "max_grad_norm": 10.0},
    },
    "env": {"reward": "credited"},
}

# "Why Performance Bottleneck", the settings that it calls the paper's: an update of 32 after each action, 350 × 20
# episodes. By its count an episode is 50 actions, which is 0.5 ms of the world: 350,000 actions in all; whole episodes
# would be 136 million. Its epsilon falls by the factor 0.995 every 20 of them. Illegal actions, which its agent learns
# to avoid, are masked here: that is the world's rule, and no setting.
_SEED: dict[str, Any] = {
    "lanes": 1,
    "total_env_steps": 350_000,
    "samples_per_step": 32.0,
    "learning_starts_env_steps": 32,
    "network": {"name": "service_chain", "head": "scalar"},
    "variant": {"name": "dqn", "double": False, "loss": "mse"},
    # 0.995 ** (n / 1,000) is 0.01 after 918,740 of them
    "explore": {"schedule": "exponential", "start": 1.0, "end": 0.01, "decay_env_steps": 918_740},
    "replay": {"capacity": 10_000, "n_step": 1},
    "learner": {
        "batch_size": 32,
        "gamma": 0.99,
        "target_every_updates": 10,
        "optimizer": {"learning_rate": 1e-4, "max_grad_norm": 0.0},
    },
    "env": {"reward": "published"},
}

PRESETS = {"default": _DEFAULT, "seed": _SEED}
