"""What every variant in learn/variants must hold to. In the eager half the observation is itself the Q-values, so
that every number of the loss can be chosen; the compiled half trains networks."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor

from hotloop.core.discover import load, names
from hotloop.core.options import from_dict
from hotloop.learn.learner import PACKAGE, Options
from hotloop.learn.optimizers import Options as Optimizer
from hotloop.learn.variants._base import LossOutput, Transitions
from tests.learn.toy import PIXELS, SMALL_CNN, TWO_PARTS, UNMASKED, VECTOR, batches, feed, learner

VARIANTS = names(PACKAGE)
# Settings of a variant beside its defaults that take another branch.
BRANCHES = {"dqn": [{"double": True}, {"loss": "mse"}, {"double": True, "loss": "mse", "huber_delta": 0.5}]}
CASES = [(name, options) for name in VARIANTS for options in [{}, *BRANCHES.get(name, [])]]
case = pytest.mark.parametrize(("name", "options"), CASES, ids=str)
B, A = 12, 4


def transitions(seed: int = 0, masked: bool = True) -> Transitions:
    random = torch.Generator().manual_seed(seed)
    q, next_q, reward = (torch.randn(s, generator=random, dtype=torch.float64) for s in ((B, A), (B, A), (B,)))
    action = torch.randint(0, A, (B,), generator=random)
    discount = torch.full((B,), 0.9, dtype=torch.float64)
    discount[-2:] = 0
    mask = torch.rand((B, A), generator=random) < 0.5
    mask[:, 1] = True
    mask[-2:] = True
    weight = torch.rand(B, generator=random, dtype=torch.float64)
    return Transitions({"obs": q}, action, reward, discount, {"obs": next_q}, mask if masked else None, weight)


def online(obs: dict[str, Tensor]) -> Tensor:
    return obs["obs"] * torch.tensor([1.0, -0.5, 2.0, 1.5], dtype=torch.float64)


def target(obs: dict[str, Tensor]) -> Tensor:
    return 0.7 * obs["obs"] + torch.tensor([0.1, 0.4, -0.3, 0.2], dtype=torch.float64)


def run(name: str, options: dict, batch: Transitions, online=online, target=target) -> LossOutput:
    module = load(PACKAGE, name)
    made = from_dict(module.Options, options)
    return module.loss(Online(online), batch, module.frozen(target, batch, made), made)


class Online:
    """A function as the network that learns."""

    def __init__(self, function) -> None:
        self.function = function

    def __call__(self, obs: dict[str, Tensor]) -> Tensor:
        return self.function(obs)

    def bootstrap(self, obs: dict[str, Tensor]) -> Tensor:
        return self.function(obs).detach()


@pytest.mark.parametrize("name", VARIANTS)
def test_declares_its_own_frozen_options_with_help(name):
    options = load(PACKAGE, name).Options
    assert is_dataclass(options) and options.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert all(f.metadata["help"] for f in fields(options))


@case
@pytest.mark.parametrize("masked", [True, False])
def test_shapes_and_what_carries_a_gradient(name, options, masked):
    theta = torch.ones(A, dtype=torch.float64, requires_grad=True)
    out = run(name, options, transitions(masked=masked), lambda obs: obs["obs"] * theta)
    assert out.loss.shape == out.priority.shape == out.q.shape == (B,)
    assert out.loss.requires_grad and not out.priority.requires_grad and not out.q.requires_grad
    assert (out.priority >= 0).all() and torch.isfinite(out.loss).all()


@case
def test_rows_are_independent(name, options):
    """Changing all of one row changes the loss and the priority of that row alone."""
    base, other = transitions(0), transitions(1)
    plain = run(name, options, base)
    for row in range(B):
        pick = torch.arange(B) == row

        def mixed(a: Tensor, b: Tensor, pick: Tensor = pick) -> Tensor:
            return torch.where(pick.view(-1, *[1] * (a.dim() - 1)), b, a)

        batch = Transitions(
            {"obs": mixed(base.obs["obs"], other.obs["obs"])}, mixed(base.action, other.action),
            mixed(base.reward, other.reward), mixed(base.discount, other.discount),
            {"obs": mixed(base.next_obs["obs"], other.next_obs["obs"])}, mixed(base.next_mask, other.next_mask),
            mixed(base.weight, other.weight),
        )  # fmt: skip
        out = run(name, options, batch)
        for ours, theirs in ((out.loss, plain.loss), (out.priority, plain.priority), (out.q, plain.q)):
            assert torch.equal(ours[~pick], theirs[~pick]) and ours[row] != theirs[row]


@case
def test_illegal_actions_never_enter(name, options):
    batch = transitions()
    plain = run(name, options, batch)
    for worth in (1e30, -1e30):
        next_obs = {"obs": batch.next_obs["obs"].masked_fill(~batch.next_mask, worth)}
        # illegal under the online network's signs too, of which one is negative
        out = run(name, options, replace(batch, next_obs=next_obs))
        assert torch.equal(out.loss, plain.loss) and torch.equal(out.priority, plain.priority)
    everything = run(name, options, replace(batch, next_mask=torch.ones(B, A, dtype=torch.bool)))
    assert not torch.equal(everything.loss, plain.loss), "the mask decided nothing, so nothing was tested"


@case
def test_nothing_follows_a_terminal_row(name, options):
    batch = transitions()
    next_obs = {"obs": batch.next_obs["obs"].clone()}
    next_obs["obs"][-2:] += 1e6
    a, b = run(name, options, batch), run(name, options, replace(batch, next_obs=next_obs))
    assert torch.equal(a.loss, b.loss) and torch.equal(a.priority, b.priority)


@case
def test_weights_are_the_learners_business(name, options):
    batch = transitions()
    a, b = run(name, options, batch), run(name, options, replace(batch, weight=batch.weight * 3))
    assert torch.equal(a.loss, b.loss) and torch.equal(a.priority, b.priority)


@case
def test_gradients_against_finite_differences_and_only_through_the_action_taken(name, options):
    batch = transitions()
    theta = torch.randn(A, A, generator=torch.Generator().manual_seed(3), dtype=torch.float64, requires_grad=True)

    def losses(theta: Tensor) -> Tensor:
        return run(name, options, batch, lambda obs: torch.tanh(obs["obs"] @ theta)).loss

    assert torch.autograd.gradcheck(losses, theta)
    table = online(batch.obs).requires_grad_()
    out = run(name, options, batch, lambda obs: table if obs is batch.obs else online(obs))
    (gradient,) = torch.autograd.grad(out.loss.sum(), table)
    taken = torch.nn.functional.one_hot(batch.action, A).bool()
    assert (gradient[~taken] == 0).all() and (gradient[taken] != 0).all()


@case
def test_the_value_of_what_follows_comes_from_the_target_network(name, options):
    """The online network may choose the next action; shifting all its values of the next state changes nothing."""
    batch = transitions()
    shifted = run(name, options, batch, lambda obs: online(obs) + (5.0 if obs is batch.next_obs else 0.0))
    plain = run(name, options, batch)
    assert torch.equal(shifted.loss, plain.loss)
    moved = run(name, options, batch, target=lambda obs: target(obs) + 5.0)
    assert (moved.loss[:-2] != plain.loss[:-2]).all() and torch.equal(moved.loss[-2:], plain.loss[-2:])


USER = "tests.references.user_network"
NETWORKS = {
    "mlp": (VECTOR, "mlp", {"hidden": [32]}),
    "nature_cnn": (PIXELS, "nature_cnn", SMALL_CNN),
    "batch": (PIXELS, "nature_cnn", {**SMALL_CNN, "norm": "batch", "init": "he"}),
    "group": (PIXELS, "nature_cnn", {**SMALL_CNN, "norm": "group", "groups": 4, "channels_last": True}),
    "user's": (UNMASKED, f"{USER}:small", {"width": 12}),
    "user's with parts": (TWO_PARTS, f"{USER}:Parts", {}),
}
HEADS = ("scalar", "dueling")
STANDING = Options(batch_size=8, target_every_updates=3)
MOVING = Options(batch_size=8, target_every_updates=1, target_tau=0.05, optimizer=Optimizer("adamw", weight_decay=0.01))


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("learning", [STANDING, MOVING], ids=["standing", "moving"])
@case
def test_eager_every_network_and_head_learns(name, options, network, head, learning):
    """The same batch again and again: the loss falls."""
    spec, path, network_options = NETWORKS[network]
    batch = batches(spec, 1, 8)
    batch.discount[:] = 0
    one = learner(
        spec, network=path, network_options=network_options, head=head, variant=name, variant_options=options,
        options=learning, updates=1,
    )  # fmt: skip
    losses = [feed(one, batch)[0][0, 0] for _ in range(40)]
    assert np.isfinite(losses).all() and losses[-1] < 0.9 * losses[0]


# Each compilation takes seconds: every variant once with its defaults, and the dqn of many kinds over the networks.
COMPILED = [(name, "mlp", "scalar", {}, STANDING) for name in VARIANTS] + [
    ("dqn", "nature_cnn", "dueling", {"double": True}, STANDING),
    ("dqn", "user's", "scalar", {"loss": "mse"}, MOVING),
    ("dqn", "user's with parts", "scalar", {"double": True}, STANDING),
    ("dqn", "batch", "scalar", {"double": True}, STANDING),
    ("dqn", "batch", "scalar", {}, MOVING),
    ("dqn", "group", "scalar", {}, STANDING),
]


@pytest.mark.parametrize(
    ("name", "network", "head", "options", "learning"), COMPILED, ids=[f"{c[0]}-{c[1]}-{c[2]}" for c in COMPILED]
)
def test_compiled_equals_eager(name, network, head, options, learning):
    spec, path, network_options = NETWORKS[network]
    batch = batches(spec, 24, 8)
    made = {}
    for compile in (False, True):
        for updates in (1, 2, 8):
            one = learner(
                spec, network=path, network_options=network_options, head=head, variant=name, variant_options=options,
                options=learning, updates=updates, compile=compile,
            )  # fmt: skip
            stats, priority = feed(one, batch)
            made[compile, updates] = (stats, priority, one.params.numpy(), one.target.numpy())
    start = learner(spec, network=path, network_options=network_options, head=head).params.numpy()
    assert np.abs(made[False, 1][2] - start).max() > 5e-3
    for key, values in made.items():
        for ours, reference in zip(values, made[False, 1], strict=True):
            assert np.allclose(ours, reference, rtol=2e-4, atol=2e-5), key
