"""Stable-Baselines3's DQN, with its fastest documented settings: CPU, one thread, no Monitor, no logging, fused Adam,
Gymnasium's checks of each step switched off."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import ReplayBufferSamples
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecFrameStack, VecTransposeImage
from stable_baselines3.dqn import dqn

from bench.counting import Window, counting_rows, counting_steps, counting_updates, until_first_update
from bench.measure import ROOT, serve, versions

POLYAK = dqn.polyak_update


def world(work: Mapping[str, Any]) -> VecEnv:
    """The lanes: Gymnasium's CartPole-v1 where nothing else is asked for, or any id; ours is imported by its id."""
    name = work.get("env", "CartPole-v1")
    if name.startswith("ALE/"):
        import ale_py

        gymnasium.register_envs(ale_py)
        return VecTransposeImage(VecFrameStack(make_atari_env(name, work["lanes"], seed=work["seed"]), 4))
    if name.startswith("hotloop."):
        sys.path.insert(0, str(ROOT / "src"))
    return DummyVecEnv(
        [lambda: gymnasium.make(name, disable_env_checker=True, **work.get("env_options", {}))] * work["lanes"]
    )


def make(work: Mapping[str, Any], fused: bool) -> DQN:
    """work: the terms of the comparison, in the words of stages/_cartpole.py."""
    at_once = work.get("updates_at_once", 1)
    batched_steps = work["env_steps_per_update"] * at_once // work["lanes"]
    network = {} if "hidden" not in work else {"net_arch": work["hidden"]}
    model = DQN(
        "MlpPolicy" if "hidden" in work else "CnnPolicy",
        world(work),
        learning_rate=work["learning_rate"],
        buffer_size=work["capacity"],
        learning_starts=work["learning_starts"],
        batch_size=work["batch"],
        gamma=work["gamma"],
        n_steps=work.get("n_step", 1),
        train_freq=batched_steps,
        gradient_steps=at_once,
        # Counted in calls of step(), after division by the number of environments.
        target_update_interval=work["target_every_updates"] * work["env_steps_per_update"],
        exploration_fraction=work["epsilon_decay"] / work["total_env_steps"],
        exploration_initial_eps=work["epsilon"][0],
        exploration_final_eps=work["epsilon"][1],
        max_grad_norm=work["max_grad_norm"],
        policy_kwargs={**network, "optimizer_kwargs": {"fused": True} if fused else {}},
        device="cpu",
        seed=work["seed"],
    )
    model.set_logger(configure(None, []))
    return model


def train(work: dict[str, Any], fused: bool = True) -> dict[str, Any]:
    """One run -> its learning phase."""
    model, moved = make(work, fused), counted_target_moves()
    parameters = list(model.q_net.parameters())
    window = Window(work, lambda: torch.nn.utils.parameters_to_vector(parameters).detach().numpy())
    assert model.env is not None and model.replay_buffer is not None
    model.env.step_wait = counting_steps(model.env.step_wait, window, model.env.num_envs)
    model.replay_buffer.sample = counting_rows(model.replay_buffer.sample, window, lambda s: len(s.observations))
    model.policy.optimizer.step = counting_updates(model.policy.optimizer.step, window)
    model.learn(work["total_env_steps"], log_interval=None)
    due = window.env_steps // work["env_steps_per_update"] // work["target_every_updates"]
    assert moved[0] == due, f"the target network moved {moved[0]} times, not {due}"
    return window.report()


def counted_target_moves() -> list[int]:
    """[how often the target network has been written since]"""
    moved = [0]

    def counted(params: Any, target: Any, tau: float) -> None:
        params = list(params)
        moved[0] += len(params) > 0  # called a second time for the statistics of batch norms, of which there are none
        POLYAK(params, target, tau)

    dqn.polyak_update = counted
    return moved


def one_update(work: dict[str, Any], params: list[float], batch: Mapping[str, Any]) -> dict[str, Any]:
    """One update from `params`, which are the target's too -> its loss, and the parameters after it."""
    model = make(work, fused=True)
    flat = torch.tensor(params, dtype=torch.float32)
    torch.nn.utils.vector_to_parameters(flat, model.q_net.parameters())
    model.q_net_target.load_state_dict(model.q_net.state_dict())

    def column(name: str) -> torch.Tensor:
        return torch.tensor(np.array(batch[name], np.float32)).reshape(len(batch["action"]), -1)

    samples = ReplayBufferSamples(
        column("obs"), column("action").long(), column("next_obs"), column("terminated"), column("reward")
    )
    assert model.replay_buffer is not None
    model.replay_buffer.sample = lambda *_, **__: samples
    model._current_progress_remaining = 1.0
    model.train(gradient_steps=1, batch_size=len(batch["action"]))
    after = torch.nn.utils.parameters_to_vector(model.q_net.parameters())
    return {"loss": float(model.logger.name_to_value["train/loss"]), "params": after.tolist()}


def about() -> dict[str, Any]:
    packages = versions("stable-baselines3", "torch", "numpy", "gymnasium")
    return {
        "versions": packages,
        "torch_threads": torch.get_num_threads(),
        "settings": "one thread, fused Adam, no Monitor, no logger, environment checker off",
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve({"train": train, "first_update": until_first_update(train), "one_update": one_update, "about": about})
