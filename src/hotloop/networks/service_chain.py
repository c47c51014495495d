"""For observations of several vectors and tables: each becomes 64 numbers, additive attention (Bahdanau et al. 2015,
arXiv 1409.0473) weighs these against each other, and a perceptron reads all of them. Of vectors and tables as in
service_chain it is the network of "Unlocking Reconfigurability for Deep Reinforcement Learning in SFC Provisioning"."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from hotloop.core.errors import UserError
from hotloop.core.options import option
from hotloop.core.types import EnvSpec

# Moves all scores alike, so the softmax takes it out again. It is there since the paper's layer has one.
IDLE = ("torso.weigh.bias",)


@dataclass(frozen=True)
class Options:
    token: int = option(64, "numbers that each part of the observation becomes", ge=1)
    row: int = option(64, "units of the layer that reads the rows of a table, one by one", ge=1)
    vector: int = option(128, "units of the first layer that reads a vector", ge=1)
    attention: int = option(128, "units of the attention", ge=1)
    hidden: tuple[int, ...] = option((256, 128, 64), "units of each layer after the attention", ge=1)


def torso(spec: EnvSpec, options: Options) -> tuple[nn.Module, int]:
    """(module: parts [B, *seen] float32 -> features [B, F], F)"""
    shapes = {f.name: f.seen for f in spec.observation}
    if len(shapes) < 2 or any(len(shape) not in (1, 2) for shape in shapes.values()):
        seen = ", ".join("×".join(map(str, s)) or "one number" for s in shapes.values())
        raise UserError(
            f"network service_chain needs two parts or more, each a vector or a table; {spec.name} has {seen}; "
            "use --network mlp"
        )
    return Attentive(shapes, options), options.hidden[-1]


class Attentive(nn.Module):
    """parts [B, n] and [B, rows, n] -> features [B, F]"""

    def __init__(self, shapes: dict[str, tuple[int, ...]], options: Options) -> None:
        super().__init__()
        # Not a ModuleDict: a part may be called as one of its methods is.
        self.parts = tuple(shapes)
        self.readers = nn.ModuleList(_reader(shape, options) for shape in shapes.values())
        self.score = nn.Sequential(nn.Linear(options.token, options.attention), nn.Tanh())
        self.weigh = nn.Linear(options.attention, 1)
        layers: list[nn.Module] = []
        for size_in, size_out in pairwise(((len(shapes) + 1) * options.token, *options.hidden)):
            layers += [nn.Linear(size_in, size_out), nn.ReLU()]
        self.layers = nn.Sequential(*layers)

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        read = [reader(obs[part]) for part, reader in zip(self.parts, self.readers, strict=True)]
        tokens = torch.stack(read, 1)  # [B, parts, token]
        weights = torch.softmax(self.weigh(self.score(tokens)), 1)  # [B, parts, 1]
        return self.layers(torch.cat([*read, (weights * tokens).sum(1)], 1))


def _reader(shape: tuple[int, ...], options: Options) -> nn.Module:
    """[B, *shape] -> [B, token]"""
    if len(shape) == 1:
        first = [nn.Linear(shape[0], options.vector), nn.ReLU()]
        return nn.Sequential(*first, nn.Linear(options.vector, options.token), nn.ReLU())
    rows = [nn.Linear(shape[1], options.row), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*rows, nn.Linear(shape[0] * options.row, options.token), nn.ReLU())
