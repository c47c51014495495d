"""Noisy linear layers, and the noise that comes with each call."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from hotloop.collect.noise import Noise
from hotloop.core.errors import UserError
from hotloop.core.types import EnvSpec, Field
from hotloop.networks._build import build
from hotloop.networks._flat import forward_of, initial, layout_of, learning_forward_of
from hotloop.networks._heads import Outputs
from hotloop.networks._noisy import NoisyLinear, fill

VECTOR = EnvSpec("toy", (Field("obs", (4,), "float32"),), 3)
OPTIONS = {"hidden": [6]}
USER = "tests.references.user_network"


def test_the_layer_is_the_papers():
    """Fortunato et al. 2018, arXiv 1706.10295, eqs. 9 to 11: w = μ + σ ⊙ f(εᵢ)f(εⱼ), b = μ + σ ⊙ f(εⱼ)."""
    layer = NoisyLinear(nn.Linear(3, 2), 0.5)
    assert torch.equal(layer.weight_sigma, torch.full((2, 3), 0.5 / math.sqrt(3)))
    assert torch.equal(layer.bias_sigma, torch.full((2,), 0.5 / math.sqrt(3)))
    assert layer.weight.abs().max() <= 1 / math.sqrt(3) and layer.bias.abs().max() <= 1 / math.sqrt(3)
    layer.noise_in.copy_(torch.tensor([1.0, -2.0, 0.5]))
    layer.noise_out.copy_(torch.tensor([3.0, -1.0]))
    x = torch.tensor([[0.2, 0.4, -0.6]])
    expected = []
    for i in range(2):
        total = layer.bias[i] + layer.bias_sigma[i] * layer.noise_out[i]
        for j in range(3):
            weight = layer.weight[i, j] + layer.weight_sigma[i, j] * layer.noise_out[i] * layer.noise_in[j]
            total = total + weight * x[0, j]
        expected.append(float(total.detach()))
    assert layer(x)[0].tolist() == pytest.approx(expected, rel=1e-5)


def test_every_linear_layer_is_noisy_and_the_others_are_as_they_were():
    network = build(VECTOR, "mlp", {"hidden": [6, 5], "layer_norm": True}, "dueling", 0, noisy_sigma=0.1)
    plain = build(VECTOR, "mlp", {"hidden": [6, 5], "layer_norm": True}, "dueling", 0)
    kinds = [type(m) for m in network.modules()]
    assert kinds.count(NoisyLinear) == 4 and nn.Linear not in kinds and kinds.count(nn.LayerNorm) == 2
    means = dict(network.named_parameters())
    assert all(torch.equal(p, means[n]) for n, p in plain.named_parameters()), "means begin as plain weights do"
    assert len(means) - len(dict(plain.named_parameters())) == 8
    obs = {"obs": torch.randn(5, 4)}
    with torch.no_grad():
        assert torch.allclose(network(obs), plain(obs), atol=1e-6), "without noise it acts by its means"


def test_noise_goes_to_each_layer_in_order_and_leaves_nothing_behind():
    network = build(VECTOR, "mlp", OPTIONS, "scalar", 0, noisy_sigma=0.5)
    layout, flat = layout_of(network), initial(network)
    assert layout.noise_sizes == (4, 6, 6, 3) and layout.noise_size == 19
    forward, learning = forward_of(network, layout), learning_forward_of(network, layout)
    obs, views = {"obs": torch.randn(5, 4)}, layout.views(flat)
    with torch.no_grad():
        mean = forward(views, obs)
        noise = torch.randn(19)
        noisy = forward(views, obs, None, noise)
        assert torch.equal(learning(views, obs, None, noise)[0], noisy)
        assert torch.equal(forward(views, obs), mean) and torch.equal(forward(views, obs, None, torch.zeros(19)), mean)
        for part in noise.split(layout.noise_sizes):
            kept = part.clone()
            part += 1.0
            assert not torch.allclose(forward(views, obs, None, noise), noisy, atol=1e-4)
            part.copy_(kept)
    rows = torch.stack([forward(views, {"obs": obs["obs"][i : i + 1]}, None, noise)[0] for i in range(5)])
    assert torch.allclose(rows, noisy, atol=1e-5), "one noise for all rows"


def test_a_layer_used_twice_stays_one_and_a_users_network_can_be_noisy():
    spec = EnvSpec("toy", VECTOR.observation, 3)
    network = build(spec, f"{USER}:Tied", {}, "scalar", 0, noisy_sigma=0.5)
    assert network.torso.first is network.torso.second and isinstance(network.torso.first, NoisyLinear)
    assert layout_of(network).noise_sizes == (4, 4, 4, 3)


def test_what_has_no_linear_layer_is_refused():
    world = EnvSpec("map", (Field("map", (2, 4, 5), "float32"),), 20)
    with pytest.raises(UserError, match=r"'residual_cnn' has no linear layer to be noisy; set network.noisy = false"):
        build(world, "residual_cnn", {}, "scalar", 0, noisy_sigma=0.5)


def test_acting_noise_is_that_of_the_batched_step():
    noise, again, other = Noise(9, 5), Noise(9, 5), Noise(9, 6)
    (a,) = [t.clone() for t in noise.at(7)]
    (b,) = noise.at(8)
    assert not torch.equal(a, b) and torch.equal(again.at(7)[0], a) and not torch.equal(other.at(7)[0], a)
    assert torch.equal(noise.at(7)[0], a) and Noise(0, 5).at(3) == []


@pytest.mark.parametrize("size", [1, 2, 5])
def test_noise_as_plain_python_is_the_same(size):
    made, plain = np.zeros(size, np.float32), np.zeros(size, np.float32)
    fill(np.uint64(2**63 + 5), 11, made)
    getattr(fill, "py_func", fill)(np.uint64(2**63 + 5), 11, plain)
    assert np.allclose(made, plain, rtol=1e-6) and (made != 0).all()


# --- what a variant asks for -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", ["scalar", "dueling"])
def test_several_numbers_per_action(head):
    network, obs = build(VECTOR, "mlp", OPTIONS, head, 0, Outputs(numbers=5)), {"obs": torch.randn(6, 4)}
    output = network(obs)
    assert output.shape == (6, 3, 5)
    if head == "dueling":  # of each number apart, advantages have no mean
        value = network.head.value(network.torso(obs))
        assert torch.allclose(output.mean(1), value, atol=1e-6)


@pytest.mark.parametrize("head", ["scalar", "dueling"])
def test_fractions_and_the_mean_over_midpoints(head):
    """Dabney et al. 2018, arXiv 1806.06923, eq. 4: features times φ_j(τ) = ReLU(Σᵢ cos(πiτ) wᵢⱼ + bⱼ), i from 0."""
    network = build(VECTOR, "mlp", OPTIONS, head, 0, Outputs(cosines=8, midpoints=4))
    obs, fractions = {"obs": torch.randn(6, 4)}, torch.rand(6, 3)
    with torch.no_grad():
        output = network(obs, fractions)
        assert output.shape == (6, 3, 3)
        linear, features = network.quantiles.linear, network.torso(obs)
        for row, k in ((0, 0), (5, 2)):
            cosines = torch.tensor([math.cos(math.pi * i * float(fractions[row, k])) for i in range(8)])
            phi = torch.relu(linear.weight @ cosines + linear.bias)
            assert torch.allclose(output[row, :, k], network.head((features[row] * phi)[None])[0], atol=1e-5)
        midpoints = torch.tensor([0.125, 0.375, 0.625, 0.875]).expand(6, 4)
        assert torch.allclose(network(obs), network(obs, midpoints).mean(-1), atol=1e-5)


def test_networks_that_cannot_give_what_is_asked_for_say_what_is_expected():
    world = EnvSpec("map", (Field("map", (2, 4, 5), "float32"),), 20)
    wrong = r"shape \(2, 3\) .* expected \(2, 3, 51\): \(batch, actions, numbers"
    for spec, name, outputs, message in (
        (VECTOR, f"{USER}:small", Outputs(numbers=51), wrong),
        (VECTOR, f"{USER}:small", Outputs(cosines=8, midpoints=4), "use variant qr_dqn"),
        (world, "residual_cnn", Outputs(numbers=51), "gives one value per action, and the variant asks for more"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=message) as refused:
            build(spec, name, {}, "scalar", 0, outputs)
        assert "\n" not in str(refused.value)
    assert build(VECTOR, f"{USER}:several", {"numbers": 5}, "scalar", 0, Outputs(numbers=5)) is not None
