"""The convolutional network of Mnih et al. 2015 (doi 10.1038/nature14236), its layers as options. One part of the
observation is the image; other parts join after the convolutions."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

import torch
from torch import Tensor, nn

from hotloop.core.errors import UserError
from hotloop.core.options import option
from hotloop.core.types import EnvSpec


@dataclass(frozen=True)
class Options:
    channels: tuple[int, ...] = option((32, 64, 64), "output channels of each convolution", ge=1)
    kernels: tuple[int, ...] = option((8, 4, 3), "kernel size of each convolution", ge=1)
    strides: tuple[int, ...] = option((4, 2, 1), "stride of each convolution", ge=1)
    padding: int = option(0, "zero padding on each side of each convolution", ge=0)
    features: int = option(512, "units of the layer after the convolutions", ge=1)
    norm: Literal["none", "batch", "group"] = option(
        "none", "none; batch: BatchNorm by the batch when learning, by what was gathered when acting; group: GroupNorm"
    )
    groups: int = option(8, "groups of channels that GroupNorm takes together; must divide the channels", ge=1)
    init: Literal["torch", "he"] = option("torch", "torch: as its layers come; he: He et al. 2015, for ReLU")
    channels_last: bool = option(False, "lay pixels out with their channels side by side")


def torso(spec: EnvSpec, options: Options) -> tuple[nn.Module, int]:
    """(module: parts [B, *seen] float32 -> features [B, F], F)"""
    images = [f for f in spec.observation if len(f.seen) >= 3]
    if len(images) != 1:
        raise UserError(
            f"network nature_cnn needs one image part (channels, height, width); {spec.name} has {len(images)}; "
            "use --network mlp"
        )
    if not len(options.channels) == len(options.kernels) == len(options.strides):
        raise UserError("network options channels, kernels and strides must have the same length")
    *lead, height, width = images[0].seen
    size_in, layers = prod(lead), []
    for size_out, kernel, stride in zip(options.channels, options.kernels, options.strides, strict=True):
        height = (height + 2 * options.padding - kernel) // stride + 1
        width = (width + 2 * options.padding - kernel) // stride + 1
        if min(height, width) < 1:
            raise UserError(
                f"network nature_cnn: an image of {images[0].seen[-2]}×{images[0].seen[-1]} is too small for "
                f"kernels {options.kernels} with strides {options.strides}; set --network.kernels and .strides"
            )
        layers += [*_convolution(size_in, size_out, kernel, stride, options), nn.ReLU()]
        size_in = size_out
    rest = sum(prod(f.seen) for f in spec.observation if f is not images[0])
    flat = size_in * height * width + rest
    linear = nn.Linear(flat, options.features)
    if options.init == "he":
        _he(linear)
    return ImageTorso(images[0].name, layers, linear, options.channels_last), options.features


def _convolution(size_in: int, size_out: int, kernel: int, stride: int, options: Options) -> list[nn.Module]:
    """A convolution and its norm, which brings a bias of its own."""
    if options.norm == "group" and size_out % options.groups:
        raise UserError(f"option network.groups = {options.groups}: must divide network.channels = {options.channels}")
    layer = nn.Conv2d(size_in, size_out, kernel, stride, options.padding, bias=options.norm == "none")
    if options.init == "he":
        _he(layer)
    if options.norm == "batch":
        return [layer, nn.BatchNorm2d(size_out)]
    return [layer, nn.GroupNorm(options.groups, size_out)] if options.norm == "group" else [layer]


def _he(layer: nn.Conv2d | nn.Linear) -> None:
    """He et al. 2015, arXiv 1502.01852, eq. 10."""
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


class ImageTorso(nn.Module):
    """Convolutions over one part, a linear layer over their output and all other parts."""

    def __init__(self, image: str, layers: list[nn.Module], linear: nn.Linear, channels_last: bool) -> None:
        super().__init__()
        self.image, self.channels_last = image, channels_last
        self.layers = nn.Sequential(*layers)
        self.linear = linear

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        image = obs[self.image]
        if image.dim() > 4:  # stacked colour frames: stack and channels become one axis
            image = image.flatten(1, -3)
        if self.channels_last:
            image = image.contiguous(memory_format=torch.channels_last)
        rest = [p.reshape(p.shape[0], -1) for name, p in obs.items() if name != self.image]
        flat = [self.layers(image).flatten(1), *rest]
        return torch.relu(self.linear(flat[0] if len(flat) == 1 else torch.cat(flat, 1)))
