"""Puts torso and head together, seeded, or takes a user's own module. Knows no learner."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from hotloop.core import discover
from hotloop.core.errors import UserError, unknown
from hotloop.core.options import from_dict
from hotloop.core.types import EnvSpec
from hotloop.networks._heads import HEADS, ONE_VALUE, Fractions, Outputs
from hotloop.networks._noisy import buffers, with_noise

PACKAGE = "hotloop.networks"


def build(
    spec: EnvSpec, name: str, options: Mapping[str, Any], head: str, seed: int, outputs: Outputs = ONE_VALUE,
    noisy_sigma: float = 0.0,
) -> QNetwork:  # fmt: skip
    """A network for `spec`, initialised from `seed` alone. `name` is a file of this folder, or `module:name` of a
    callable that takes the EnvSpec and returns an nn.Module: observation [B, *seen] float32 (a dict of such parts
    where there are several) -> Q-values [B, A], or [B, A, Z] where the variant asks for Z numbers. noisy_sigma above 0
    makes every linear layer noisy."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if ":" in name:
            _refuse_fractions(name, outputs)
            network = QNetwork(spec, _users_own(spec, name, options), nn.Identity(), plain=len(spec.observation) == 1)
        else:
            network = _ours(spec, name, options, head, outputs)
    if noisy_sigma:
        with_noise(network, noisy_sigma)
        if not buffers(network):
            raise UserError(f"network {name!r} has no linear layer to be noisy; set network.noisy = false")
    _check(network, spec, name, outputs)
    network.gathered = _gathered(network, spec)
    return network


def _ours(spec: EnvSpec, name: str, options: Mapping[str, Any], head: str, outputs: Outputs) -> QNetwork:
    """A torso with a head, or a network that is whole: one whose actions are places in its last layer."""
    module = discover.load(PACKAGE, name)
    if head not in HEADS:
        raise unknown("head", head, HEADS)
    chosen = from_dict(module.Options, options, "network.")
    if hasattr(module, "whole"):
        if head != "scalar":
            raise UserError(f"network {name} has a head of its own; leave out network.head = {head!r}")
        if outputs != ONE_VALUE:
            raise UserError(f"network {name} gives one value per action, and the variant asks for more; use another")
        return QNetwork(spec, module.whole(spec, chosen), nn.Identity(), plain=False)
    torso, features = module.torso(spec, chosen)
    fractions = Fractions(features, outputs.cosines, outputs.midpoints) if outputs.cosines else None
    return QNetwork(
        spec, torso, HEADS[head](features, spec.num_actions, outputs.numbers), plain=False, quantiles=fractions
    )


def _refuse_fractions(name: str, outputs: Outputs) -> None:
    if outputs.cosines:
        raise UserError(
            f"network {name!r} gives values, and the variant asks for features to make quantiles of; use variant "
            "qr_dqn, or a network of ours"
        )


class QNetwork(nn.Module):
    """parts [B, *seen], as stored -> Q-values [B, A]. Scaling to float32 happens here, next to the weights. Where the
    variant asks for Z numbers per action it is [B, A, Z]; with `quantiles` it is [B, A, N] at fractions [B, N], and
    without fractions the mean [B, A]."""

    def __init__(
        self, spec: EnvSpec, torso: nn.Module, head: nn.Module, plain: bool, quantiles: Fractions | None = None
    ) -> None:
        super().__init__()
        self.torso = torso
        self.quantiles = quantiles
        self.head = head
        self.scales = {f.name: f.scale for f in spec.observation}
        self.plain = plain  # a user's module for a one-part observation takes the tensor itself
        self.gathered: tuple[str, ...] = ()  # names of buffers that learning changes, as BatchNorm's statistics
        self.eval()  # dropout would make acting and learning differ

    def forward(self, obs: dict[str, Tensor], fractions: Tensor | None = None) -> Tensor:
        scaled = {name: _scaled(part, self.scales[name]) for name, part in obs.items()}
        features = self.torso(next(iter(scaled.values())) if self.plain else scaled)
        if self.quantiles is None:
            return self.head(features)
        if fractions is None:  # the mean of the quantiles at all midpoints, since a head is affine
            return self.head(features * self.quantiles.mean())
        return self.head(features[:, None] * self.quantiles(fractions)).transpose(1, 2)


def _scaled(part: Tensor, scale: float) -> Tensor:
    part = part.to(torch.float32)
    return part if scale == 1.0 else part * scale


def _users_own(spec: EnvSpec, name: str, options: Mapping[str, Any]) -> nn.Module:
    make = discover.by_path(name)
    try:
        module = make(spec, **options)
    except UserError:
        raise
    except Exception as error:
        raise _theirs(f"network {name!r} could not be made", error) from error
    if not isinstance(module, nn.Module):
        raise UserError(f"network {name!r} gave {type(module).__name__}; it must return a torch.nn.Module")
    return module


def _check(network: QNetwork, spec: EnvSpec, name: str, outputs: Outputs) -> None:
    """Run one observation through, so that a wrong shape is found here and not in a compiler."""
    if not any(p.requires_grad for p in network.parameters()):
        raise UserError(f"network {name!r} has no parameters to train")
    held = [n for n, p in network.torso.named_parameters() if not p.requires_grad]
    if held:
        raise UserError(f"network {name!r}: {held[0]} has requires_grad=False and would be trained; make it a buffer")
    kinds = {p.dtype for p in network.parameters()}
    if kinds != {torch.float32}:
        raise UserError(f"network {name!r} has parameters of {', '.join(map(str, kinds))}; only float32 is supported")
    example = {f.name: torch.zeros((2, *f.seen), dtype=getattr(torch, f.dtype)) for f in spec.observation}
    try:
        with torch.no_grad():
            q = network(example)
    except Exception as error:
        seen = ", ".join(f"{f.name} (2, {', '.join(map(str, f.seen))})" for f in spec.observation)
        raise _theirs(f"network {name!r} failed on a batch of 2, {seen}", error) from error
    shape = tuple(q.shape) if isinstance(q, Tensor) else type(q).__name__
    expected = (2, spec.num_actions, *([outputs.numbers] if outputs.numbers else []))
    if shape != expected:
        why = ": (batch, actions, numbers per action that the variant asks for)" if outputs.numbers else ""
        raise UserError(f"network {name!r} gives shape {shape} for a batch of 2; expected {expected}{why}")


def _gathered(network: QNetwork, spec: EnvSpec) -> tuple[str, ...]:
    """The float32 buffers that a forward pass in training mode changes."""
    if not any(b.dtype == torch.float32 for _, b in network.named_buffers()):
        return ()
    twin = copy.deepcopy(network).train()
    before = {n: b.clone() for n, b in twin.named_buffers() if b.dtype == torch.float32}
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        twin({f.name: (8 * torch.rand(4, *f.seen)).to(getattr(torch, f.dtype)) for f in spec.observation})
    return tuple(n for n, b in twin.named_buffers() if n in before and not torch.equal(b, before[n]))


def _theirs(what: str, error: Exception) -> UserError:
    """An error inside a user's module as one line; the traceback stays chained for those who call from Python."""
    first_line = (str(error).strip().splitlines() or [""])[0]
    return UserError(f"{what}: {type(error).__name__}: {first_line}")
