"""The attentive network: its published shape, the same written out, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from hotloop.core.errors import UserError
from hotloop.core.types import EnvSpec, Field
from hotloop.envs import service_chain
from hotloop.learn.learner import Options
from hotloop.networks._build import build
from hotloop.networks._flat import layout_of
from hotloop.networks.service_chain import IDLE
from tests.learn.toy import batches, feed, learner

SPEC = service_chain.spec(service_chain.Options())


def observations(rows: int, seed: int = 0) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    return {f.name: torch.randn(rows, *f.shape, generator=random) for f in SPEC.observation}


def test_has_the_published_number_of_parameters():
    network = build(SPEC, "service_chain", {}, "scalar", 0)
    assert sum(p.numel() for p in network.parameters()) == 177_294
    assert tuple(network.head.weight.shape) == (13, 64)


class Written(nn.Module):
    """The network as the description says it, layer by layer."""

    def __init__(self) -> None:
        super().__init__()
        self.dc1, self.dc2 = nn.Linear(14, 128), nn.Linear(128, 64)
        self.here1, self.here2 = nn.Linear(13, 64), nn.Linear(6 * 64, 64)
        self.all1, self.all2 = nn.Linear(10, 64), nn.Linear(6 * 64, 64)
        self.w, self.v = nn.Linear(64, 128), nn.Linear(128, 1)
        self.a, self.b, self.c, self.q = nn.Linear(256, 256), nn.Linear(256, 128), nn.Linear(128, 64), nn.Linear(64, 13)

    def forward(self, obs):
        relu = torch.relu
        rows = obs["dc"].shape[0]
        one = relu(self.dc2(relu(self.dc1(obs["dc"]))))
        here = torch.cat([relu(self.here1(obs["here"][:, row])) for row in range(6)], 1)
        every = torch.cat([relu(self.all1(obs["all"][:, row])) for row in range(6)], 1)
        two, three = relu(self.here2(here)), relu(self.all2(every))
        scores = torch.cat([self.v(torch.tanh(self.w(token))) for token in (one, two, three)], 1)
        weights = scores.exp() / scores.exp().sum(1, keepdim=True)
        context = weights[:, :1] * one + weights[:, 1:2] * two + weights[:, 2:] * three
        assert context.shape == (rows, 64)
        return self.q(relu(self.c(relu(self.b(relu(self.a(torch.cat([one, two, three, context], 1))))))))


def test_like_the_description_written_out():
    network, written = build(SPEC, "service_chain", {}, "scalar", 3), Written()
    nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(network.parameters()), written.parameters())
    obs = {part: 3 * values for part, values in observations(9).items()}  # so that the weights are far from even
    with torch.no_grad():
        assert torch.allclose(network(obs), written(obs), atol=1e-6)


def test_rows_of_a_table_share_a_layer_but_not_a_place():
    """Two rows exchanged give other values: which kind of request a row is, is known by its place."""
    network, obs = build(SPEC, "service_chain", {}, "scalar", 0), observations(4)
    swapped = obs | {"here": obs["here"][:, [1, 0, 2, 3, 4, 5]]}
    with torch.no_grad():
        assert not torch.allclose(network(obs), network(swapped), atol=1e-5)
        rows = network.torso.readers[1][0](obs["here"])
        assert torch.equal(network.torso.readers[1][0](swapped["here"])[:, 0], rows[:, 1])


def test_compiled_equals_eager():
    batch, layout = batches(SPEC, 8, 8), layout_of(build(SPEC, "service_chain", {}, "scalar", 0))
    places = layout.views(torch.arange(layout.size))
    idle = [int(i) for name, at in zip(layout.names, places, strict=True) if name in IDLE for i in at.flatten()]
    assert len(idle) == 1
    made = {}
    for compile in (False, True):
        one = learner(
            SPEC, network="service_chain", head="scalar", variant_options={"double": True},
            options=Options(batch_size=8, target_every_updates=3), updates=8, compile=compile,
        )  # fmt: skip
        stats, priority = feed(one, batch)
        # A bias before a softmax changes nothing, and its gradient is rounding, which Adam makes a step of.
        kept = np.ones(len(one.params), bool)
        kept[idle] = False
        made[compile] = (stats, priority, one.params.numpy()[kept], one.target.numpy()[kept])
    start = learner(SPEC, network="service_chain", head="scalar").params.numpy()[kept]
    assert np.abs(made[False][2] - start).max() > 5e-3
    for ours, wanted in zip(made[True], made[False], strict=True):
        assert np.allclose(ours, wanted, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("parts", "seen"),
    [
        ([(7,)], "has 7"),
        ([(3,), (1, 36, 36)], "3, 1×36×36"),
        ([(3,), ()], "3, one number"),
    ],
)
def test_what_is_neither_vectors_nor_tables_is_refused(parts, seen):
    spec = EnvSpec("odd", tuple(Field(f"p{i}", shape, "float32") for i, shape in enumerate(parts)), 4)
    with pytest.raises(UserError, match="network service_chain needs two parts or more") as refused:
        build(spec, "service_chain", {}, "scalar", 0)
    assert seen in str(refused.value) and "\n" not in str(refused.value)
