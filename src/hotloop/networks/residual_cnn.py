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
    pool: bool = option(False, "let every cell know means and maxima over the whole map, and add a value of the whole")
    shortcut: bool = option(
        False,
        "add to a cell's value the sum of its own observation, weighted by what the layers make of what surrounds it",
    )
    norm: Literal["none", "batch", "group"] = option(
        "none", "none; batch: BatchNorm by the batch when learning, by what was gathered when acting; group: GroupNorm"
    )
    groups: int = option(8, "groups of channels that GroupNorm takes together; must divide channels", ge=1)


# What may stand after a convolution: channels, options -> module, or None for nothing. A norm has a bias of its own,
# so the convolution before it has none.
NORMS: dict[str, Callable[[int, Options], nn.Module | None]] = {
    "none": lambda channels, options: None,
    "batch": lambda channels, options: nn.BatchNorm2d(channels),
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
    """The first convolution, the blocks, perhaps the whole map, and a linear map from what a cell has to its value."""

    def __init__(self, part: str, planes: int, options: Options) -> None:
        super().__init__()
        self.part = part
        layers = [*_convolution(planes, options, 1), nn.ReLU()]
        layers += [Residual(options, dilation) for dilation in options.dilations]
        self.layers = nn.Sequential(*layers)
        self.pool = Pool(options.channels) if options.pool else None
        self.value = nn.Conv2d(options.channels, 1, 1)
        self.weights = nn.Conv2d(options.channels, planes, 1) if options.shortcut else None
        for layer in (self.value, self.weights):  # no cell begins as much better than another by luck
            if layer is not None:
                _hush(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        seen = obs[self.part]
        cells, whole = self.layers(seen), None
        if self.pool is not None:
            cells, whole = self.pool(cells)
        values = self.value(cells)
        if self.weights is not None:
            values = values + (self.weights(cells) * seen).sum(1, keepdim=True)
        return values.flatten(1) if whole is None else values.flatten(1) + whole


class Pool(nn.Module):
    """[B, C, H, W] -> the same shape, each cell with what is known of the whole map; [B, 1], the value of the whole.
    After Wu 2019 (arXiv 1902.10565, section 3.3); the size of the map does not change the scale."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.whole, self.value = nn.Linear(2 * channels, channels), nn.Linear(channels, 1)
        self.cell, self.told = nn.Conv2d(channels, channels, 1), nn.Linear(channels, channels, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        whole = torch.relu(self.whole(torch.cat([x.mean((2, 3)), x.amax((2, 3))], 1)))
        return torch.relu(self.cell(x) + self.told(whole)[:, :, None, None]), self.value(whole)


class Residual(nn.Module):
    """[B, C, H, W] -> the same shape"""

    def __init__(self, options: Options, dilation: int) -> None:
        super().__init__()
        first, second = (_convolution(options.channels, options, dilation) for _ in range(2))
        _hush(second[-1].weight)  # a block begins as next to nothing: Goyal et al. 2017, arXiv 1706.02677, 5.1
        self.layers = nn.Sequential(*first, nn.ReLU(), *second)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.layers(x))


def _hush(weight: Tensor) -> None:
    """Small enough to say nothing yet, and not 0, where nothing before it would have a gradient."""
    with torch.no_grad():
        weight *= 0.01


def _convolution(size_in: int, options: Options, dilation: int) -> list[nn.Module]:
    """A 3×3 convolution that keeps height and width, and its norm."""
    norm = NORMS[options.norm](options.channels, options)
    layer = nn.Conv2d(size_in, options.channels, 3, padding=dilation, dilation=dilation, bias=norm is None)
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")  # He et al. 2015, arXiv 1502.01852, eq. 10
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return [layer] if norm is None else [layer, norm]
