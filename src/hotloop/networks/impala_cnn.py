"""The residual network of IMPALA (Espeholt et al. 2018, arXiv 1802.01561, figure 3, the large one): sections of a
convolution, a max-pooling that halves the map, and residual blocks. Spectral normalisation of the blocks, pooling to a
fixed size and a width are those of BTR (Clark et al. 2024, arXiv 2411.03820)."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hotloop.core.options import option
from hotloop.core.types import EnvSpec
from hotloop.networks._image import ImageTorso, beside, image_of


@dataclass(frozen=True)
class Options:
    channels: tuple[int, ...] = option((16, 32, 32), "channels of each section", ge=1)
    width: int = option(1, "all channels times this", ge=1)
    blocks: int = option(2, "residual blocks of two convolutions in each section", ge=0)
    spectral: bool = option(False, "divide the weights of residual convolutions by their greatest singular value")
    pool: int = option(0, "cells along each side of the map that a last max-pooling leaves; 0: none", ge=0)
    features: int = option(256, "units of the layer after the convolutions", ge=1)
    channels_last: bool = option(True, "lay pixels out with their channels side by side")


def torso(spec: EnvSpec, options: Options) -> tuple[nn.Module, int]:
    """(module: parts [B, *seen] float32 -> features [B, F], F)"""
    image = image_of(spec, "impala_cnn")
    *lead, height, width = image.seen
    size_in, layers = prod(lead), []
    for channels in options.channels:
        size_out = channels * options.width
        layers += [nn.Conv2d(size_in, size_out, 3, padding=1), nn.MaxPool2d(3, stride=2, padding=1)]
        layers += [Residual(size_out, options.spectral) for _ in range(options.blocks)]
        size_in, height, width = size_out, (height + 1) // 2, (width + 1) // 2
    layers.append(nn.ReLU())
    if options.pool:
        layers.append(nn.AdaptiveMaxPool2d(options.pool))
        height = width = options.pool
    linear = nn.Linear(size_in * height * width + beside(spec, image), options.features)
    return ImageTorso(image.name, layers, linear, options.channels_last), options.features


class Residual(nn.Module):
    """[B, C, H, W] -> the same shape"""

    def __init__(self, channels: int, spectral: bool) -> None:
        super().__init__()
        make = Spectral if spectral else nn.Conv2d
        self.first, self.second = (make(channels, channels, 3, padding=1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(torch.relu(self.first(torch.relu(x))))


class Spectral(nn.Conv2d):
    """A convolution whose weights, as a matrix [out, in · height · width], have 1 as their greatest singular value
    (Miyato et al. 2018, arXiv 1802.05957, algorithm 1). The vector that finds it goes one step of the power method
    whenever the network learns. It is gathered, so it travels with the weights, and acting finds the same value."""

    STEPS = 15  # of the power method, before the first update

    def __init__(self, *args: int, **more: int) -> None:
        super().__init__(*args, **more)
        with torch.no_grad():
            u = F.normalize(torch.randn(self.out_channels), dim=0)
            for _ in range(self.STEPS):
                u = self._closer(u)[0]
        self.register_buffer("u", u)

    def _closer(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """One step: the left singular vector [out] from a guess, and the right one [in · height · width] for it."""
        matrix = self.weight.flatten(1)
        v = F.normalize(matrix.t() @ u, dim=0)
        return F.normalize(matrix @ v, dim=0), v

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            u, v = self._closer(self.u)
            if self.training:
                self.u.copy_(u)
        greatest = u @ (self.weight.flatten(1) @ v)
        return self._conv_forward(x, self.weight / greatest, self.bias)
