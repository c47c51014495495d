"""Parameters as one flat vector with named views: the optimizer is one kernel, publishing weights one copy, a
checkpoint one tensor. The network stays an ordinary nn.Module, called with its parameters given. Statistics that a
network gathers while it learns (BatchNorm) lie behind the parameters, so they go wherever the weights go. Noise is
given with each call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn
from torch.func import functional_call

from hotloop.networks._noisy import buffers

# (views, parts, fractions = None, noise = None): fractions for networks that are asked for quantiles, noise [K] for
# noisy ones, which act by their mean weights without it.
Forward = Callable[..., Tensor]
LearningForward = Callable[..., "tuple[Tensor, list[Tensor]]"]

_COUNT = "num_batches_tracked"


@dataclass(frozen=True)
class Layout:
    """Where each tensor lies in the flat vector: first what is trained, then what is gathered."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    trained: int  # so many of them, from the first on, have gradients
    noise: tuple[str, ...] = ()  # buffers that take noise, and their sizes
    noise_sizes: tuple[int, ...] = ()

    @property
    def noise_size(self) -> int:
        """K, numbers of noise that a call takes; 0 where no layer is noisy."""
        return sum(self.noise_sizes)

    def noisy(self, noise: Tensor | None) -> dict[str, Tensor]:
        """[K] -> what each buffer gets"""
        return {} if noise is None else dict(zip(self.noise, noise.split(self.noise_sizes), strict=True))

    @property
    def size(self) -> int:
        """P"""
        return sum(prod(s) for s in self.shapes)

    @property
    def trained_size(self) -> int:
        """Numbers that have gradients."""
        return sum(prod(s) for s in self.shapes[: self.trained])

    def views(self, flat: Tensor) -> list[Tensor]:
        """[P] -> one view per tensor"""
        pieces = torch.split(flat, [prod(s) for s in self.shapes])
        return [piece.view(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]

    def flat(self, tensors: Sequence[Tensor]) -> Tensor:
        """The inverse: tensors, or the first ones of them -> their part of [P]"""
        return torch.cat([t.reshape(-1) for t in tensors])


def layout_of(network: nn.Module) -> Layout:
    named = _tensors(network)
    shapes = tuple(tuple(t.shape) for t in named.values())
    noise = buffers(network)
    sizes = tuple(network.get_buffer(name).numel() for name in noise)
    return Layout(tuple(named), shapes, len(named) - len(gathered(network)), noise, sizes)


def initial(network: nn.Module) -> Tensor:
    """[P] float32: the network's tensors as they were initialised, on storage of their own."""
    return torch.cat([t.detach().reshape(-1) for t in _tensors(network).values()])


def gathered(network: nn.Module) -> tuple[str, ...]:
    """Names of the statistics that a forward pass changes while learning; QNetwork knows its own."""
    return getattr(network, "gathered", ())


def _tensors(network: nn.Module) -> dict[str, Tensor]:
    buffers = dict(network.named_buffers())
    return dict(network.named_parameters()) | {name: buffers[name] for name in gathered(network)}


def forward_of(network: nn.Module, layout: Layout) -> Forward:
    """(views, parts [B, *seen]) -> output [B, …], without touching the module's own tensors."""

    def forward(
        views: Sequence[Tensor], obs: dict[str, Tensor], fractions: Tensor | None = None, noise: Tensor | None = None
    ) -> Tensor:
        given = dict(zip(layout.names, views, strict=True)) | layout.noisy(noise)
        return functional_call(network, given, (obs,) if fractions is None else (obs, fractions))

    return forward


def learning_forward_of(network: nn.Module, layout: Layout) -> LearningForward:
    """As forward_of -> (output, statistics after it). Only what gathers statistics is in training mode, so that
    nothing else, such as dropout, makes learning differ from acting."""
    plain = forward_of(network, layout)
    if layout.trained == len(layout.names):
        return lambda *given: (plain(*given), [])
    names = gathered(network)
    paths = dict.fromkeys(name.rpartition(".")[0] for name in names)
    owners = [network.get_submodule(path) for path in paths]
    # BatchNorm counts its batches, for an option that nobody has asked for; given zeros, it leaves its own count alone.
    counted = [f"{path}.{_COUNT}" for path in paths if hasattr(network.get_submodule(path), _COUNT)]

    def forward(
        views: Sequence[Tensor], obs: dict[str, Tensor], fractions: Tensor | None = None, noise: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        room = {name: view.clone() for name, view in zip(names, views[layout.trained :], strict=True)}
        counters = {name: torch.zeros((), dtype=torch.int64) for name in counted}
        given = dict(zip(layout.names[: layout.trained], views[: layout.trained], strict=True)) | counters | room
        given |= layout.noisy(noise)
        for owner in owners:
            owner.training = True
        try:
            output = functional_call(network, given, (obs,) if fractions is None else (obs, fractions))
        finally:
            for owner in owners:
                owner.training = False
        return output, list(room.values())

    return forward
