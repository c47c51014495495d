"""One value per cell of a map of any height and width: 3×3 convolutions in residual blocks (He et al. 2016, arXiv
1512.03385, figure 2), never strided, and a 1×1 convolution to one channel. Actions are cells in reading order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from hotloop.core.errors import UserError
from hotloop.core.options import option
from hotloop.core.types import EnvSpec


@dataclass(frozen=True)
class Options:
    channels: int = option(32, "channels of every convolution", ge=1)
    dilations: tuple[int, ...] = option(
        (1, 1, 1), "a residual block of two convolutions for each; above 1 it sees farther at the same cost", ge=1
    )
    norm: Literal["none", "group"] = option("none", "none, or group: GroupNorm after every convolution")
    groups: int = option(8, "groups of channels that are normalised together; must divide channels", ge=1)


# What may stand after a convolution: channels, options -> module, or None for nothing. A norm has a bias of its own,
# so the convolution before it has none.
NORMS: dict[str, Callable[[int, Options], nn.Module | None]] = {
    "none": lambda channels, options: None,
    "group": lambda channels, options: nn.GroupNorm(options.groups, channels),
}


def whole(spec: EnvSpec, options: Options) -> nn.Module:
    """module: parts [B, *seen] float32 -> Q-values [B, A]"""
    shape = spec.observation[0].seen
    if len(spec.observation) != 1 or len(shape) != 3 or shape[1] * shape[2] != spec.num_actions:
        seen = ", ".join("×".join(map(str, f.seen)) or "one number" for f in spec.observation)
        raise UserError(
            f"network residual_cnn needs one map (channels, height, width) and an action per cell; {spec.name} has "
            f"{seen} and {spec.num_actions} actions; use --network mlp"
        )
    if options.norm == "group" and options.channels % options.groups:
        raise UserError(f"option network.groups = {options.groups}: must divide network.channels = {options.channels}")
    return PerCell(spec.observation[0].name, shape[0], options)


class PerCell(nn.Module):
    """The first convolution, the blocks, and a linear map from the channels of a cell to its value."""

    def __init__(self, part: str, planes: int, options: Options) -> None:
        super().__init__()
        self.part = part
        layers = [*_convolution(planes, options, 1), nn.ReLU()]
        layers += [Residual(options, dilation) for dilation in options.dilations]
        self.layers = nn.Sequential(*layers)
        self.value = nn.Conv2d(options.channels, 1, 1)

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        return self.value(self.layers(obs[self.part])).flatten(1)


class Residual(nn.Module):
    """[B, C, H, W] -> the same shape"""

    def __init__(self, options: Options, dilation: int) -> None:
        super().__init__()
        first, second = (_convolution(options.channels, options, dilation) for _ in range(2))
        self.layers = nn.Sequential(*first, nn.ReLU(), *second)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.layers(x))


def _convolution(size_in: int, options: Options, dilation: int) -> list[nn.Module]:
    """A 3×3 convolution that keeps height and width, and its norm."""
    norm = NORMS[options.norm](options.channels, options)
    layer = nn.Conv2d(size_in, options.channels, 3, padding=dilation, dilation=dilation, bias=norm is None)
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")  # He et al. 2015, arXiv 1502.01852, eq. 10
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return [layer] if norm is None else [layer, norm]
