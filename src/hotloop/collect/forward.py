"""The network as one native call, for any number of lanes:
(params [P], noise [K] where it is noisy, parts [N, *seen]…) -> Q-values [N, A]."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from hotloop import aot
from hotloop.core.types import EnvSpec
from hotloop.networks._build import QNetwork
from hotloop.networks._flat import forward_of, initial, layout_of


def forward_program(
    spec: EnvSpec,
    network: QNetwork,
    fingerprint: str,
    compile: bool,
    threads: int,
    values: Callable[[Tensor], Tensor] | None = None,
) -> aot.Program:
    """values: what the network gives -> [N, A], where these are not yet values."""
    layout = layout_of(network)
    forward = forward_of(network, layout)
    names = [f.name for f in spec.observation]
    noisy = layout.noise_size > 0

    def act(params: Tensor, *rest: Tensor) -> list[Tensor]:
        obs = dict(zip(names, rest[noisy:], strict=True))
        output = forward(layout.views(params), obs, None, rest[0] if noisy else None)
        return [output if values is None else values(output)]

    if not compile:
        return aot.eager("act", act)
    examples = [torch.zeros((2, *f.seen), dtype=getattr(torch, f.dtype)) for f in spec.observation]
    given = [initial(network)] + ([torch.zeros(layout.noise_size)] if noisy else [])
    lanes = {i + len(given): "lanes" for i in range(len(names))}
    return aot.compiled("act", act, [*given, *examples], lanes, fingerprint=fingerprint, threads=threads)
