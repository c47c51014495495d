"""A small real network that remembers which thread has called which copy of it."""

from __future__ import annotations

import threading

import torch
from torch import Tensor, nn

from hotloop.core.types import EnvSpec

CALLED: dict[str, set[int]] = {}


class Recorded(nn.Module):
    def __init__(self, spec: EnvSpec) -> None:
        super().__init__()
        (field,) = spec.observation
        self.layer = nn.Linear(field.shape[0], spec.num_actions)

    def forward(self, obs: Tensor) -> Tensor:
        CALLED.setdefault(threading.current_thread().name, set()).add(id(self))
        return torch.relu(self.layer(obs))
