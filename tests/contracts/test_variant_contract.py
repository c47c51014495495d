"""What every variant in learn/variants must hold to. In the eager half the observation is itself the Q-values, so
that every number of the loss can be chosen; the compiled half trains networks."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from hotloop.core.discover import load, names
from hotloop.learn.learner import Learner, Options
from hotloop.learn.optimizers import Options as Optimizer
from hotloop.learn.variants._base import PACKAGE, Chosen, LossOutput, Transitions, chosen
from hotloop.networks._heads import ONE_VALUE
from tests.learn.toy import PIXELS, SMALL_CNN, TWO_PARTS, UNMASKED, VECTOR, batches, feed, learner

VARIANTS = names(PACKAGE)
# Settings of a variant beside its defaults that take another branch.
BRANCHES = {
    "dqn": [{"double": True}, {"loss": "mse"}, {"double": True, "loss": "mse", "huber_delta": 0.5}],
    "munchausen": [{"loss": "mse", "temperature": 0.5, "lowest": -3.0}],
    "munchausen_iqn": [{"temperature": 0.5, "fractions": 3, "target_fractions": 5, "kappa": 0.3}],
    "c51": [{"double": True}, {"double": True, "atoms": 7, "v_min": -3.0, "v_max": 4.0}],
    "iqn": [{"double": True}, {"fractions": 3, "target_fractions": 5, "kappa": 0.3}],
    "qr_dqn": [{"double": True}, {"quantiles": 5, "kappa": 0.3}],
    "pqn": [{"loss": "huber"}],
}
CASES = [(name, options) for name in VARIANTS for options in [{}, *BRANCHES.get(name, [])]]
case = pytest.mark.parametrize(("name", "options"), CASES, ids=str)
# Those that look at what follows; a variant that is given returns has all of that in its reward.
FOLLOWING = [c for c in CASES if chosen(*c).trace_lambda is None]
following = pytest.mark.parametrize(("name", "options"), FOLLOWING, ids=str)
B, A = 12, 4
BY_ACTION = torch.tensor([1.0, -0.5, 2.0, 1.5], dtype=torch.float64)


def ramp(made: Chosen) -> Tensor:
    """What all numbers of an action differ by when it is worth more: the same for values and quantiles, and for logits
    of atoms the more the higher the atom."""
    return (
        torch.linspace(0.5, 1.0, made.outputs.numbers, dtype=torch.float64) if made.outputs.numbers else torch.ones(1)
    )


def transitions(made: Chosen, seed: int = 0, masked: bool = True) -> Transitions:
    random = torch.Generator().manual_seed(seed)
    numbers = [made.outputs.numbers] if made.outputs.numbers else []
    q, next_q, reward = (torch.randn(s, generator=random, dtype=torch.float64) for s in ([B, A], [B, A], [B]))
    if numbers:
        q, next_q = (
            x[..., None] + torch.randn(B, A, *numbers, generator=random, dtype=torch.float64) for x in (q, next_q)
        )
    action = torch.randint(0, A, (B,), generator=random)
    discount = torch.full((B,), 0.9, dtype=torch.float64)
    discount[-2:] = 0
    mask, own = (torch.rand((B, A), generator=random) < 0.5 for _ in range(2))
    mask[:, 1] = True
    mask[-2:] = True
    own[torch.arange(B), action] = True
    weight = torch.rand(B, generator=random, dtype=torch.float64)
    draws = torch.rand((B, made.draws), generator=random, dtype=torch.float64)
    return Transitions(
        {"obs": q}, action, reward, discount, {"obs": next_q}, mask if masked else None, weight,
        own if masked and made.mask else None, draws if made.draws else None,
    )  # fmt: skip


def at(values: Tensor, fractions: Tensor | None) -> Tensor:
    """Values, or quantiles whose mean they are."""
    return values if fractions is None else values[..., None] * (0.5 + fractions[:, None])


def spread(actions: Tensor, like: Tensor) -> Tensor:
    """[A] -> [A, 1] where there are several numbers per action"""
    return actions.view(A, *[1] * (like.dim() - 2))


def spread_rows(flags: Tensor, like: Tensor) -> Tensor:
    """[B, A] -> [B, A, 1] where there are several numbers per action"""
    return flags.view(B, A, *[1] * (like.dim() - 2))


def online(obs: dict[str, Tensor], fractions: Tensor | None = None) -> Tensor:
    return at(obs["obs"] * spread(BY_ACTION, obs["obs"]), fractions)


def target(obs: dict[str, Tensor], fractions: Tensor | None = None) -> Tensor:
    more = torch.tensor([0.1, 0.4, -0.3, 0.2], dtype=torch.float64)
    return at(0.7 * obs["obs"] + spread(more, obs["obs"]), fractions)


def run(made: Chosen, batch: Transitions, online=online, target=target) -> LossOutput:
    return made.module.loss(Online(online), batch, made.module.frozen(target, batch, made.options), made.options)


class Online:
    """A function as the network that learns."""

    def __init__(self, function) -> None:
        self.function = function

    def __call__(self, obs: dict[str, Tensor], fractions: Tensor | None = None) -> Tensor:
        return self.function(obs, fractions)

    def bootstrap(self, obs: dict[str, Tensor], fractions: Tensor | None = None) -> Tensor:
        return self.function(obs, fractions).detach()


@pytest.mark.parametrize("name", VARIANTS)
def test_declares_its_own_frozen_options_with_help(name):
    options = load(PACKAGE, name).Options
    assert is_dataclass(options) and options.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert all(f.metadata["help"] for f in fields(options))


@case
@pytest.mark.parametrize("masked", [True, False])
def test_shapes_and_what_carries_a_gradient(name, options, masked):
    made = chosen(name, options)
    theta = torch.ones(A, dtype=torch.float64, requires_grad=True)
    batch = transitions(made, masked=masked)
    out = run(made, batch, lambda obs, fractions: at(obs["obs"] * spread(theta, obs["obs"]), fractions))
    assert out.loss.shape == out.priority.shape == out.q.shape == (B,)
    assert out.loss.requires_grad and not out.priority.requires_grad and not out.q.requires_grad
    assert (out.priority >= 0).all() and torch.isfinite(out.loss).all()


@case
def test_values_to_act_by_are_one_per_action_and_rise_with_what_an_action_is_worth(name, options):
    made = chosen(name, options)
    output = transitions(made).obs["obs"]
    values = output if made.values is None else made.values(output)
    assert values.shape == (B, A)
    output[:, 2] += 3 * ramp(made)
    raised = output if made.values is None else made.values(output)
    assert (raised[:, 2] >= values[:, 2]).all() and torch.equal(raised[:, [0, 1, 3]], values[:, [0, 1, 3]])


def mixed(base: Transitions, other: Transitions, pick: Tensor) -> Transitions:
    def rows(a: Tensor | None, b: Tensor | None) -> Tensor | None:
        return None if a is None else torch.where(pick.view(-1, *[1] * (a.dim() - 1)), b, a)

    parts = {f.name: (getattr(base, f.name), getattr(other, f.name)) for f in fields(base)}
    return Transitions(
        **{n: {"obs": rows(a["obs"], b["obs"])} if isinstance(a, dict) else rows(a, b) for n, (a, b) in parts.items()}
    )


@case
def test_rows_are_independent(name, options):
    """Changing all of one row changes the loss and the priority of that row alone."""
    made = chosen(name, options)
    base, other = transitions(made, 0), transitions(made, 1)
    plain = run(made, base)
    for row in range(B):
        pick = torch.arange(B) == row
        out = run(made, mixed(base, other, pick))
        for ours, theirs in ((out.loss, plain.loss), (out.priority, plain.priority), (out.q, plain.q)):
            assert torch.equal(ours[~pick], theirs[~pick]) and ours[row] != theirs[row]


@following
def test_illegal_actions_never_enter(name, options):
    made = chosen(name, options)
    batch = transitions(made)
    plain = run(made, batch)
    off = spread_rows(~batch.next_mask, batch.obs["obs"])
    everything = torch.ones(B, A, dtype=torch.bool)
    for worth in (1e30, -1e30):
        # illegal under the online network's signs too, of which one is negative
        next_obs = {"obs": torch.where(off, worth * ramp(made), batch.next_obs["obs"])}
        out = run(made, replace(batch, next_obs=next_obs))
        assert torch.equal(out.loss, plain.loss) and torch.equal(out.priority, plain.priority)
        if batch.mask is not None:  # where the action was taken
            obs = {"obs": torch.where(batch.mask, batch.obs["obs"], worth)}
            out = run(made, replace(batch, obs=obs))
            assert torch.equal(out.loss, plain.loss) and torch.equal(out.priority, plain.priority)
            seen = run(made, replace(batch, obs=obs, mask=everything))
            assert worth < 0 or not torch.equal(seen.loss, plain.loss), "the mask decided nothing"
        seen = run(made, replace(batch, next_obs=next_obs, next_mask=everything))
        assert worth < 0 or not torch.equal(seen.loss, plain.loss), "the mask decided nothing"


@case
def test_nothing_follows_a_terminal_row(name, options):
    made = chosen(name, options)
    batch = transitions(made)
    next_obs = {"obs": batch.next_obs["obs"].clone()}
    next_obs["obs"][-2:] += 1e6 * ramp(made)
    a, b = run(made, batch), run(made, replace(batch, next_obs=next_obs))
    # Probabilities add up to 1 but for rounding, whatever they are.
    assert torch.allclose(a.loss, b.loss, rtol=1e-13) and torch.allclose(a.priority, b.priority, rtol=1e-13)


@pytest.mark.parametrize(("name", "options"), [c for c in CASES if c not in FOLLOWING], ids=str)
def test_nothing_but_the_return_is_learnt_by_those_that_are_given_one(name, options):
    made = chosen(name, options)
    batch = transitions(made)
    other = {"obs": batch.next_obs["obs"] * 7}
    a, b = run(made, batch), run(made, replace(batch, next_obs=other, discount=batch.discount * 0, next_mask=None))
    assert torch.equal(a.loss, b.loss) and torch.equal(a.priority, b.priority)


@case
def test_weights_are_the_learners_business(name, options):
    made = chosen(name, options)
    batch = transitions(made)
    a, b = run(made, batch), run(made, replace(batch, weight=batch.weight * 3))
    assert torch.equal(a.loss, b.loss) and torch.equal(a.priority, b.priority)


@case
def test_gradients_against_finite_differences_and_only_through_the_action_taken(name, options):
    made = chosen(name, options)
    batch = transitions(made)
    theta = torch.randn(A, A, generator=torch.Generator().manual_seed(3), dtype=torch.float64, requires_grad=True)

    def losses(theta: Tensor) -> Tensor:
        def network(obs, fractions):
            return at(torch.tanh(torch.einsum("ba...,ac->bc...", obs["obs"], theta)), fractions)

        return run(made, batch, network).loss

    assert torch.autograd.gradcheck(losses, theta)
    table = online(batch.obs).requires_grad_()
    out = run(made, batch, lambda obs, fractions: at(table, fractions) if obs is batch.obs else online(obs, fractions))
    (gradient,) = torch.autograd.grad(out.loss.sum(), table)
    taken = torch.nn.functional.one_hot(batch.action, A).bool()
    assert (gradient[~taken] == 0).all() and (gradient[taken] != 0).all()


@following
def test_the_value_of_what_follows_comes_from_the_target_network(name, options):
    """The online network may choose the next action; shifting all its values of the next state changes nothing."""
    made = chosen(name, options)
    batch = transitions(made)
    shifted = run(made, batch, lambda obs, fractions: online(obs, fractions) + (5.0 if obs is batch.next_obs else 0.0))
    plain = run(made, batch)
    assert torch.allclose(shifted.loss, plain.loss, rtol=1e-12)
    more = ramp(made) * 5.0
    moved = run(made, batch, target=lambda obs, fractions=None: target(obs, fractions) + more)
    assert not torch.isclose(moved.loss[:-2], plain.loss[:-2], rtol=1e-6).any()
    assert torch.allclose(moved.loss[-2:], plain.loss[-2:], rtol=1e-12)


USER = "tests.references.user_network"
NETWORKS = {
    "mlp": (VECTOR, "mlp", {"hidden": [32]}),
    "nature_cnn": (PIXELS, "nature_cnn", SMALL_CNN),
    "batch": (PIXELS, "nature_cnn", {**SMALL_CNN, "norm": "batch", "init": "he"}),
    "group": (PIXELS, "nature_cnn", {**SMALL_CNN, "norm": "group", "groups": 4, "channels_last": True}),
    "user's": (UNMASKED, f"{USER}:small", {"width": 12}),
    "user's with parts": (TWO_PARTS, f"{USER}:Parts", {}),
}
HEADS = ("scalar", "dueling", "noisy scalar", "noisy dueling")
STANDING = Options(batch_size=8, target_every_updates=3)
MOVING = Options(batch_size=8, target_every_updates=1, target_tau=0.05, optimizer=Optimizer("adamw", weight_decay=0.01))
LEARNING = {"standing": STANDING, "moving": MOVING}


def fits(name: str, options: dict, network: str) -> bool:
    """A user's network gives one value per action, unless it was written for a variant that wants more."""
    return ":" not in NETWORKS[network][1] or chosen(name, options).outputs == ONE_VALUE


def made_with(
    name: str, options: dict, network: str, head: str, learning: str, learning_rate: float = 1e-3, **more
) -> Learner:
    spec, path, network_options = NETWORKS[network]
    optimizer = replace(LEARNING[learning].optimizer, learning_rate=learning_rate)
    return learner(
        spec, network=path, network_options=network_options, head=head.removeprefix("noisy "), variant=name,
        variant_options=options, options=replace(LEARNING[learning], optimizer=optimizer),
        noisy_sigma=0.5 if "noisy" in head else 0.0, **more,
    )  # fmt: skip


EVERY = [(*case, *rest) for case in CASES for rest in product(NETWORKS, HEADS, LEARNING) if fits(*case, rest[0])]
# Every variant with every network, every head and both kinds of target, though not with all at once.
COVERING = [c for i, c in enumerate(EVERY) if (i + i // 8) % 8 == 0]


def falls(name: str, options: dict, network: str, head: str, learning: str) -> None:
    """The same batch again and again: the loss falls."""
    batch = batches(NETWORKS[network][0], 1, 8)
    batch.discount[:] = 0
    one = made_with(name, options, network, head, learning, updates=1, learning_rate=5e-3)
    losses = np.array([feed(one, batch)[0][0, 0] for _ in range(40)])
    assert np.isfinite(losses).all() and losses[-5:].mean() < 0.9 * losses[:5].mean()  # noise moves them


@pytest.mark.parametrize(("name", "options", "network", "head", "learning"), COVERING, ids=str)
def test_eager_every_network_and_head_learns(name, options, network, head, learning):
    falls(name, options, network, head, learning)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options", "network", "head", "learning"), EVERY, ids=str)
def test_eager_all_at_once_learn(name, options, network, head, learning):
    falls(name, options, network, head, learning)


def test_what_covers_covers():
    for axis in (2, 3, 4):
        for name in VARIANTS:
            assert {c[axis] for c in COVERING if c[0] == name} == {c[axis] for c in EVERY if c[0] == name}
    assert {(c[0], str(c[1])) for c in COVERING} == {(name, str(options)) for name, options in CASES}


# Each compilation takes seconds: every variant once, with heads in turn, and the dqn of many kinds over the networks.
COMPILED = [(name, {}, "mlp", HEADS[i % 4], "standing") for i, name in enumerate(VARIANTS)] + [
    ("dqn", {"double": True}, "nature_cnn", "dueling", "standing"),
    ("dqn", {"loss": "mse"}, "user's", "scalar", "moving"),
    ("dqn", {"double": True}, "user's with parts", "scalar", "standing"),
    ("dqn", {"double": True}, "batch", "scalar", "standing"),
    ("dqn", {}, "batch", "scalar", "moving"),
    ("dqn", {}, "group", "scalar", "standing"),
    ("c51", {"double": True}, "mlp", "noisy dueling", "moving"),
]


@pytest.mark.parametrize(("name", "options", "network", "head", "learning"), COMPILED, ids=str)
def test_compiled_equals_eager(name, options, network, head, learning):
    equal(name, options, network, head, learning)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options", "network", "head", "learning"), EVERY, ids=str)
def test_compiled_equals_eager_all_at_once(name, options, network, head, learning):
    equal(name, options, network, head, learning)


def equal(name: str, options: dict, network: str, head: str, learning: str) -> None:
    batch = batches(NETWORKS[network][0], 24, 8)
    made = {}
    for compile in (False, True):
        for updates in (1, 2, 8):
            one = made_with(name, options, network, head, learning, updates=updates, compile=compile)
            start = one.params.numpy().copy()
            stats, priority = feed(one, batch)
            made[compile, updates] = (stats, priority, one.params.numpy(), one.target.numpy())
    assert np.abs(made[False, 1][2] - start).max() > 5e-3
    for key, values in made.items():
        for ours, reference in zip(values, made[False, 1], strict=True):
            assert np.allclose(ours, reference, rtol=2e-4, atol=2e-5), key
