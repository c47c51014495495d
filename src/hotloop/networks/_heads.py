"""Features → what a variant needs per action: one value, or several numbers. Any torso goes with any head. A head is
affine, so the head of a mean is the mean of the heads; QNetwork relies on it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from hotloop.core.options import option


@dataclass(frozen=True)
class Options:
    """What every network has beside its own options."""

    head: Literal["scalar", "dueling"] = option("scalar", "how features become values")
    noisy: bool = option(False, "noisy linear layers: explores by noise whose size is learnt; leave epsilon at 0")
    noisy_sigma: float = option(0.5, "size of the noise at first, relative to that of the weights", gt=0)


@dataclass(frozen=True)
class Outputs:
    """What a variant asks of a network for each action."""

    numbers: int = 0  # Z of [B, A, Z], such as atoms or quantiles; 0: one value, [B, A]
    cosines: int = 0  # above 0: quantiles at fractions that come with the call, seen through so many cosines
    midpoints: int = 0  # equal steps of fractions whose mean is the value where none come with the call


ONE_VALUE = Outputs()


def scalar(features: int, actions: int, numbers: int = 0) -> nn.Module:
    """One linear layer: Q(s, ·)."""
    if numbers:
        return nn.Sequential(nn.Linear(features, actions * numbers), nn.Unflatten(-1, (actions, numbers)))
    return nn.Linear(features, actions)


def dueling(features: int, actions: int, numbers: int = 0) -> nn.Module:
    """V(s) + A(s, ·) − mean A (Wang et al. 2016, arXiv 1511.06581, eq. 9)."""
    return Dueling(features, actions, numbers)


class Dueling(nn.Module):
    def __init__(self, features: int, actions: int, numbers: int = 0) -> None:
        super().__init__()
        self.numbers = numbers
        self.value = nn.Linear(features, max(numbers, 1))
        self.advantage = nn.Linear(features, actions * max(numbers, 1))

    def forward(self, features: Tensor) -> Tensor:
        value, advantage, actions = self.value(features), self.advantage(features), -1
        if self.numbers:  # of each number apart: Hessel et al. 2018, arXiv 1710.02298, section "The Integrated Agent"
            value, advantage, actions = value[..., None, :], advantage.unflatten(-1, (-1, self.numbers)), -2
        return value + advantage - advantage.mean(actions, keepdim=True)


class Fractions(nn.Module):
    """fractions […, N] in [0, 1] -> [..., N, F], what features are multiplied by to become those of a quantile (Dabney
    et al. 2018, arXiv 1806.06923, eq. 4)."""

    frequencies: Tensor
    midpoints: Tensor

    def __init__(self, features: int, cosines: int, midpoints: int) -> None:
        super().__init__()
        self.linear = nn.Linear(cosines, features)
        self.register_buffer("frequencies", math.pi * torch.arange(cosines, dtype=torch.float32), persistent=False)
        self.register_buffer("midpoints", (torch.arange(midpoints) + 0.5) / midpoints, persistent=False)

    def forward(self, fractions: Tensor) -> Tensor:
        return torch.relu(self.linear(torch.cos(fractions[..., None] * self.frequencies)))

    def mean(self) -> Tensor:
        """[F], over the midpoints"""
        return self(self.midpoints).mean(0)


HEADS: dict[str, Callable[..., nn.Module]] = {"scalar": scalar, "dueling": dueling}
