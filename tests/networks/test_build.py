"""Putting networks together: user modules, their mistakes, heads, scaling, the flat vector."""

from __future__ import annotations

import sys

import pytest
import torch

from hotloop.core.errors import UserError
from hotloop.core.types import EnvSpec, Field
from hotloop.networks._build import build
from hotloop.networks._flat import forward_of, initial, layout_of
from hotloop.networks._heads import HEADS, Dueling

VECTOR = EnvSpec("toy", (Field("obs", (4,), "float32"),), 3)
USER = "tests.references.user_network"


def test_a_users_module_takes_the_observation_itself_or_a_dict_where_there_are_parts():
    network = build(VECTOR, f"{USER}:small", {"width": 9}, "scalar", 0)
    assert network({"obs": torch.zeros(2, 4)}).shape == (2, 3) and network.torso[0].out_features == 9
    parts = EnvSpec("parts", (Field("a", (4,), "float32"), Field("b", (2,), "uint8", scale=0.5)), 3)
    network = build(parts, f"{USER}:Parts", {}, "scalar", 0)
    a, b = torch.ones(2, 4), torch.full((2, 2), 6, dtype=torch.uint8)
    layers = network.torso.layers
    expected = 0.5 * (layers["a"](a) + layers["b"](torch.full((2, 2), 3.0)))
    assert torch.allclose(network({"a": a, "b": b}), expected)


def test_a_users_module_is_found_in_the_current_directory(tmp_path, monkeypatch):
    source = "from torch import nn\ndef make(spec):\n    return nn.Linear(4, spec.num_actions)\n"
    (tmp_path / "a_network_of_mine.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert build(VECTOR, "a_network_of_mine:make", {}, "scalar", 0)({"obs": torch.zeros(5, 4)}).shape == (5, 3)


def test_a_users_module_is_seeded_and_evaluates():
    one, same, other = (initial(build(VECTOR, f"{USER}:small", {}, "scalar", s)) for s in (1, 1, 2))
    assert torch.equal(one, same) and not torch.equal(one, other)
    assert not build(VECTOR, f"{USER}:small", {}, "scalar", 0).training


MISTAKES = {
    f"{USER}:too_wide": r"gives shape \(2, 4\) for a batch of 2; expected \(2, 3\)",
    f"{USER}:too_narrow_inside": r"failed on a batch of 2, obs \(2, 4\): RuntimeError: mat1 and mat2",
    f"{USER}:no_parameters": "has no parameters to train",
    f"{USER}:held": r"0\.weight has requires_grad=False and would be trained; make it a buffer",
    f"{USER}:in_double": r"has parameters of torch\.float64; only float32 is supported",
    f"{USER}:not_a_module": "gave function; it must return a torch.nn.Module",
    f"{USER}:fails": "could not be made: ValueError: no such layer$",
    f"{USER}:not_callable": "could not be made: TypeError",
    f"{USER}:Pair": "gives shape tuple",
    f"{USER}:smal": "did you mean 'small'",
    "no_module_of_this_name:make": "no module named 'no_module_of_this_name'",
    "mpl": "unknown network 'mpl'; did you mean 'mlp'",
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_one_line_that_names_the_network(name):
    with pytest.raises(UserError, match=MISTAKES[name]) as error:
        build(VECTOR, name, {}, "scalar", 0)
    assert "\n" not in str(error.value) and name.partition(":")[0] in str(error.value)


@pytest.mark.parametrize(
    ("options", "head", "message"),
    [
        ({"hiden": [3]}, "scalar", "did you mean 'network.hidden'"),
        ({"hidden": [0]}, "scalar", "network.hidden = 0: must be at least 1"),
        ({"activation": "rely"}, "scalar", "choose one of relu"),
        ({}, "duelling", "did you mean 'dueling'"),
    ],
)
def test_wrong_options_of_ours(options, head, message):
    with pytest.raises(UserError, match=message) as error:
        build(VECTOR, "mlp", options, head, 0)
    assert "\n" not in str(error.value)


def test_options_that_a_users_callable_does_not_take():
    with pytest.raises(UserError, match="unexpected keyword argument 'depth'"):
        build(VECTOR, f"{USER}:small", {"depth": 3}, "scalar", 0)


def test_bytes_are_scaled_next_to_the_weights():
    bytes_ = EnvSpec("b", (Field("obs", (4,), "uint8", scale=1 / 255),), 3)
    values = torch.tensor([[0, 51, 102, 255], [255, 1, 2, 3]], dtype=torch.uint8)
    a = build(bytes_, "mlp", {}, "scalar", 0)({"obs": values})
    b = build(VECTOR, "mlp", {}, "scalar", 0)({"obs": values.float() / 255})
    assert torch.allclose(a, b, atol=1e-7)
    assert not torch.allclose(a, build(VECTOR, "mlp", {}, "scalar", 0)({"obs": values.float()}), atol=1e-2)


def test_dueling_by_hand():
    head = Dueling(2, 3)
    with torch.no_grad():
        head.value.weight.copy_(torch.tensor([[1.0, 0.0]]))
        head.value.bias.fill_(0.5)
        head.advantage.weight.copy_(torch.tensor([[0.0, 1.0], [0.0, 2.0], [0.0, 6.0]]))
        head.advantage.bias.zero_()
        # V = 10.5; A = 1, 2, 6 with mean 3
        assert head(torch.tensor([[10.0, 1.0]])).tolist() == [[8.5, 9.5, 13.5]]


def test_dueling_values_average_to_v_whatever_the_advantages():
    head, features = HEADS["dueling"](6, 5), torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    q = head(features)
    assert torch.allclose(q.mean(-1), head.value(features)[:, 0], atol=1e-6)
    with torch.no_grad():
        head.advantage.bias += 7.0
    assert torch.allclose(head(features), q, atol=1e-5)


def test_layout_splits_and_joins():
    network = build(VECTOR, "mlp", {"hidden": [8, 6], "layer_norm": True}, "dueling", 0)
    layout, flat = layout_of(network), initial(network)
    views = layout.views(flat)
    assert torch.equal(layout.flat(views), flat) and layout.size == flat.numel()
    assert all(v.data_ptr() >= flat.data_ptr() for v in views), "views, not copies"
    named = dict(network.named_parameters())
    assert all(torch.equal(view, named[name]) for name, view in zip(layout.names, views, strict=True))
    flat += 1
    obs = {"obs": torch.ones(2, 4)}
    before = network(obs)
    assert not torch.equal(forward_of(network, layout)(views, obs), before) and torch.equal(network(obs), before)
