"""Linear layers whose weights move by noise of learnt size (Fortunato et al. 2018, arXiv 1706.10295), and the noise
itself. A layer holds none: it comes with each call, and where it does not, the layer acts by its mean weights."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hotloop.core.jit import kernel
from hotloop.core.random import uniform

NAMES = ("noise_in", "noise_out")


class NoisyLinear(nn.Module):
    """(μ^w + σ^w ⊙ ε^w) x + μ^b + σ^b ⊙ ε^b with factorised noise: eqs. 9 to 11."""

    noise_in: Tensor
    noise_out: Tensor

    def __init__(self, linear: nn.Linear, sigma: float) -> None:
        super().__init__()
        size_out, size_in = linear.weight.shape
        self.weight, self.bias = linear.weight, linear.bias
        start = sigma / math.sqrt(size_in)  # section 3.2
        self.weight_sigma = nn.Parameter(torch.full((size_out, size_in), start))
        self.bias_sigma = None if linear.bias is None else nn.Parameter(torch.full((size_out,), start))
        self.register_buffer("noise_in", torch.zeros(size_in), persistent=False)
        self.register_buffer("noise_out", torch.zeros(size_out), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight + self.weight_sigma * (self.noise_out[:, None] * self.noise_in)
        if self.bias is None or self.bias_sigma is None:
            return F.linear(x, weight)
        return F.linear(x, weight, self.bias + self.bias_sigma * self.noise_out)


def with_noise(module: nn.Module, sigma: float) -> nn.Module:
    """The module with every linear layer in it noisy. One that is used in two places stays one."""
    made: dict[nn.Module, NoisyLinear] = {}

    def noisy(layer: nn.Module) -> nn.Module:
        if type(layer) is nn.Linear:
            return made.setdefault(layer, NoisyLinear(layer, sigma))
        for name, child in layer._modules.items():
            if child is not None:
                layer._modules[name] = noisy(child)
        return layer

    return noisy(module)


def buffers(module: nn.Module) -> tuple[str, ...]:
    """Names of the buffers that take noise."""
    layers = {name: layer for name, layer in module.named_modules() if isinstance(layer, NoisyLinear)}
    return tuple(f"{name}.{which}" for name in layers for which in NAMES)


@kernel
def fill(key, step, out):
    """out [..., K] float32 <- sgn(ε)·√|ε| of standard normal ε, section 3.1 (b). Two of each Box-Muller pair."""
    flat = out.reshape(-1)
    for i in range(0, flat.shape[0], 2):
        radius = math.sqrt(-2.0 * math.log(1.0 - uniform(key, step, i)))
        angle = 2.0 * math.pi * uniform(key, step, i + 1)
        first, second = radius * math.cos(angle), radius * math.sin(angle)
        flat[i] = np.float32(math.copysign(math.sqrt(abs(first)), first))
        if i + 1 < flat.shape[0]:
            flat[i + 1] = np.float32(math.copysign(math.sqrt(abs(second)), second))
