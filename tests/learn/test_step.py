"""The update against a textbook's, in its parts and whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from hotloop.learn.learner import Options
from hotloop.learn.optimizers import Options as Optimizer
from tests.learn.toy import UNMASKED, VECTOR, batches, feed, learner, rows
from tests.references import dqn as reference

HARD = Options(batch_size=16, target_every_updates=50, optimizer=Optimizer(learning_rate=3e-3, max_grad_norm=0.7))
POLYAK = Options(
    batch_size=16,
    target_every_updates=1,
    target_tau=0.01,
    optimizer=Optimizer("rmsprop", learning_rate=1e-3, eps=1e-4, max_grad_norm=0.0),
)
SOMETIMES = replace(HARD, target_every_updates=7, target_tau=0.3)
# name -> (learner options, variant options, head). The first two are also compiled.
CASES = {
    "hard target, double, huber": (HARD, {"double": True, "huber_delta": 0.8}, "dueling"),
    "polyak, double, mse": (POLYAK, {"double": True, "loss": "mse"}, "scalar"),
    "hard target, huber": (HARD, {}, "scalar"),
    "polyak, huber": (POLYAK, {}, "dueling"),
    "partly moved target, double, mse": (SOMETIMES, {"double": True, "loss": "mse"}, "scalar"),
    "target copied at every update": (replace(POLYAK, target_tau=1.0), {"double": True}, "scalar"),
}


def textbook(options: Options, variant: dict, head: str, start: torch.Tensor, batch, updates: int):
    network = reference.MLP(5, 32, 4, dueling=head == "dueling")
    reference.load(network, start)
    o = options.optimizer
    if o.name == "adam":
        optimizer = torch.optim.Adam(network.parameters(), lr=o.learning_rate, betas=(o.beta1, o.beta2), eps=o.eps)
    else:
        optimizer = torch.optim.RMSprop(network.parameters(), lr=o.learning_rate, alpha=o.alpha, eps=o.eps)
    tensors = [
        {
            "obs": batch.obs["obs"][u], "action": batch.action[u], "reward": batch.reward[u],
            "discount": batch.discount[u], "next_obs": batch.next_obs["obs"][u],
            "next_mask": batch.next_mask[u], "weight": batch.weight[u],
        }
        for u in range(updates)
    ]  # fmt: skip
    losses, errors, target = reference.train(
        network,
        [{k: torch.from_numpy(v) for k, v in b.items()} for b in tensors],
        optimizer,
        double=variant.get("double", False),
        mse=variant.get("loss") == "mse",
        delta=variant.get("huber_delta", 1.0),
        clip=o.max_grad_norm,
        every=options.target_every_updates,
        tau=options.target_tau,
    )
    flat = torch.nn.utils.parameters_to_vector
    return np.array(losses), torch.stack(errors).numpy(), flat(network.parameters()), flat(target.parameters())


# A compilation takes seconds; the first two hold all branches of the compiled update.
@pytest.mark.parametrize(
    ("case", "compile"), [*((case, False) for case in CASES), *((case, True) for case in list(CASES)[:2])]
)
def test_120_updates_like_the_textbook(case, compile):
    options, variant, head = CASES[case]
    batch = batches(VECTOR, 120, 16, seed=1)
    ours = learner(options=options, variant_options=variant, head=head, updates=8, compile=compile)
    losses, errors, params, target = textbook(options, variant, head, ours.params, batch, 120)
    stats, priority = feed(ours, batch)
    assert np.abs(priority - errors).max() < 2e-5
    assert np.abs(stats[:, 0] / losses - 1).max() < 1e-5
    assert (stats[:, 3] == 1).all() and ours.updates == 120 and ours.refused == 0
    assert (ours.params - params).abs().max() < 5e-6 and (ours.target - target).abs().max() < 5e-6
    assert (ours.params - learner(head=head).params).abs().max() > 0.02, "nothing was learnt, so nothing was compared"
    if options.target_every_updates == 50:
        assert (ours.params - ours.target).abs().max() > 1e-3


def test_gradient_clipping_is_torchs():
    """One step of plain gradient descent in disguise: rmsprop without memory of the past is sign-like, so the first
    moment of adam is read instead: after one update it is (1 − beta1) · gradient."""
    batch = batches(VECTOR, 1, 16)
    whole, cut = ({"max_grad_norm": 0.0}, {"max_grad_norm": 0.05})
    made = []
    for limit in (whole, cut):
        one = learner(options=Options(batch_size=16, optimizer=Optimizer(**limit)), updates=1)
        stats, _ = feed(one, batch)
        made.append((one.moments[0] / (1 - 0.9), stats[0, 2]))
    (gradient, norm), (clipped, norm_too) = made
    parameter = torch.nn.Parameter(torch.zeros_like(gradient))
    parameter.grad = gradient.clone()
    total = torch.nn.utils.clip_grad_norm_([parameter], 0.05)
    assert norm == norm_too == pytest.approx(float(total), rel=1e-5) and norm > 0.05, "the norm before clipping"
    assert torch.allclose(clipped, parameter.grad, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("tau", [1.0, 0.01])
def test_terminal_rows_do_not_depend_on_what_follows(tau):
    options = Options(batch_size=16, target_every_updates=1 if tau < 1 else 9, target_tau=tau)
    batch = batches(VECTOR, 4, 16)
    ended = batch.discount == 0
    assert 5 < ended.sum() < 40
    results = []
    for following in (0.0, 1e6):
        batch.next_obs["obs"][ended] = following
        one = learner(options=options, variant_options={"double": True}, updates=4)
        results.append((feed(one, batch), one.params))
    (((a_stats, a_priority), a), ((b_stats, b_priority), b)) = results
    assert np.array_equal(a_stats, b_stats) and np.array_equal(a_priority, b_priority) and torch.equal(a, b)


def test_the_target_moves_only_when_it_is_due():
    one = learner(options=Options(batch_size=16, target_every_updates=6), updates=4)
    batch = batches(VECTOR, 24, 16)
    start = one.target.clone()
    feed(one, rows(batch, 0, 4))
    assert torch.equal(one.target, start) and not torch.equal(one.params, start)
    feed(one, rows(batch, 4, 4))  # due in the middle of this cycle, after its second update
    twin = learner(options=Options(batch_size=16, target_every_updates=6), updates=6)
    feed(twin, rows(batch, 0, 6))
    assert torch.equal(one.target, twin.params) and not torch.equal(one.target, one.params)


def test_without_masks():
    """The unmasked program takes other inputs; all actions legal is the same arithmetic."""
    batch = batches(VECTOR, 8, 16)
    batch.next_mask[:] = True
    masked, plain = learner(VECTOR), learner(UNMASKED)
    a, b = feed(masked, batch), feed(plain, replace(batch, next_mask=None))
    assert np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1]) and torch.equal(masked.params, plain.params)


@pytest.mark.parametrize(("case", "compile"), [*((case, False) for case in CASES), (next(iter(CASES)), True)], ids=str)
def test_batches_that_are_accumulated_equal_one_large_batch(case, compile):
    options, variant, head = CASES[case]
    batch = batches(VECTOR, 24, 16, seed=2)
    whole = learner(options=options, variant_options=variant, head=head)
    parts = replace(options, batch_size=4, accumulate=4)
    pieces = learner(options=parts, variant_options=variant, head=head, compile=compile)
    (a_stats, a_priority), (b_stats, b_priority) = feed(whole, batch), feed(pieces, batch)
    assert np.abs(a_stats / b_stats - 1).max() < 2e-5 and np.abs(a_priority - b_priority).max() < 1e-5
    assert (whole.params - pieces.params).abs().max() < 2e-6 and (whole.target - pieces.target).abs().max() < 2e-6
    assert (whole.params - learner(head=head).params).abs().max() > 0.01 and pieces.updates == 24
