"""Parameters as one flat vector with named views: the optimizer is one kernel, publishing weights one copy, a
checkpoint one tensor. The network stays an ordinary nn.Module, called with its parameters given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn
from torch.func import functional_call

Forward = Callable[[Sequence[Tensor], dict[str, Tensor]], Tensor]


@dataclass(frozen=True)
class Layout:
    """Where each parameter lies in the flat vector."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """P"""
        return sum(prod(s) for s in self.shapes)

    def views(self, flat: Tensor) -> list[Tensor]:
        """[P] -> one view per parameter"""
        pieces = torch.split(flat, [prod(s) for s in self.shapes])
        return [piece.view(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]

    def flat(self, tensors: Sequence[Tensor]) -> Tensor:
        """The inverse: one tensor per parameter -> [P]"""
        return torch.cat([t.reshape(-1) for t in tensors])


def layout_of(network: nn.Module) -> Layout:
    named = list(network.named_parameters())
    return Layout(tuple(n for n, _ in named), tuple(tuple(p.shape) for _, p in named))


def initial(network: nn.Module) -> Tensor:
    """[P] float32: the network's parameters as they were initialised, on storage of their own."""
    return torch.cat([p.detach().reshape(-1) for p in network.parameters()])


def forward_of(network: nn.Module, layout: Layout) -> Forward:
    """(views, parts [B, *seen]) -> output [B, …], without touching the module's own parameters."""

    def forward(views: Sequence[Tensor], obs: dict[str, Tensor]) -> Tensor:
        return functional_call(network, dict(zip(layout.names, views, strict=True)), (obs,))

    return forward
