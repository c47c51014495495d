from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from hotloop.learn.learner import PATIENCE, NotFinite
from hotloop.learn.optimizers import Options as Optimizer
from tests.learn.test_step import CASES, HARD
from tests.learn.toy import TWO_PARTS, VECTOR, batches, feed, fill, learner, rows

COMPILED = [False, True]
TWO = list(CASES)[:2]  # the cases that test_step compiles too, so that nothing is compiled twice


def of(case: str, *, updates: int, compile: bool = False, **more):
    options, variant, head = CASES[case]
    return learner(options=options, variant_options=variant, head=head, updates=updates, compile=compile, **more)


@pytest.mark.parametrize("compile", COMPILED, ids=["eager", "compiled"])
@pytest.mark.parametrize("case", TWO)
def test_how_updates_are_grouped_into_calls_changes_no_bit(case, compile):
    """Batches of 16 rows fill whole registers; odd sizes may differ in the last bit, since a matrix product may."""
    batch = batches(VECTOR, 56, 16)
    base = of(case, updates=1, compile=compile)
    stats, priority = feed(base, batch)
    for updates in (2, 7, 8, 56):  # the target of the hard case is due after 50, within a call
        other = of(case, updates=updates, compile=compile)
        s, p = feed(other, batch)
        assert torch.equal(other.params, base.params) and torch.equal(other.target, base.target), updates
        assert all(torch.equal(a, b) for a, b in zip(other.moments, base.moments, strict=True))
        assert np.array_equal(p, priority) and np.array_equal(s[:, [0, 3]], stats[:, [0, 3]])


def spoil(field: str, value: float, rows: slice | int = 0):
    """Write `value` to rows of the second update that do not end their episode."""

    def write(batch) -> None:
        array = getattr(batch, field)
        going_on = np.flatnonzero(batch.discount[1] > 0)
        (array["obs"] if isinstance(array, dict) else array)[1, going_on[rows]] = value

    return write


def overflow_the_gradient(batch) -> None:
    """Errors whose squares fit in a float, times activations so large that the squares of the gradient do not."""
    spoil("reward", 1e18)(batch)
    batch.obs["obs"][1] *= 1e4


HUBER, MSE = TWO
POISONS = {
    "reward is nan": (TWO, spoil("reward", np.nan)),
    "reward is inf": (TWO, spoil("reward", np.inf)),
    "weight is nan": (TWO, spoil("weight", np.nan)),
    "weight is inf": (TWO, spoil("weight", -np.inf)),
    "obs is nan": (TWO, spoil("obs", np.nan)),
    "obs is inf": (TWO, spoil("obs", np.inf)),
    "next_obs is nan": (TWO, spoil("next_obs", np.nan)),
    "the square of the error overflows": ([MSE], spoil("reward", 3e38)),
    "the loss overflows and its gradient does not": ([HUBER], spoil("reward", 3e38, slice(None))),
    "the gradient overflows and the loss does not": ([MSE], overflow_the_gradient),
}


@pytest.mark.parametrize("compile", COMPILED, ids=["eager", "compiled"])
@pytest.mark.parametrize(("poison", "case"), [(name, case) for name, (cases, _) in POISONS.items() for case in cases])
def test_an_update_that_is_not_finite_changes_nothing_and_is_counted(case, compile, poison):
    batch = batches(VECTOR, 3, 16)
    POISONS[poison][1](batch)
    one = of(case, updates=1, compile=compile)
    feed(one, rows(batch, 0, 1))
    before = one.state()
    stats, _ = feed(one, rows(batch, 1, 1))
    after = one.state()
    for name in ("params", "target", *(f"moment{i}" for i in range(len(one.moments)))):
        assert np.array_equal(before[name], after[name]), name
    assert stats[0, 3] == 0 and one.refused == one.refused_in_a_row == 1
    if "does not" in poison:  # one of loss and gradient norm is finite, and it is refused all the same
        assert np.isfinite(stats[0, [0, 2]]).tolist() == (["gradient over" in poison, "loss over" in poison])
    stats, _ = feed(one, rows(batch, 2, 1))
    assert stats[0, 3] == 1 and not torch.equal(one.params, torch.from_numpy(before["params"]))
    assert one.refused == 1 and one.refused_in_a_row == 0 and one.updates == 3
    assert all(np.isfinite(array).all() for array in one.state().values())
    # and all of it within one call
    whole = of(case, updates=3, compile=compile)
    stats, _ = feed(whole, batch)
    assert stats[:, 3].tolist() == [1, 0, 1] and whole.refused == 1
    assert torch.equal(whole.params, one.params) and torch.equal(whole.target, one.target)


@pytest.mark.parametrize("updates", [1, 4, 20])
def test_ten_in_a_row_are_too_many(updates):
    batch = batches(VECTOR, 40, 16)
    batch.reward[3 : 3 + PATIENCE - 1, 0] = np.nan  # nine, then a good one
    batch.reward[20 : 20 + PATIENCE, 5] = np.nan  # ten
    one = learner(updates=updates)
    with pytest.raises(NotFinite, match="10 updates in a row"):
        feed(one, batch)
    assert one.refused == 19 and one.updates == {1: 30, 4: 32, 20: 40}[updates]
    assert torch.isfinite(one.params).all(), "what is checkpointed then is the last good state"


@pytest.mark.parametrize("case", CASES)
def test_state_and_back_gives_the_same_bits(case):
    batch = batches(VECTOR, 24, 16)
    one = of(case, updates=4)
    feed(one, rows(batch, 0, 8))
    state = one.state()
    feed(one, rows(batch, 8, 16))
    other = of(case, updates=4, seed=9)
    other.set_state(state)
    kept = {name: array.copy() for name, array in state.items()}
    feed(other, rows(batch, 8, 16))
    assert all(np.array_equal(state[name], kept[name]) for name in state), "a state that was read is not written to"
    another = of(case, updates=4)
    another.set_state(state)
    for array in state.values():
        array[:] = 77  # the caller's memory is the caller's
    feed(another, rows(batch, 8, 16))
    ends = one.state(), other.state(), another.state()
    assert all(np.array_equal(ends[0][name], end[name]) for end in ends[1:] for name in end)


def test_published_weights_are_never_written_to_again():
    batch = batches(VECTOR, 16, 16)
    for case in TWO:
        one = of(case, updates=4)
        feed(one, rows(batch, 0, 4))
        published, bits = one.params, one.params.clone()
        feed(one, rows(batch, 4, 12))
        assert torch.equal(published, bits) and not torch.equal(one.params, bits)


def test_the_schedule_reaches_the_update():
    """A rate that ends at zero: the last update changes nothing, the one before it does."""
    options = replace(HARD, optimizer=Optimizer(learning_rate_end=0.0))
    batch = batches(VECTOR, 20, 16)
    one = learner(options=options, updates=1, total=20)
    feed(one, rows(batch, 0, 18))
    before = one.params.clone()
    feed(one, rows(batch, 18, 1))
    assert not torch.equal(one.params, before)
    before = one.params.clone()
    feed(one, rows(batch, 19, 1))
    assert torch.equal(one.params, before)


def test_weights_weigh():
    """A row of weight 0 has no gradient, whatever it holds; a row of weight 2 counts as two rows."""
    batch = batches(VECTOR, 1, 16)
    batch.weight[:] = 1
    batch.weight[0, 0], batch.weight[0, 1] = 0, 2
    changed = rows(batch, 0, 1)
    changed.reward = batch.reward.copy()
    changed.reward[0, 0] += 50
    doubled = rows(batch, 0, 1)
    order = [1, 1, *range(2, 16)]
    doubled = replace(
        doubled, obs={"obs": batch.obs["obs"][:, order]}, next_obs={"obs": batch.next_obs["obs"][:, order]},
        action=batch.action[:, order], reward=batch.reward[:, order], discount=batch.discount[:, order],
        next_mask=batch.next_mask[:, order], weight=np.ones_like(batch.weight),
    )  # fmt: skip
    params = []
    for b in (batch, changed, doubled):
        one = learner(options=HARD, updates=1)
        feed(one, b)
        params.append(one.params)
    assert torch.equal(params[0], params[1])
    assert torch.allclose(params[0], params[2], atol=1e-6)


def test_a_parameter_that_nothing_depends_on_stays_and_the_rest_learns():
    one = learner(TWO_PARTS, network="tests.references.user_network:Parts", updates=2)
    before = one.params.clone()
    feed(one, batches(TWO_PARTS, 8, 16))
    changed = one.params != before
    unused = 3  # the first parameters of the module, as it defines them
    assert not changed[:unused].any() and changed[unused:].float().mean() > 0.9


def test_tied_parameters_are_one():
    one = learner(network="tests.references.user_network:Tied", updates=2)
    assert one.params.numel() == (5 * 5 + 5) + (5 * 4 + 4)
    stats, _ = feed(one, batches(VECTOR, 4, 16))
    assert (stats[:, 3] == 1).all()


def test_the_batch_is_read_and_never_written():
    one = of(TWO[1], updates=4)
    batch = batches(VECTOR, 4, 16)
    fill(one.batch, batch)
    one.update()
    assert np.array_equal(one.batch.reward, batch.reward) and np.array_equal(one.batch.obs["obs"], batch.obs["obs"])
