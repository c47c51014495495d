"""Networks as a user would write them, the good and the wrong, reached as `tests.references.user_network:name`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hotloop.core.types import EnvSpec


def small(spec: EnvSpec, width: int = 24) -> nn.Module:
    """Takes the observation itself, since it has one part."""
    (size,) = spec.observation[0].seen
    return nn.Sequential(nn.Linear(size, width), nn.LayerNorm(width), nn.SiLU(), nn.Linear(width, spec.num_actions))


class Parts(nn.Module):
    """Takes a dict, since there are several parts. Holds a constant and a parameter that nothing depends on."""

    scale: Tensor

    def __init__(self, spec: EnvSpec) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({f.name: nn.Linear(f.seen[0], spec.num_actions) for f in spec.observation})
        self.register_buffer("scale", torch.tensor(0.5))
        self.unused = nn.Parameter(torch.ones(3))

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        return self.scale * torch.stack([layer(obs[name]) for name, layer in self.layers.items()]).sum(0)


class Tied(nn.Module):
    """One layer used twice under two names."""

    def __init__(self, spec: EnvSpec) -> None:
        super().__init__()
        (size,) = spec.observation[0].seen
        self.first = nn.Linear(size, size)
        self.second = self.first
        self.last = nn.Linear(size, spec.num_actions)

    def forward(self, obs: Tensor) -> Tensor:
        return self.last(torch.tanh(self.second(torch.tanh(self.first(obs)))))


def held(spec: EnvSpec) -> nn.Module:
    network = small(spec)
    network[0].requires_grad_(False)
    return network


def too_wide(spec: EnvSpec) -> nn.Module:
    return nn.Linear(spec.observation[0].seen[0], spec.num_actions + 1)


def too_narrow_inside(spec: EnvSpec) -> nn.Module:
    return nn.Linear(spec.observation[0].seen[0] + 1, spec.num_actions)


def no_parameters(spec: EnvSpec) -> nn.Module:
    return nn.Identity()


def in_double(spec: EnvSpec) -> nn.Module:
    return small(spec).double()


def not_a_module(spec: EnvSpec) -> object:
    return lambda obs: obs


def fails(spec: EnvSpec) -> nn.Module:
    raise ValueError("no such layer\nas a second line says")


class Pair(nn.Module):
    def __init__(self, spec: EnvSpec) -> None:
        super().__init__()
        self.inner = small(spec)

    def forward(self, obs: Tensor) -> tuple[Tensor, None]:
        return self.inner(obs), None


not_callable = 3


def several(spec: EnvSpec, numbers: int) -> nn.Module:
    """For a variant that asks for so many numbers per action."""
    (size,) = spec.observation[0].seen
    actions = spec.num_actions
    last = nn.Linear(16, actions * numbers)
    return nn.Sequential(nn.Linear(size, 16), nn.Tanh(), last, nn.Unflatten(1, (actions, numbers)))
