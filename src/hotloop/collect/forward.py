"""The network as one native call, for any number of lanes: (params [P], parts [N, *seen]…) -> Q-values [N, A]."""

from __future__ import annotations

import torch
from torch import Tensor

from hotloop import aot
from hotloop.core.types import EnvSpec
from hotloop.networks._build import QNetwork
from hotloop.networks._flat import forward_of, initial, layout_of


def forward_program(spec: EnvSpec, network: QNetwork, fingerprint: str, compile: bool, threads: int) -> aot.Program:
    layout = layout_of(network)
    forward = forward_of(network, layout)
    names = [f.name for f in spec.observation]

    def act(params: Tensor, *obs: Tensor) -> list[Tensor]:
        return [forward(layout.views(params), dict(zip(names, obs, strict=True)))]

    if not compile:
        return aot.eager("act", act)
    examples = [torch.zeros((2, *f.seen), dtype=getattr(torch, f.dtype)) for f in spec.observation]
    lanes = {i + 1: "lanes" for i in range(len(names))}
    return aot.compiled("act", act, [initial(network), *examples], lanes, fingerprint=fingerprint, threads=threads)
