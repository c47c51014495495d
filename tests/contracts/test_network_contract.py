"""What every network in networks/ must hold to, with every head, on every kind of observation that it takes."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import pytest
import torch
from torch import Tensor

from hotloop.core.discover import load, names
from hotloop.core.errors import UserError
from hotloop.core.types import EnvSpec, Field
from hotloop.networks._build import PACKAGE, QNetwork, build
from hotloop.networks._flat import forward_of, initial, layout_of
from hotloop.networks._heads import HEADS, Outputs

NETWORKS = names(PACKAGE)
SPECS = {
    "vector": (Field("obs", (7,), "float32"),),
    "bytes": (Field("obs", (128,), "uint8", scale=1 / 255),),
    "stacked vector": (Field("obs", (7,), "float32", stack=3),),
    "frames": (Field("obs", (84, 84), "uint8", stack=4, scale=1 / 255),),
    "colour": (Field("obs", (3, 40, 48), "uint8", scale=1 / 255),),
    "stacked colour": (Field("obs", (3, 40, 48), "uint8", stack=2, scale=1 / 255),),
    "parts": (
        Field("image", (1, 36, 36), "float32"),
        Field("a", (5,), "float32"),
        Field("b", (2, 3), "bool"),
        Field("c", (), "float32"),
    ),
    "map": (Field("map", (4, 6, 7), "float32"),),
    "tables": (Field("vector", (14,), "float32"), Field("one", (6, 13), "float32"), Field("two", (6, 10), "float32")),
}
B, A = 6, 5
CELLS = {"map": 6 * 7}  # an action per cell, for networks that are whole


def spec_of(kind: str) -> EnvSpec:
    return EnvSpec(kind, SPECS[kind], CELLS.get(kind, A))


def heads_of(name: str) -> list[str]:
    """A network that is whole has no place for another head."""
    return ["scalar"] if hasattr(load(PACKAGE, name), "whole") else list(HEADS)


def make(name: str, kind: str, head: str, seed: int = 0) -> QNetwork:
    return build(spec_of(kind), name, {}, head, seed)


def kinds_of(name: str) -> list[str]:
    """The observations that a network takes; others it refuses in one line that names it."""
    taken = []
    for kind in SPECS:
        try:
            make(name, kind, "scalar")
            taken.append(kind)
        except UserError as why:
            assert name in str(why) and "\n" not in str(why)
    return taken


KINDS = {name: kinds_of(name) for name in NETWORKS}
EVERY = [(name, kind, head) for name in NETWORKS for kind in KINDS[name] for head in heads_of(name)]
every = pytest.mark.parametrize(("name", "kind", "head"), EVERY)


def observations(kind: str, rows: int = B) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(1)
    return {
        f.name: torch.randn((rows, *f.seen), generator=random)
        if f.dtype == "float32"
        else torch.randint(0, 2 if f.dtype == "bool" else 256, (rows, *f.seen), generator=random).to(
            getattr(torch, f.dtype)
        )
        for f in SPECS[kind]
    }


@pytest.mark.parametrize("name", NETWORKS)
def test_declares_its_own_frozen_options_with_help_and_takes_some_observation(name):
    options = load(PACKAGE, name).Options
    assert is_dataclass(options) and options.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert all(f.metadata["help"] for f in fields(options))
    assert KINDS[name]


@every
def test_rows_of_a_batch_are_independent(name, kind, head):
    network, obs = make(name, kind, head), observations(kind)
    with torch.no_grad():
        q = network(obs)
        assert q.shape == (B, spec_of(kind).num_actions) and q.dtype == torch.float32
        for row in range(B):
            alone = network({part: values[row : row + 1] for part, values in obs.items()})
            assert torch.allclose(alone[0], q[row], rtol=1e-4, atol=1e-5)
    assert (q.std(0) > 0).all(), "the observation does not reach the output"


@every
def test_every_part_of_the_observation_matters(name, kind, head):
    network, obs = make(name, kind, head), observations(kind)
    for part in obs:
        changed = obs | {part: torch.zeros_like(obs[part])}
        with torch.no_grad():
            assert not torch.allclose(network(changed), network(obs), atol=1e-6), part


@every
def test_the_seed_decides_every_bit_and_nothing_else_does(name, kind, head):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = initial(make(name, kind, head, seed=3))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    again, other = initial(make(name, kind, head, seed=3)), initial(make(name, kind, head, seed=4))
    assert torch.equal(first, again) and (first != other).float().mean() > 0.9
    assert first.data_ptr() != again.data_ptr()


@every
def test_called_with_flat_parameters_it_is_the_same_and_every_one_has_a_gradient(name, kind, head):
    network, obs = make(name, kind, head), observations(kind)
    layout = layout_of(network)
    own = {n: p.clone() for n, p in network.state_dict().items()}
    flat = initial(make(name, kind, head, seed=8))
    views = [v.detach().requires_grad_() for v in layout.views(flat)]
    q = forward_of(network, layout)(views, obs)
    with torch.no_grad():
        assert torch.equal(q, make(name, kind, head, seed=8)(obs))
        assert not torch.equal(q, network(obs))
    assert layout.size == flat.numel() == sum(p.numel() for p in network.parameters())
    moved = dict(zip(layout.names, torch.autograd.grad(q.square().sum(), views), strict=True))
    idle = getattr(load(PACKAGE, name), "IDLE", ())  # those that by its mathematics change nothing
    assert all((moved.pop(parameter).abs() < 1e-6).all() for parameter in idle)
    assert all((g != 0).any() for g in moved.values())
    assert all(torch.equal(own[n], p) for n, p in network.state_dict().items()), "calling it changed the module"


ASKED = {"numbers": Outputs(numbers=3), "quantiles": Outputs(cosines=8, midpoints=5)}
SEVERAL = [(n, kind) for n in NETWORKS for kind in KINDS[n] if not hasattr(load(PACKAGE, n), "whole")]


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize(("name", "kind"), SEVERAL)
def test_noisy_dueling_and_several_numbers_per_action(name, kind, asked):
    network, obs = build(spec_of(kind), name, {}, "dueling", 0, ASKED[asked], noisy_sigma=0.5), observations(kind)
    layout = layout_of(network)
    random = torch.Generator().manual_seed(2)
    noise = torch.randn(layout.noise_size, generator=random)
    fractions = torch.rand((B, 3), generator=random) if asked == "quantiles" else None
    forward, views = forward_of(network, layout), [v.requires_grad_() for v in layout.views(initial(network))]
    output = forward(views, obs, fractions, noise)
    assert output.shape == (B, spec_of(kind).num_actions, 3)
    gradients = dict(zip(layout.names, torch.autograd.grad(output.square().sum(), views), strict=True))
    idle = tuple(n for i in getattr(load(PACKAGE, name), "IDLE", ()) for n in (i, f"{i}_sigma"))
    assert all((g != 0).any() for n, g in gradients.items() if n not in idle)
    for row in range(B):
        alone = {part: values[row : row + 1] for part, values in obs.items()}
        given = None if fractions is None else fractions[row : row + 1]
        assert torch.allclose(forward(views, alone, given, noise)[0], output[row], rtol=1e-4, atol=1e-4)
