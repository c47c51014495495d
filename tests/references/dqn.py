"""DQN and Double DQN as a textbook writes them: modules, autograd, torch.optim, one update after another. Shares
nothing with hotloop; slow, and meant to be read."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class MLP(nn.Module):
    """One hidden layer; its parameters in the order of definition are those of network mlp with the same head."""

    def __init__(self, size: int, hidden: int, actions: int, dueling: bool) -> None:
        super().__init__()
        self.hidden = nn.Linear(size, hidden)
        self.value = nn.Linear(hidden, 1) if dueling else None
        self.advantage = nn.Linear(hidden, actions)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.hidden(x))
        if self.value is None:
            return self.advantage(x)
        a = self.advantage(x)
        return self.value(x) + (a - a.mean(dim=1, keepdim=True))


def load(network: nn.Module, flat: Tensor) -> None:
    """[P] -> the parameters, in their order of definition."""
    torch.nn.utils.vector_to_parameters(flat.clone(), network.parameters())


def train(
    network: nn.Module,
    batches: Iterable[Mapping[str, Tensor]],
    optimizer: torch.optim.Optimizer,
    *,
    double: bool,
    mse: bool,
    delta: float,
    clip: float,
    every: int,
    tau: float,
) -> tuple[list[float], list[Tensor], nn.Module]:
    """-> (loss of each update, |TD error| [B] of each update, target network). Trains `network` in place."""
    target_network = copy.deepcopy(network)
    losses, errors = [], []
    for number, b in enumerate(batches, start=1):
        with torch.no_grad():
            next_q = target_network(b["next_obs"])
            judge = network(b["next_obs"]) if double else next_q
            best = judge.masked_fill(~b["next_mask"], -torch.inf).argmax(dim=1)
            value = next_q[torch.arange(len(best)), best]
            goal = b["reward"] + b["discount"] * value
        q = network(b["obs"])[torch.arange(len(goal)), b["action"]]
        if mse:
            each = (q - goal) ** 2
        else:
            each = F.huber_loss(q, goal, reduction="none", delta=delta)
        loss = (b["weight"] * each).mean()
        optimizer.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(network.parameters(), clip)
        optimizer.step()
        if number % every == 0:
            with torch.no_grad():
                for theirs, ours in zip(target_network.parameters(), network.parameters(), strict=True):
                    theirs.mul_(1 - tau).add_(tau * ours)
        losses.append(loss.item())
        errors.append((goal - q).detach().abs())
    return losses, errors, target_network
