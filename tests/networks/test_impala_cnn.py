from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hotloop.core.errors import UserError
from hotloop.core.types import EnvSpec, Field
from hotloop.networks._build import build
from hotloop.networks._flat import forward_of, initial, layout_of, learning_forward_of
from hotloop.networks.impala_cnn import Residual, Spectral
from tests.learn.test_step import HARD
from tests.learn.toy import PIXELS, batches, feed, learner, rows

SMALL = {"channels": [6, 8], "blocks": 1, "features": 16, "pool": 3, "spectral": True}
TINY = {**SMALL, "channels": [6]}


def frames(*shape: int, stack: int = 1) -> EnvSpec:
    return EnvSpec("pixels", (Field("obs", shape, "uint8", stack=stack, scale=1 / 255),), 6)


def images(*shape: int) -> Tensor:
    return torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(0)).to(torch.uint8)


def test_as_published():
    """Espeholt et al. 2018, figure 3, right: 15 convolutions, pooled to 11×11 of 84×84, and a layer of 256."""
    network = build(frames(84, 84, stack=4), "impala_cnn", {}, "scalar", 0)
    counts, size_in = [], 4
    for size_out in (16, 32, 32):
        counts += [9 * size_in * size_out + size_out] + 4 * [9 * size_out * size_out + size_out]
        size_in = size_out
    assert len(counts) == 15 and sum(isinstance(m, nn.Conv2d) for m in network.modules()) == 15
    assert sum(p.numel() for p in network.parameters()) == sum(counts) + (32 * 11 * 11 * 256 + 256) + (256 * 6 + 6)


def test_like_layers_written_out():
    options = {"channels": [4], "blocks": 2, "features": 5}
    network = build(frames(1, 13, 18), "impala_cnn", options, "scalar", 0)
    p = list(network.parameters())
    x = F.max_pool2d(F.conv2d(images(3, 1, 13, 18).float() / 255, p[0], p[1], padding=1), 3, 2, 1)
    for k in (2, 6):
        inner = F.conv2d(F.relu(x), p[k], p[k + 1], padding=1)
        x = x + F.conv2d(F.relu(inner), p[k + 2], p[k + 3], padding=1)
    written = F.linear(F.relu(F.linear(F.relu(x).flatten(1), p[10], p[11])), p[12], p[13])
    assert torch.allclose(network({"obs": images(3, 1, 13, 18)}), written, atol=1e-5)


def test_width_multiplies_channels_and_pooling_leaves_a_size_of_its_own():
    options = {"channels": [4, 6], "width": 3, "blocks": 0, "pool": 6, "features": 8}
    network = build(frames(40, 56, stack=2), "impala_cnn", options, "scalar", 0)
    assert [m.out_channels for m in network.modules() if isinstance(m, nn.Conv2d)] == [12, 18]
    assert network.torso.linear.in_features == 18 * 6 * 6
    assert network({"obs": images(2, 2, 40, 56)}).shape == (2, 6)


def test_without_an_image_it_is_refused():
    with pytest.raises(UserError, match=r"network impala_cnn needs one image part .* use --network mlp"):
        build(EnvSpec("vector", (Field("obs", (7,), "float32"),), 3), "impala_cnn", {}, "scalar", 0)


# --- spectral normalisation ------------------------------------------------------------------------------------------


def test_the_greatest_singular_value_is_found_step_by_step():
    torch.manual_seed(0)
    layer, x = Spectral(8, 8, 3, padding=1).eval(), torch.randn(2, 8, 5, 5)
    greatest = torch.linalg.matrix_norm(layer.weight.detach().flatten(1), 2)

    def divisor() -> float:
        with torch.no_grad():
            plain = F.conv2d(x, layer.weight, padding=1)
            return float((plain / (layer(x) - layer.bias[:, None, None])).mean())  # type: ignore[index]

    first = divisor()
    assert divisor() == first, "it moved without learning"
    layer.train()
    found = [divisor() for _ in range(300)]
    assert found[0] == pytest.approx(first, rel=1e-5) and 0.9 * greatest < first < greatest * 1.0001
    assert all(later > earlier - 1e-4 for earlier, later in pairwise(found))
    assert layer.eval().u.norm() == pytest.approx(1) and divisor() == pytest.approx(float(greatest), rel=1e-5)


def test_the_gradient_is_that_of_the_normalised_weights():
    torch.manual_seed(1)
    layer = Spectral(3, 4, 3).double().eval()
    for _ in range(2000):
        layer.u.copy_(layer._closer(layer.u)[0].detach())
    x = torch.randn(2, 3, 6, 6, dtype=torch.float64)

    def loss(weight: Tensor) -> Tensor:
        return F.conv2d(x, weight / torch.linalg.matrix_norm(weight.flatten(1), 2)).sin().sum()

    with torch.no_grad():
        layer.bias.zero_()  # type: ignore[union-attr]
    (found,) = torch.autograd.grad(layer(x).sin().sum(), layer.weight)
    (exact,) = torch.autograd.grad(loss(layer.weight), layer.weight)
    assert torch.allclose(found, exact, atol=1e-8)


def test_acting_divides_by_what_learning_does_and_learning_moves_the_vector():
    network = build(PIXELS, "impala_cnn", SMALL, "dueling", 0)
    layout, flat = layout_of(network), initial(network)
    assert len(network.gathered) == 4 and all(name.endswith(".u") for name in network.gathered)
    assert layout.size == flat.numel() == sum(p.numel() for p in network.parameters()) + 2 * (6 + 8)
    obs = {"obs": images(5, *PIXELS.observation[0].seen)}
    acted = forward_of(network, layout)(layout.views(flat), obs)
    learnt, vectors = learning_forward_of(network, layout)(layout.views(flat), obs)
    assert torch.equal(acted, learnt)
    before = layout.views(flat)[layout.trained :]
    assert all(
        not torch.equal(a, b) and torch.allclose(b.norm(), torch.ones(())) for a, b in zip(before, vectors, strict=True)
    )
    assert torch.equal(flat, initial(network)), "calling it changed the vector it was given"


def test_only_residual_convolutions_are_normalised():
    network = build(PIXELS, "impala_cnn", SMALL, "scalar", 0)
    inside = {id(m) for block in network.modules() if isinstance(block, Residual) for m in block.modules()}
    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    assert [isinstance(m, Spectral) for m in convolutions] == [id(m) in inside for m in convolutions]


def test_compiled_equals_eager_and_a_run_goes_on_where_it_was():
    options, batch = replace(HARD, optimizer=replace(HARD.optimizer, learning_rate=1e-3)), batches(PIXELS, 16, 16)

    def made(compile: bool):
        return learner(
            PIXELS, network="impala_cnn", network_options=TINY, head="scalar", options=options, compile=compile,
        )  # fmt: skip

    eager, compiled = made(False), made(True)
    start = compiled.params.clone()
    (a, a_priority), (b, b_priority) = feed(eager, batch), feed(compiled, batch)
    assert np.abs(a[:, :3] / b[:, :3] - 1).max() < 1e-3 and np.abs(a_priority - b_priority).max() < 1e-3
    assert (eager.params - compiled.params).norm() < 1e-3 * (eager.params - start).norm()
    gathered = 2 * 6
    assert not torch.equal(compiled.params[-gathered:], start[-gathered:])
    half, rest = made(True), made(True)
    feed(half, rows(batch, 0, 8))
    rest.set_state(half.state())
    feed(rest, rows(batch, 8, 8))
    assert torch.equal(rest.params, compiled.params) and torch.equal(rest.target, compiled.target)
