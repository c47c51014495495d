"""RLlib's DQN, new API stack, on Gymnasium's CartPole-v1: environments and learner in this process, uniform replay, one
thread. It counts its own time at every turn, which cannot be switched off."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from typing import Any

os.environ.update({"RAY_DEDUP_LOGS": "0", "RAY_USAGE_STATS_ENABLED": "0", "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1"})

import numpy as np
import ray
import torch
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from bench.counting import Window, counting_rows, counting_updates, until_first_update
from bench.measure import serve, versions


def make(work: dict[str, Any]) -> Any:
    """work: the terms of the comparison, in the words of stages/_cartpole.py."""
    at_once = work.get("updates_at_once", 1)
    (start, end), decay = work["epsilon"], work["epsilon_decay"]
    config = (
        DQNConfig()
        .environment("CartPole-v1")
        .env_runners(
            num_env_runners=0,
            num_envs_per_env_runner=work["lanes"],
            rollout_fragment_length=work["env_steps_per_update"] * at_once // work["lanes"],
        )
        .learners(num_learners=0)
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=work["hidden"], fcnet_activation="relu", head_fcnet_hiddens=[], head_fcnet_activation=None
            )
        )
        .training(
            lr=work["learning_rate"],
            gamma=work["gamma"],
            train_batch_size_per_learner=work["batch"],
            replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": work["capacity"]},
            target_network_update_freq=work["target_every_updates"] * work["env_steps_per_update"],
            num_steps_sampled_before_learning_starts=work["learning_starts"],
            training_intensity=work["batch"] / work["env_steps_per_update"],
            epsilon=[[0, start], [decay, end]],
            grad_clip=work["max_grad_norm"],
            grad_clip_by="global_norm",
            double_q=False,
            dueling=False,
            num_atoms=1,
            n_step=1,
            td_error_loss_fn="huber",
        )
        .reporting(min_time_s_per_iteration=None, min_sample_timesteps_per_iteration=1_000)
        .debugging(seed=work["seed"], log_level="ERROR")
    )
    return config.build_algo()


def train(work: dict[str, Any]) -> dict[str, Any]:
    """One run -> its learning phase."""
    if not ray.is_initialized():
        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    algo = make(work)
    learner = algo.learner_group._learner
    optimizer = learner.get_optimizer("default_policy")
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    window = Window(work, lambda: torch.nn.utils.parameters_to_vector(parameters).detach().numpy())
    env = algo.env_runner.env
    env.step = counting_transitions(env.step, window)
    buffer = algo.local_replay_buffer
    buffer.sample = counting_rows(buffer.sample, window, lambda found: sum(map(len, found)))
    optimizer.step = counting_updates(optimizer.step, window)
    try:
        while window.env_steps < work["total_env_steps"]:
            algo.train()
        return window.report()
    finally:
        algo.stop()


def counting_transitions(step: Callable[..., Any], window: Window) -> Callable[..., Any]:
    """Its vector environment resets a lane in the step after its last, which is no transition."""
    over: Any = np.zeros(1, np.bool_)

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal over
        out = step(*args, **kwargs)
        window.env_steps += len(out[2]) - int(np.sum(over))
        over = np.logical_or(out[2], out[3])
        return out

    return counted


def about() -> dict[str, Any]:
    return {
        "versions": versions("ray", "torch", "numpy", "gymnasium"),
        "torch_threads": torch.get_num_threads(),
        "settings": "new API stack, environments and learner in this process, uniform replay, one thread",
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    serve({"train": train, "first_update": until_first_update(train), "about": about})
