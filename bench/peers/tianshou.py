"""Tianshou's DQN on Gymnasium's CartPole-v1: its vector environment, its vectorised replay and its trainer, with one
thread, fused Adam, no logger, no progress bar and no test episodes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from tianshou.algorithm import DQN
from tianshou.algorithm.algorithm_base import policy_within_training_step
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import TorchOptimizerFactory
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net

from bench.counting import Window, counting_rows, counting_steps, counting_updates, until_first_update
from bench.measure import serve, versions


def make(work: Mapping[str, Any]) -> DQN:
    """work: the terms of the comparison, in the words of stages/_cartpole.py."""
    torch.manual_seed(work["seed"])
    np.random.seed(work["seed"])
    env = gymnasium.make("CartPole-v1")
    net = Net(state_shape=4, action_shape=2, hidden_sizes=work["hidden"])
    policy = DiscreteQLearningPolicy(
        model=net, action_space=env.action_space, observation_space=env.observation_space, eps_training=1.0
    )
    algorithm = DQN(
        policy=policy,
        optim=TorchOptimizerFactory(torch.optim.Adam, lr=work["learning_rate"], fused=True),
        gamma=work["gamma"],
        target_update_freq=work["target_every_updates"],
        is_double=False,
        huber_loss_delta=1.0,
    )
    algorithm.optim._max_grad_norm = work["max_grad_norm"] or None  # its DQN hands no such argument through
    return algorithm


def train(work: dict[str, Any]) -> dict[str, Any]:
    """One run -> its learning phase."""
    algorithm, lanes = make(work), work["lanes"]
    policy, optimizer = algorithm.policy, algorithm.optim._optim
    parameters = list(policy.model.parameters())
    window = Window(work, lambda: torch.nn.utils.parameters_to_vector(parameters).detach().numpy())
    envs = DummyVectorEnv([lambda: gymnasium.make("CartPole-v1", disable_env_checker=True)] * lanes)
    envs.seed(work["seed"])
    envs.step = counting_steps(envs.step, window, lanes)
    buffer = VectorReplayBuffer(work["capacity"], lanes)
    buffer.sample = counting_rows(buffer.sample, window, lambda found: len(found[1]))
    optimizer.step = counting_updates(optimizer.step, window)
    collector = Collector(policy, envs, buffer)
    collector.reset()
    with policy_within_training_step(policy):
        collector.collect(n_step=work["learning_starts"])

    (start, end), decay = work["epsilon"], work["epsilon_decay"]

    def explore(epoch: int, env_step: int) -> None:
        policy.set_eps_training(start + (end - start) * min(1.0, window.env_steps / decay))

    algorithm.run_training(
        OffPolicyTrainerParams(
            training_collector=collector,
            max_epochs=1,
            epoch_num_steps=work["total_env_steps"] - work["learning_starts"],
            collection_step_num_env_steps=work["env_steps_per_update"] * work.get("updates_at_once", 1),
            update_step_num_gradient_steps_per_sample=1 / work["env_steps_per_update"],
            batch_size=work["batch"],
            training_fn=explore,
            verbose=False,
            show_progress=False,
        )
    )
    return window.report()


def one_update(work: dict[str, Any], params: list[float], batch: Mapping[str, Any]) -> dict[str, Any]:
    """One update from `params`, which are the target's too -> its loss, and the parameters after it."""
    algorithm = make(work)
    torch.nn.utils.vector_to_parameters(torch.tensor(params), algorithm.policy.model.parameters())
    algorithm._update_lagged_network_weights()
    rows = len(batch["action"])
    buffer = VectorReplayBuffer(rows, rows)  # one row each, so that nothing but the row itself is looked at
    ended = np.array(batch["terminated"], np.bool_)
    columns: dict[str, Any] = {
        "obs": np.array(batch["obs"], np.float32), "act": np.array(batch["action"]), "rew": np.array(batch["reward"]),
        "obs_next": np.array(batch["next_obs"], np.float32), "terminated": ended, "truncated": ~ended,
        "info": np.array([{}] * rows),
    }  # fmt: skip
    buffer.add(Batch(**columns), buffer_ids=np.arange(rows))
    all_rows = buffer[np.arange(rows)], np.arange(rows)
    buffer.sample = lambda *_, **__: all_rows
    with policy_within_training_step(algorithm.policy):
        algorithm.policy.train()
        algorithm.is_within_training_step = True  # type: ignore[attr-defined]
        loss = algorithm.update(buffer=buffer, sample_size=rows).loss
    after = torch.nn.utils.parameters_to_vector(algorithm.policy.model.parameters())
    return {"loss": float(loss), "params": after.tolist()}


def about() -> dict[str, Any]:
    packages = versions("tianshou", "torch", "numpy", "gymnasium", "numba")
    return {
        "versions": packages,
        "torch_threads": torch.get_num_threads(),
        "settings": "one thread, fused Adam, no logger, no progress bar, no test episodes, environment checker off",
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    serve({"train": train, "first_update": until_first_update(train), "one_update": one_update, "about": about})
