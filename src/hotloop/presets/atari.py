"""Any Atari game. Counts are env steps, of four emulated frames each."""

from typing import Any

# Mnih et al. 2015 (doi 10.1038/nature14236), extended data table 1, whose 50 M frames are 12.5 M env steps here. A
# million transitions need 7 GB.
_NATURE: dict[str, Any] = {
    "lanes": 8,
    "total_env_steps": 12_500_000,
    "samples_per_step": 8.0,  # one update of 32 per 4 env steps
    "learning_starts_env_steps": 50_000,
    "evaluate_episodes": 30,
    "network": {"name": "nature_cnn", "channels_last": True},
    "variant": {"name": "dqn"},
    "explore": {"start": 1.0, "end": 0.1, "decay_env_steps": 1_000_000},
    "replay": {"capacity": 1_000_000, "truncated_share": 0.001},  # a game is cut after 27,000 env steps
    "learner": {
        "batch_size": 32,
        "gamma": 0.99,
        "target_every_updates": 10_000,
        "optimizer": {"name": "rmsprop", "learning_rate": 2.5e-4, "alpha": 0.95, "eps": 0.01, "max_grad_norm": 0.0},
    },
    "env": {"frame": 84, "skip": 4, "stack": 4, "life_ends": True, "noop_frames": 30},
}

# Hessel et al. 2018 (arXiv 1710.02298), table 1, in env steps of four frames; there the noise explores from the start.
_RAINBOW: dict[str, Any] = {
    **_NATURE,
    "total_env_steps": 50_000_000,
    "learning_starts_env_steps": 20_000,
    "network": {"name": "nature_cnn", "head": "dueling", "noisy": True, "channels_last": True},
    "variant": {"name": "c51", "double": True, "atoms": 51, "v_min": -10.0, "v_max": 10.0},
    "sampler": {"name": "prioritized", "alpha": 0.5, "beta": 0.4},
    "explore": {"start": 0.0, "end": 0.0},
    "replay": {"capacity": 1_000_000, "n_step": 3, "truncated_share": 0.001},
    "learner": {
        "batch_size": 32,
        "gamma": 0.99,
        "target_every_updates": 2_000,  # 32,000 frames
        "optimizer": {"learning_rate": 6.25e-5, "eps": 1.5e-4, "max_grad_norm": 10.0},
    },
}

# Horgan et al. 2018 (arXiv 1803.00933), appendix C, with 256 lanes for its 360 actors. There learner and actors run as
# fast as they can; 8 samples per step is Nature's, and a guess.
_APEX: dict[str, Any] = {
    **_NATURE,
    "lanes": 256,
    "total_env_steps": 50_000_000,
    "network": {"name": "nature_cnn", "head": "dueling", "channels_last": True},
    "variant": {"name": "dqn", "double": True},
    "sampler": {"name": "prioritized", "alpha": 0.6, "beta": 0.4},
    "explore": {"start": 0.4, "end": 0.4, "lane_power": 7.0},
    "replay": {"capacity": 2_000_000, "n_step": 3, "truncated_share": 0.001},
    "learner": {
        "batch_size": 512,
        "gamma": 0.99,
        "target_every_updates": 2_500,
        "optimizer": {
            "name": "rmsprop",
            "learning_rate": 6.25e-5,
            "alpha": 0.95,
            "eps": 1.5e-7,
            "max_grad_norm": 40.0,
        },
    },
}

# Clark et al. 2024 (arXiv 2411.03820), appendix of hyperparameters: an update of 256 per step of 64 lanes.
_BTR: dict[str, Any] = {
    **_NATURE,
    "lanes": 64,
    "total_env_steps": 50_000_000,
    "samples_per_step": 4.0,
    "learning_starts_env_steps": 200_000,
    "network": {
        "name": "impala_cnn",
        "head": "dueling",
        "noisy": True,
        "width": 2,
        "spectral": True,
        "pool": 6,
        "features": 512,
    },
    "variant": {"name": "munchausen_iqn"},
    "sampler": {"name": "prioritized", "alpha": 0.2, "beta": 0.4},
    "explore": {"start": 1.0, "end": 0.01, "decay_env_steps": 2_000_000},
    "replay": {"capacity": 2**20, "n_step": 3, "truncated_share": 0.001},
    "learner": {
        "batch_size": 256,
        "gamma": 0.997,
        "target_every_updates": 500,
        "optimizer": {"learning_rate": 1e-4, "eps": 1.95e-5, "max_grad_norm": 10.0},
    },
}

PRESETS = {
    "default": {
        **_NATURE,
        "total_env_steps": 2_000_000,
        "learning_starts_env_steps": 10_000,
        "variant": {"name": "dqn", "double": True},
        "explore": {"start": 1.0, "end": 0.02, "decay_env_steps": 200_000},
        "replay": {"capacity": 200_000, "n_step": 3, "truncated_share": 0.001},
        "learner": {
            "batch_size": 32,
            "gamma": 0.99,
            "target_every_updates": 2_000,
            "optimizer": {"learning_rate": 1e-4, "eps": 1.5e-4, "max_grad_norm": 10.0},
        },
    },
    "nature_dqn": _NATURE,
    "rainbow": _RAINBOW,
    "apex": _APEX,
    "btr": _BTR,
}
