"""Stable-Baselines3's DQN on Gymnasium's CartPole-v1, with its fastest documented settings: CPU, one thread, no
Monitor, no logging, fused Adam."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import ReplayBufferSamples
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import DummyVecEnv
from stable_baselines3.dqn import dqn

from bench.measure import serve, versions


def make(work: Mapping[str, Any], fused: bool) -> DQN:
    """work: the terms of the comparison, in the words of stages/_cartpole.py."""
    lanes = work["lanes"]
    env = DummyVecEnv([lambda: gymnasium.make("CartPole-v1")] * lanes)
    batched_steps = work["env_steps_per_update"] // lanes
    model = DQN(
        "MlpPolicy",
        env,
        learning_rate=work["learning_rate"],
        buffer_size=work["capacity"],
        learning_starts=work["learning_starts"],
        batch_size=work["batch"],
        gamma=work["gamma"],
        train_freq=batched_steps,
        gradient_steps=1,
        # Counted in calls of step(), after division by the number of environments.
        target_update_interval=work["target_every_updates"] * batched_steps * lanes,
        exploration_fraction=work["epsilon_decay"] / work["total_env_steps"],
        exploration_initial_eps=work["epsilon"][0],
        exploration_final_eps=work["epsilon"][1],
        max_grad_norm=work["max_grad_norm"],
        policy_kwargs={"net_arch": work["hidden"], "optimizer_kwargs": {"fused": True} if fused else {}},
        device="cpu",
        seed=work["seed"],
    )
    model.set_logger(configure(None, []))
    return model


def train(work: dict[str, Any], fused: bool = True) -> dict[str, Any]:
    """One run -> its learning phase, from the end of the first update to the end of the last one."""
    model = make(work, fused)
    step, marks, moved = model.policy.optimizer.step, [], counted_target_moves()

    def counted(*args: Any, **kwargs: Any) -> Any:
        out = step(*args, **kwargs)
        marks.append((time.perf_counter(), model.num_timesteps))
        return out

    model.policy.optimizer.step = counted
    model.learn(work["total_env_steps"], log_interval=None)
    (began, first), (ended, last) = marks[0], marks[-1]
    updates = len(marks) - 1
    due = model.num_timesteps // work["env_steps_per_update"] // work["target_every_updates"]
    assert moved[0] == due, f"the target network moved {moved[0]} times, not {due}"
    return {
        "env_steps_per_s": (last - first) / (ended - began),
        "env_steps": last - first,
        "updates": updates,
        "seconds": ended - began,
        "samples_per_step": updates * work["batch"] / (last - first),
    }


def counted_target_moves() -> list[int]:
    """[how often the target network has been written since]"""
    moved, update = [0], dqn.polyak_update

    def counted(params: Any, target: Any, tau: float) -> None:
        params = list(params)
        moved[0] += len(params) > 0  # called a second time for the statistics of batch norms, of which there are none
        update(params, target, tau)

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
    return {"versions": packages, "torch_threads": torch.get_num_threads()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve({"train": train, "one_update": one_update, "about": about})
