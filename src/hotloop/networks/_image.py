"""What networks for images share: which part of the observation is the image, and how the others join it."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor, nn

from hotloop.core.errors import UserError
from hotloop.core.types import EnvSpec, Field


def image_of(spec: EnvSpec, network: str) -> Field:
    """The one part that has channels, height and width."""
    images = [f for f in spec.observation if len(f.seen) >= 3]
    if len(images) != 1:
        raise UserError(
            f"network {network} needs one image part (channels, height, width); {spec.name} has {len(images)}; "
            "use --network mlp"
        )
    return images[0]


def beside(spec: EnvSpec, image: Field) -> int:
    """Numbers in all other parts."""
    return sum(prod(f.seen) for f in spec.observation if f is not image)


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
