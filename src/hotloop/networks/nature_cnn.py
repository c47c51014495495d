"""The convolutional network of Mnih et al. 2015 (doi 10.1038/nature14236), its layers as options. One part of the
observation is the image; other parts join after the convolutions."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

from torch import nn

from hotloop.core.errors import UserError
from hotloop.core.options import option
from hotloop.core.types import EnvSpec
from hotloop.networks._image import ImageTorso, beside, image_of


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
    image = image_of(spec, "nature_cnn")
    if not len(options.channels) == len(options.kernels) == len(options.strides):
        raise UserError("network options channels, kernels and strides must have the same length")
    *lead, height, width = image.seen
    size_in, layers = prod(lead), []
    for size_out, kernel, stride in zip(options.channels, options.kernels, options.strides, strict=True):
        height = (height + 2 * options.padding - kernel) // stride + 1
        width = (width + 2 * options.padding - kernel) // stride + 1
        if min(height, width) < 1:
            raise UserError(
                f"network nature_cnn: an image of {image.seen[-2]}×{image.seen[-1]} is too small for "
                f"kernels {options.kernels} with strides {options.strides}; set --network.kernels and .strides"
            )
        layers += [*_convolution(size_in, size_out, kernel, stride, options), nn.ReLU()]
        size_in = size_out
    linear = nn.Linear(size_in * height * width + beside(spec, image), options.features)
    if options.init == "he":
        _he(linear)
    return ImageTorso(image.name, layers, linear, options.channels_last), options.features


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
