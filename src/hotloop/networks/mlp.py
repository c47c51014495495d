"""A multi-layer perceptron over every part of the observation, flattened and concatenated."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Literal

import torch
from torch import Tensor, nn

from hotloop.core.options import option
from hotloop.core.types import EnvSpec

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "silu": nn.SiLU, "selu": nn.SELU, "gelu": nn.GELU}


@dataclass(frozen=True)
class Options:
    hidden: tuple[int, ...] = option((128, 128), "units of each hidden layer", ge=1)
    activation: Literal["relu", "tanh", "silu", "selu", "gelu"] = option("relu", "non-linearity after each layer")
    layer_norm: bool = option(False, "LayerNorm before each non-linearity")


def torso(spec: EnvSpec, options: Options) -> tuple[nn.Module, int]:
    """(module: parts [B, *seen] float32 -> features [B, F], F)"""
    sizes = (sum(prod(f.seen) for f in spec.observation), *options.hidden)
    layers: list[nn.Module] = []
    for size_in, size_out in pairwise(sizes):
        layers.append(nn.Linear(size_in, size_out))
        if options.layer_norm:
            layers.append(nn.LayerNorm(size_out))
        layers.append(ACTIVATIONS[options.activation]())
    return Flat(layers), sizes[-1]


class Flat(nn.Module):
    """parts [B, *seen] -> layers([B, sum of sizes])"""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        flat = [part.reshape(part.shape[0], -1) for part in obs.values()]  # a part may be one number per row
        return self.layers(flat[0] if len(flat) == 1 else torch.cat(flat, 1))
