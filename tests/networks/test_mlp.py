from __future__ import annotations

import pytest
import torch
from torch import nn

from hotloop.core.types import EnvSpec, Field
from hotloop.networks._build import build
from hotloop.networks.mlp import ACTIVATIONS

FIELDS = (Field("a", (2,), "float32"), Field("b", (2, 3), "uint8", scale=0.1), Field("c", (), "float32"))
PARTS = EnvSpec("parts", FIELDS, 4)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("layer_norm", [False, True])
def test_like_layers_written_out(activation, layer_norm):
    spec = EnvSpec("v", (Field("obs", (5,), "float32"),), 3)
    network = build(spec, "mlp", {"hidden": [7, 6], "activation": activation, "layer_norm": layer_norm}, "scalar", 0)
    norms = [nn.LayerNorm(7), nn.LayerNorm(6)] if layer_norm else [nn.Identity(), nn.Identity()]
    act = ACTIVATIONS[activation]
    written = nn.Sequential(nn.Linear(5, 7), norms[0], act(), nn.Linear(7, 6), norms[1], act(), nn.Linear(6, 3))
    nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(network.parameters()), written.parameters())
    x = torch.randn(9, 5, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(network({"obs": x}), written(x), atol=1e-6)


def test_parts_are_flattened_scaled_and_joined_in_the_order_of_the_spec():
    network = build(PARTS, "mlp", {"hidden": [8]}, "scalar", 0)
    a, b, c = torch.randn(3, 2), torch.arange(18, dtype=torch.uint8).reshape(3, 2, 3), torch.randn(3)
    first = network.torso.layers[0]
    joined = torch.cat([a, 0.1 * b.flatten(1).float(), c[:, None]], 1)
    expected = network.head(torch.relu(first(joined)))
    assert first.in_features == 9
    assert torch.allclose(network({"a": a, "b": b, "c": c}), expected, atol=1e-6)


def test_no_hidden_layer_is_a_linear_network():
    network = build(EnvSpec("v", (Field("obs", (5,), "float32"),), 3), "mlp", {"hidden": []}, "scalar", 0)
    assert [tuple(p.shape) for p in network.parameters()] == [(3, 5), (3,)]
