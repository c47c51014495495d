from __future__ import annotations

import pytest
import torch
from torch import nn

from hotloop.core.errors import UserError
from hotloop.core.types import EnvSpec, Field
from hotloop.networks._build import build


def frames(*shape: int, stack: int = 1, **more) -> EnvSpec:
    return EnvSpec("pixels", (Field("obs", shape, "uint8", stack=stack, scale=1 / 255),), 6, **more)


def test_as_published():
    """4×84×84 and 6 actions, layer by layer: weights, then biases. Mnih et al. 2015, extended data table 1 and
    methods. 84 → (84−8)/4+1 = 20 → (20−4)/2+1 = 9 → (9−3)/1+1 = 7."""
    count = (8 * 8 * 4 * 32 + 32) + (4 * 4 * 32 * 64 + 64) + (3 * 3 * 64 * 64 + 64)
    count += (7 * 7 * 64 * 512 + 512) + (512 * 6 + 6)
    assert count == 1_687_206
    for spec in (frames(84, 84, stack=4), frames(4, 84, 84)):
        network = build(spec, "nature_cnn", {}, "scalar", 0)
        assert sum(p.numel() for p in network.parameters()) == count


def test_like_layers_written_out():
    network = build(frames(84, 84, stack=4), "nature_cnn", {}, "scalar", 0)
    written = nn.Sequential(
        nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU(),
        nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 6),
    )  # fmt: skip
    nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(network.parameters()), written.parameters())
    x = torch.randint(0, 256, (3, 4, 84, 84), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    assert torch.allclose(network({"obs": x}), written(x.float() / 255), atol=1e-6)


def test_stacked_colour_frames_are_channels_frame_by_frame():
    options = {"channels": [5], "kernels": [4], "strides": [2], "features": 8}
    stacked = build(frames(3, 20, 22, stack=2), "nature_cnn", options, "scalar", 0)
    flat = build(frames(6, 20, 22), "nature_cnn", options, "scalar", 0)
    x = torch.randint(0, 256, (4, 2, 3, 20, 22), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    assert torch.equal(stacked({"obs": x}), flat({"obs": x.reshape(4, 6, 20, 22)}))


def test_padding_and_other_parts_join_after_the_convolutions():
    spec = EnvSpec("p", (Field("speed", (), "float32"), *frames(1, 9, 9).observation), 6)
    options = {"channels": [4], "kernels": [3], "strides": [1], "padding": 1, "features": 16}
    network = build(spec, "nature_cnn", options, "dueling", 0)
    assert network.torso.linear.in_features == 4 * 9 * 9 + 1
    assert network({"speed": torch.zeros(2), "obs": torch.zeros(2, 1, 9, 9, dtype=torch.uint8)}).shape == (2, 6)


TWO = EnvSpec("two", (*frames(4, 84, 84).observation, Field("map", (1, 84, 84), "uint8")), 6)


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        (frames(1, 20, 84), {}, "an image of 20×84 is too small"),
        (frames(1, 84, 20), {}, "an image of 84×20 is too small"),
        (TWO, {}, "needs one image part .*; two has 2; use --network mlp"),
        (frames(84, 84), {}, "pixels has 0; use --network mlp"),
        (frames(4, 84, 84), {"strides": [4, 2]}, "must have the same length"),
        (frames(4, 84, 84), {"strides": [4, 0, 1]}, "network.strides = 0: must be at least 1"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(spec, options, message):
    with pytest.raises(UserError, match=message) as error:
        build(spec, "nature_cnn", options, "scalar", 0)
    assert "\n" not in str(error.value)


def test_36_by_36_is_the_least():
    assert build(frames(1, 36, 36), "nature_cnn", {}, "scalar", 0).torso.linear.in_features == 64
    with pytest.raises(UserError, match="too small"):
        build(frames(1, 35, 36), "nature_cnn", {}, "scalar", 0)
