"""A value per cell: which cells it depends on, where biases are, how it starts, and what it refuses."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from hotloop.core.errors import UserError
from hotloop.core.types import EnvSpec, Field
from hotloop.networks._build import build


def spec_of(height: int, width: int, planes: int = 4) -> EnvSpec:
    return EnvSpec("land", (Field("obs", (planes, height, width), "float32"),), height * width)


def make(height: int, width: int, head: str = "scalar", **options):
    return build(spec_of(height, width), "residual_cnn", {"channels": 8, **options}, head, 0)


def values(network, maps):
    with torch.no_grad():
        return network({"obs": maps}).reshape(maps.shape[0], *maps.shape[2:])


def test_one_set_of_weights_serves_maps_of_any_shape():
    small, large = make(10, 10), make(7, 60)
    large.load_state_dict(small.state_dict())
    maps = torch.randn(2, 4, 7, 60, generator=torch.Generator().manual_seed(0))
    assert values(large, maps).shape == (2, 7, 60)
    assert torch.allclose(values(small, maps), values(large, maps))


@pytest.mark.parametrize(("dilations", "reach"), [((1,), 3), ((1, 1), 5), ((1, 2), 7), ((2, 4), 13)])
def test_a_value_stands_at_its_cell_and_sees_exactly_so_far(dilations, reach):
    """3×3 before the blocks sees one cell, each block two cells times its dilation."""
    network = make(32, 32, dilations=dilations)
    maps = torch.randn(1, 4, 32, 32, generator=torch.Generator().manual_seed(0), requires_grad=True)
    network({"obs": maps}).reshape(32, 32)[16, 15].backward()
    seen = (maps.grad[0].abs().sum(0) > 0).nonzero() - torch.tensor([16, 15])
    assert seen.abs().amax(0).tolist() == [reach, reach] and (seen.amin(0) == -reach).all()


def test_a_shifted_map_has_shifted_values():
    network = make(24, 24, dilations=(1,))
    maps = torch.randn(1, 4, 24, 24, generator=torch.Generator().manual_seed(0))
    before, after = values(network, maps), values(network, maps.roll((2, 1), (2, 3)))
    assert torch.allclose(after[0, 8:18, 8:18], before[0, 6:16, 7:17], atol=1e-5)


def test_no_bias_stands_before_a_norm():
    convolutions = [m for m in make(10, 10, norm="group").modules() if isinstance(m, nn.Conv2d)]
    assert [c.bias is None for c in convolutions] == [True] * 7 + [False]
    norms = [m for m in make(10, 10, norm="group", groups=2).modules() if isinstance(m, nn.GroupNorm)]
    assert len(norms) == 7 and {m.num_groups for m in norms} == {2}
    plain = list(make(10, 10).modules())
    assert all(m.bias is not None for m in plain if isinstance(m, nn.Conv2d))
    assert not [m for m in plain if isinstance(m, nn.GroupNorm)]


def test_convolutions_start_as_he_et_al_say():
    network = make(10, 10, channels=64)
    first, *rest = [m for m in network.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3)]
    assert first.weight.std().item() == pytest.approx(math.sqrt(2 / (4 * 9)), rel=0.1)
    for layer in rest:
        assert layer.weight.std().item() == pytest.approx(math.sqrt(2 / (64 * 9)), rel=0.05)
        assert (layer.bias == 0).all()


def test_another_head_is_refused():
    with pytest.raises(UserError, match=r"leave out network\.head"):
        make(10, 10, "dueling")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (EnvSpec("land", (Field("obs", (4, 6, 6), "float32"),), 35), "4×6×6 and 35 actions"),
        (EnvSpec("land", (Field("obs", (36,), "float32"),), 36), "36 and 36 actions"),
        (EnvSpec("land", (Field("a", (4, 6, 6), "float32"), Field("b", (), "float32")), 36), "4×6×6, one number"),
    ],
)
def test_what_has_no_action_per_cell_is_refused(spec, says):
    with pytest.raises(UserError, match="an action per cell") as refused:
        build(spec, "residual_cnn", {}, "scalar", 0)
    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_groups_that_do_not_divide_the_channels_are_refused():
    with pytest.raises(UserError, match=r"network.groups = 3: must divide network.channels = 8"):
        make(10, 10, norm="group", groups=3)
    make(10, 10, norm="none", groups=3)  # not looked at
