"""DQN in one file of PyTorch, as people write it: an environment, a replay of NumPy arrays, a loop, an update, Adam. No
lanes of its own: where several are asked for, they are stepped one after the other and acted for at once."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from bench.counting import Window, counting_rows, counting_steps, counting_updates, until_first_update
from bench.measure import serve, versions

Batch = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


class QNetwork(nn.Module):
    def __init__(self, sizes: list[int], activation: str, layer_norm: bool) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for size_in, size_out in pairwise(sizes[:-1]):
            layers.append(nn.Linear(size_in, size_out))
            if layer_norm:
                layers.append(nn.LayerNorm(size_out))
            layers.append({"relu": nn.ReLU, "selu": nn.SELU}[activation]())
        self.layers = nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))

    def forward(self, obs: Tensor) -> Tensor:
        return self.layers(obs)


class Replay:
    """One row per transition, of one lane after the other."""

    def __init__(self, capacity: int, lanes: int, obs: int, n_step: int, gamma: float) -> None:
        self.obs = np.zeros((capacity // lanes, lanes, obs), np.float32)
        self.next_obs = np.zeros_like(self.obs)
        self.action = np.zeros(self.obs.shape[:2], np.int64)
        self.reward, self.terminated, self.over = (np.zeros(self.obs.shape[:2], np.float32) for _ in range(3))
        self.at = self.size = 0
        self.n_step, self.gamma = n_step, gamma

    def add(self, lane: int, *row: Any) -> None:
        fields = (self.obs, self.action, self.reward, self.next_obs, self.terminated, self.over)
        for field, value in zip(fields, row, strict=True):
            field[self.at, lane] = value

    def advance(self) -> None:
        self.at = (self.at + 1) % len(self.obs)
        self.size = min(self.size + 1, len(self.obs))

    def sample(self, batch: int) -> Batch:
        """obs, action, return of n steps, what it bootstraps from, and with which discount."""
        t = np.random.randint(0, self.size - self.n_step + 1, batch)
        t = (t + (self.at if self.size == len(self.obs) else 0)) % len(self.obs)
        lane = np.random.randint(0, self.obs.shape[1], batch)
        obs, action = self.obs[t, lane], self.action[t, lane]
        returns, weight = self.reward[t, lane].copy(), np.full(batch, self.gamma, np.float32)
        next_obs, ended, over = self.next_obs[t, lane], self.terminated[t, lane].copy(), self.over[t, lane].copy()
        for k in range(1, self.n_step):
            i = (t + k) % len(self.obs)
            on = over == 0
            returns[on] += weight[on] * self.reward[i, lane][on]
            next_obs[on], ended[on] = self.next_obs[i, lane][on], self.terminated[i, lane][on]
            weight[on] *= self.gamma
            over[on] = self.over[i, lane][on]
        arrays = (obs, action, returns, next_obs, weight * (1 - ended))
        return tuple(torch.from_numpy(a.astype(d)) for a, d in zip(arrays, DTYPES, strict=True))  # type: ignore


DTYPES = (np.float32, np.int64, np.float32, np.float32, np.float32)


class Agent:
    def __init__(self, work: Mapping[str, Any]) -> None:
        """work: the terms of the comparison, in the words of stages/_cartpole.py."""
        torch.manual_seed(work["seed"])
        np.random.seed(work["seed"])
        sizes, norm = [4, *work["hidden"], 2], work.get("layer_norm", False)
        self.net, self.target = (QNetwork(sizes, work.get("activation", "relu"), norm) for _ in range(2))
        self.target.load_state_dict(self.net.state_dict())
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=work["learning_rate"], fused=True)
        self.work, self.updates, self.double = work, 0, work.get("double", False)
        self.loss = nn.functional.mse_loss if work.get("loss") == "mse" else nn.functional.smooth_l1_loss
        self.tau = work.get("target_tau", 1.0)

    def act(self, obs: np.ndarray, epsilon: float) -> np.ndarray:
        """[N, 4] -> [N]; one coin for each lane, and no forward pass where all explore."""
        explores = np.random.rand(len(obs)) < epsilon
        action = np.random.randint(0, 2, len(obs))
        if not explores.all():
            with torch.no_grad():
                greedy = self.net(torch.from_numpy(obs)).argmax(1).numpy()
            action = np.where(explores, action, greedy)
        return action

    def update(self, batch: Batch) -> Tensor:
        obs, action, returns, next_obs, discount = batch
        with torch.no_grad():
            value = self.target(next_obs)
            if self.double:
                value = value.gather(1, self.net(next_obs).argmax(1, keepdim=True)).squeeze(1)
            else:
                value = value.max(1).values
            wanted = returns + discount * value
        loss = self.loss(self.net(obs).gather(1, action[:, None]).squeeze(1), wanted)
        self.optimizer.zero_grad()
        loss.backward()
        if self.work["max_grad_norm"]:
            nn.utils.clip_grad_norm_(self.net.parameters(), self.work["max_grad_norm"])
        self.optimizer.step()
        self.updates += 1
        if self.updates % self.work["target_every_updates"] == 0:
            for own, slow in zip(self.net.parameters(), self.target.parameters(), strict=True):
                slow.data.lerp_(own.data, self.tau)
        return loss


def train(work: dict[str, Any]) -> dict[str, Any]:
    """One run -> its learning phase."""
    agent, lanes = Agent(work), work["lanes"]
    parameters = list(agent.net.parameters())
    window = Window(work, lambda: nn.utils.parameters_to_vector(parameters).detach().numpy())
    envs = [gymnasium.make("CartPole-v1", disable_env_checker=True) for _ in range(lanes)]
    replay = Replay(work["capacity"], lanes, 4, work.get("n_step", 1), work["gamma"])
    steps = [counting_steps(env.step, window, 1) for env in envs]
    replay.sample = counting_rows(replay.sample, window, lambda b: len(b[0]))
    agent.optimizer.step = counting_updates(agent.optimizer.step, window)

    (start, end), decay = work["epsilon"], work["epsilon_decay"]
    total, every, at_once = work["total_env_steps"], work["env_steps_per_update"], work.get("updates_at_once", 1)
    all_updates, rate_end = (total - work["learning_starts"]) // every, work.get("learning_rate_end", -1.0)
    obs = np.stack([env.reset(seed=work["seed"] + i)[0] for i, env in enumerate(envs)])
    due = 0.0
    for t in range(0, total, lanes):
        action = agent.act(obs, start + (end - start) * min(1.0, t / decay))
        for i, step in enumerate(steps):
            next_obs, reward, terminated, truncated, _ = step(action[i])
            replay.add(i, obs[i], action[i], reward, next_obs, terminated, terminated or truncated)
            obs[i] = envs[i].reset()[0] if terminated or truncated else next_obs
        replay.advance()
        if t < work["learning_starts"]:
            continue
        due += lanes / every
        while due >= at_once:
            due -= at_once
            for _ in range(at_once):
                if rate_end >= 0:
                    done = min(1.0, agent.updates / max(all_updates - 1, 1))
                    rate = work["learning_rate"] + (rate_end - work["learning_rate"]) * done
                    agent.optimizer.param_groups[0]["lr"] = rate
                agent.update(replay.sample(work["batch"]))
    return window.report()


def one_update(work: dict[str, Any], params: list[float], batch: Mapping[str, Any]) -> dict[str, Any]:
    """One update from `params`, which are the target's too -> its loss, and the parameters after it."""
    agent = Agent(work)
    nn.utils.vector_to_parameters(torch.tensor(params), agent.net.parameters())
    agent.target.load_state_dict(agent.net.state_dict())
    discount = work["gamma"] * (1 - np.array(batch["terminated"]))
    columns = (batch["obs"], batch["action"], batch["reward"], batch["next_obs"], discount)
    tensors = tuple(torch.from_numpy(np.array(c, d)) for c, d in zip(columns, DTYPES, strict=True))
    loss = agent.update(tensors).detach()  # type: ignore[arg-type]
    return {"loss": float(loss), "params": nn.utils.parameters_to_vector(agent.net.parameters()).tolist()}


def about() -> dict[str, Any]:
    settings = "one thread, fused Adam, no logger, environment checker off"
    packages = versions("torch", "numpy", "gymnasium")
    return {"versions": packages, "torch_threads": torch.get_num_threads(), "settings": settings}


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve({"train": train, "first_update": until_first_update(train), "one_update": one_update, "about": about})
