"""A DQN update as people write it in PyTorch: preallocated tensors indexed at random, online and target forward,
Huber, backward, fused Adam, a copy of the target now and then."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn


class EagerDQN:
    def __init__(self, sizes: tuple[int, ...], learning_rate: float, gamma: float, target_every: int) -> None:
        """sizes: observation, hidden layers, actions."""
        self.net, self.target = _mlp(sizes), _mlp(sizes)
        self.target.load_state_dict(self.net.state_dict())
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=learning_rate, fused=True)
        self.gamma, self.target_every, self.updates = gamma, target_every, 0

    def remember(self, obs: Tensor, action: Tensor, reward: Tensor, next_obs: Tensor, terminated: Tensor) -> None:
        """The replay: one row per transition."""
        self.obs, self.action, self.reward, self.next_obs = obs, action, reward, next_obs
        self.going_on = 1.0 - terminated

    def learn(self, updates: int, batch: int) -> None:
        for _ in range(updates):
            self.update(torch.randint(0, len(self.obs), (batch,)))

    def update(self, index: Tensor) -> Tensor:
        """One update from the transitions `index` [B] -> loss."""
        with torch.no_grad():
            next_value = self.target(self.next_obs[index]).max(1).values
            wanted = self.reward[index] + self.gamma * self.going_on[index] * next_value
        q = self.net(self.obs[index]).gather(1, self.action[index, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(q, wanted)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.updates += 1
        if self.updates % self.target_every == 0:
            self.target.load_state_dict(self.net.state_dict())
        return loss.detach()


def _mlp(sizes: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for size_in, size_out in pairwise(sizes):
        layers += [nn.Linear(size_in, size_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
