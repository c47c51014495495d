"""A value per cell: which cells it depends on, where biases are, how it starts, and what it refuses."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from hotloop.core.errors import UserError
from hotloop.core.types import EnvSpec, Field
from hotloop.networks._build import build
from hotloop.networks.residual_cnn import Options, Residual


def spec_of(height: int, width: int, planes: int = 4) -> EnvSpec:
    return EnvSpec("land", (Field("obs", (planes, height, width), "float32"),), height * width)


def make(height: int, width: int, head: str = "scalar", **options):
    return build(spec_of(height, width), "residual_cnn", {"channels": 8, **options}, head, 0)


def shaken(network, seed: int = 1):
    """As it might be after some learning: what begins at 0 hides what depends on what."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in network.parameters():
            p += 0.1 * torch.randn(p.shape, generator=random)
    return network


def values(network, maps):
    with torch.no_grad():
        return network({"obs": maps}).reshape(maps.shape[0], *maps.shape[2:])


@pytest.mark.parametrize("options", [{}, {"pool": True, "shortcut": True, "norm": "batch"}])
def test_one_set_of_weights_serves_maps_of_any_shape(options):
    small, large = shaken(make(10, 10, **options)), make(7, 60, **options)
    large.load_state_dict(small.state_dict())
    maps = torch.randn(2, 4, 7, 60, generator=torch.Generator().manual_seed(0))
    assert values(large, maps).shape == (2, 7, 60)
    assert torch.allclose(values(small, maps), values(large, maps))


@pytest.mark.parametrize(("dilations", "reach"), [((1,), 3), ((1, 1), 5), ((1, 2), 7), ((2, 4), 13)])
def test_a_value_stands_at_its_cell_and_sees_exactly_so_far(dilations, reach):
    """3×3 before the blocks sees one cell, each block two cells times its dilation."""
    network = shaken(make(32, 32, dilations=dilations, shortcut=dilations == (1,)))
    maps = torch.randn(1, 4, 32, 32, generator=torch.Generator().manual_seed(0), requires_grad=True)
    network({"obs": maps}).reshape(32, 32)[16, 15].backward()
    seen = (maps.grad[0].abs().sum(0) > 0).nonzero() - torch.tensor([16, 15])
    assert seen.abs().amax(0).tolist() == [reach, reach] and (seen.amin(0) == -reach).all()


def test_a_shifted_map_has_shifted_values():
    network = shaken(make(24, 24, dilations=(1,)))
    maps = torch.randn(1, 4, 24, 24, generator=torch.Generator().manual_seed(0))
    before, after = values(network, maps), values(network, maps.roll((2, 1), (2, 3)))
    assert torch.allclose(after[0, 8:18, 8:18], before[0, 6:16, 7:17], atol=1e-5)


def test_pooled_values_see_the_whole_map_and_know_its_mean_whatever_its_size():
    network = shaken(make(20, 20, pool=True, dilations=(1,)))
    maps = torch.randn(1, 4, 20, 20, generator=torch.Generator().manual_seed(0), requires_grad=True)
    network({"obs": maps}).reshape(20, 20)[10, 9].backward()
    assert (maps.grad[0].abs().sum(0) > 0).all()
    # A map of nothing but one pattern, however large: far from the edges the same values, up to what edges add.
    tile = torch.randn(1, 4, 6, 6, generator=torch.Generator().manual_seed(0))
    small, large = (values(network, tile.repeat(1, 1, n, n)) for n in (5, 15))
    assert torch.allclose(small[0, 12:18, 12:18], large[0, 36:42, 36:42], atol=0.1 * float(small.std()))


def test_by_the_shortcut_a_value_is_a_weighted_sum_over_the_planes_of_its_cell():
    network = make(10, 12, shortcut=True)
    weights = torch.tensor([1.0, -2.0, 0.5, 3.0])
    with torch.no_grad():
        for p in (network.torso.value.weight, network.torso.weights.weight):
            p.zero_()
        network.torso.weights.bias.copy_(weights)
    maps = torch.randn(3, 4, 10, 12, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(values(network, maps), (maps * weights[:, None, None]).sum(1), atol=1e-5)
    before = values(network, maps)
    with torch.no_grad():
        network.torso.weights.weight[2] += 1.0  # of the third plane: what the layers make of the surroundings
        cells = network.torso.layers(maps).sum(1)
    assert torch.allclose(values(network, maps) - before, cells * maps[:, 2], atol=1e-4)


@pytest.mark.parametrize(("norm", "kind"), [("group", nn.GroupNorm), ("batch", nn.BatchNorm2d)])
def test_no_bias_stands_before_a_norm(norm, kind):
    convolutions = [m for m in make(10, 10, norm=norm).modules() if isinstance(m, nn.Conv2d)]
    assert [c.bias is None for c in convolutions] == [True] * 7 + [False]
    assert len([m for m in make(10, 10, norm=norm).modules() if isinstance(m, kind)]) == 7
    plain = list(make(10, 10).modules())
    assert all(m.bias is not None for m in plain if isinstance(m, nn.Conv2d))
    assert not [m for m in plain if isinstance(m, kind)]


def test_groups_are_as_many_as_asked():
    norms = [m for m in make(10, 10, norm="group", groups=2).modules() if isinstance(m, nn.GroupNorm)]
    assert {m.num_groups for m in norms} == {2}


def test_statistics_of_batches_are_gathered():
    """They lie behind the parameters and go wherever the weights go."""
    assert make(10, 10, norm="group").gathered == ()
    names = make(10, 10, norm="batch").gathered
    assert len(names) == 14 and {n.rpartition(".")[2] for n in names} == {"running_mean", "running_var"}


def test_convolutions_start_as_he_et_al_say():
    """But for the second one of each block, so that a block begins as next to nothing."""
    network = make(10, 10, channels=64)
    first, *rest = [m for m in network.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3)]
    assert first.weight.std().item() == pytest.approx(math.sqrt(2 / (4 * 9)), rel=0.1)
    for k, layer in enumerate(rest):
        assert layer.weight.std().item() == pytest.approx(math.sqrt(2 / (64 * 9)) * (0.01 if k % 2 else 1), rel=0.05)
    assert all((layer.bias == 0).all() for layer in (first, *rest))


@pytest.mark.parametrize("norm", ["none", "batch", "group"])
def test_a_block_begins_as_next_to_nothing(norm):
    block = Residual(Options(channels=8, norm=norm), 1)
    maps = torch.randn(2, 8, 5, 5, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(block(maps), torch.relu(maps), atol=0.1)
    assert not torch.allclose(shaken(block)(maps), torch.relu(maps), atol=0.1)


@pytest.mark.parametrize("options", [{}, {"pool": True}, {"shortcut": True}])
def test_no_cell_begins_as_much_better_than_another(options):
    maps = torch.randn(3, 4, 10, 12, generator=torch.Generator().manual_seed(0))
    assert 0 < values(make(10, 12, **options), maps).std(dim=(1, 2)).max() < 0.05


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
