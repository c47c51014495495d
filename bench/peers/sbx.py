"""SBX's DQN, which is Stable-Baselines3's with the update in JAX, on Gymnasium's CartPole-v1: several updates from one
sample in one call, as its authors do for speed, no Monitor, no logging."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

# One thread per operation: more cost more than they give at this size. Read when JAX is imported.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import flax.linen as nn
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from sbx import DQN
from sbx.common.type_aliases import RLTrainState
from sbx.dqn.policies import DQNPolicy
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import DummyVecEnv

from bench.counting import Window, counting_rows, counting_steps, in_order, transposed, until_first_update
from bench.measure import serve, versions


class QNetwork(nn.Module):
    """Its own has two layers of one width; the comparison's differ."""

    sizes: tuple[int, ...]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for size in self.sizes[1:-1]:
            x = nn.relu(nn.Dense(size)(x))
        return nn.Dense(self.sizes[-1])(x)


class Policy(DQNPolicy):
    """The one thing that has to be written by hand: what the constructor of its own does, with that network."""

    def build(self, key: jax.Array, lr_schedule: Any) -> jax.Array:
        key, draw = jax.random.split(key)
        self.qf = QNetwork((4, *self.net_arch, 2))
        params, target = (self.qf.init({"params": draw}, jnp.zeros((1, 4))) for _ in range(2))
        optimizer = self.optimizer_class(learning_rate=lr_schedule(1), **self.optimizer_kwargs)
        self.qf_state = RLTrainState.create(apply_fn=self.qf.apply, params=params, target_params=target, tx=optimizer)
        self.qf.apply = jax.jit(self.qf.apply)  # type: ignore[method-assign]
        return key

    net_arch: tuple[int, ...] = ()


def make(work: Mapping[str, Any]) -> DQN:
    """work: the terms of the comparison, in the words of stages/_cartpole.py."""

    def optimizer(learning_rate: float) -> optax.GradientTransformation:
        return optax.chain(optax.clip_by_global_norm(work["max_grad_norm"]), optax.adam(learning_rate))

    at_once = work.get("updates_at_once", 1)
    Policy.net_arch = tuple(work["hidden"])
    env = DummyVecEnv([lambda: gymnasium.make("CartPole-v1", disable_env_checker=True)] * work["lanes"])
    model = DQN(
        Policy,
        env,
        learning_rate=work["learning_rate"],
        buffer_size=work["capacity"],
        learning_starts=work["learning_starts"],
        batch_size=work["batch"],
        gamma=work["gamma"],
        train_freq=work["env_steps_per_update"] * at_once // work["lanes"],
        gradient_steps=at_once,
        target_update_interval=work["target_every_updates"] * work["env_steps_per_update"],
        exploration_fraction=work["epsilon_decay"] / work["total_env_steps"],
        exploration_initial_eps=work["epsilon"][0],
        exploration_final_eps=work["epsilon"][1],
        policy_kwargs={"optimizer_class": optimizer},
        device="cpu",
        seed=work["seed"],
    )
    model.set_logger(configure(None, []))
    return model


def train(work: dict[str, Any]) -> dict[str, Any]:
    """One run -> its learning phase. Updates are those that the optimizer's own state has counted."""
    model = make(work)
    window = Window(work, lambda: weights(model.policy.qf_state.params))
    assert model.env is not None and model.replay_buffer is not None
    model.env.step_wait = counting_steps(model.env.step_wait, window, model.env.num_envs)
    model.replay_buffer.sample = counting_rows(model.replay_buffer.sample, window, lambda s: len(s.observations))
    learn = model.train

    def counted(*args: Any, **kwargs: Any) -> None:
        learn(*args, **kwargs)
        window.updated(int(model.policy.qf_state.step) - window.updates)

    model.train = counted  # type: ignore[method-assign]
    model.learn(work["total_env_steps"], log_interval=None)  # type: ignore[arg-type]
    return window.report()


def weights(params: Any) -> np.ndarray:
    """flax's tree -> [P] in PyTorch's order"""
    layers = params["params"]
    return in_order([np.asarray(layers[f"Dense_{i}"][k]) for i in range(len(layers)) for k in ("kernel", "bias")])


def one_update(work: dict[str, Any], params: list[float], batch: Mapping[str, Any]) -> dict[str, Any]:
    """One update from `params`, which are the target's too -> its loss, and the parameters after it."""
    model = make(work)
    tensors = iter(transposed(np.array(params, np.float32), (4, *work["hidden"], 2)))
    layers = {f"Dense_{i}": {k: jnp.asarray(next(tensors)) for k in ("kernel", "bias")} for i in range(3)}
    state = model.policy.qf_state.replace(params={"params": layers}, target_params={"params": layers})
    state = state.replace(opt_state=state.tx.init(state.params))
    column = {k: np.array(v, np.float32) for k, v in batch.items()}
    action = np.array(batch["action"])[:, None]
    discount = np.full(len(action), work["gamma"], np.float32)
    after, (loss, _) = DQN.update_qnetwork(
        state, column["obs"], action, column["next_obs"], column["reward"], column["terminated"], discount
    )
    return {"loss": float(loss), "params": weights(after.params).tolist()}


def about() -> dict[str, Any]:
    packages = versions("sbx-rl", "stable-baselines3", "jax", "jaxlib", "flax", "optax", "torch", "numpy", "gymnasium")
    settings = "several updates in one call, no Monitor, no logger, environment checker off, XLA_FLAGS "
    return {
        "versions": packages,
        "torch_threads": torch.get_num_threads(),
        "settings": settings + os.environ["XLA_FLAGS"],
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    jax.config.update("jax_platforms", "cpu")
    serve({"train": train, "first_update": until_first_update(train), "one_update": one_update, "about": about})
