"""Features → Q-values. Any torso goes with any head."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn


def scalar(features: int, actions: int) -> nn.Module:
    """One linear layer: Q(s, ·)."""
    return nn.Linear(features, actions)


def dueling(features: int, actions: int) -> nn.Module:
    """V(s) + A(s, ·) − mean A (Wang et al. 2016, arXiv 1511.06581, eq. 9)."""
    return Dueling(features, actions)


class Dueling(nn.Module):
    def __init__(self, features: int, actions: int) -> None:
        super().__init__()
        self.value = nn.Linear(features, 1)
        self.advantage = nn.Linear(features, actions)

    def forward(self, features: Tensor) -> Tensor:
        advantage = self.advantage(features)
        return self.value(features) + advantage - advantage.mean(-1, keepdim=True)


HEADS: dict[str, Callable[[int, int], nn.Module]] = {"scalar": scalar, "dueling": dueling}
