"""λ-returns: by hand, against the definition as a sum of n-step returns, and of blocks as the replay holds them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.core.schema import new_batch
from hotloop.core.types import Arrays, Block, EnvSpec
from hotloop.learn.returns import BlockReturns, lambda_returns
from tests.replay.writing import PARTS, PIXELS, PLAIN, Writer

NO_MASK = np.ones((1, 1, 1), np.bool_)


def kernel(reward, discount, goes_on, q, trace_lambda, mask=None) -> np.ndarray:
    arrays = [np.asarray(a, np.float32) for a in (reward, discount)]
    out = np.full(arrays[0].shape, np.nan, np.float32)
    lambda_returns(
        *arrays, np.asarray(goes_on, bool), np.asarray(q, np.float32), NO_MASK if mask is None else mask,
        mask is not None, trace_lambda, out,
    )  # fmt: skip
    return out


def of_one_lane(reward, discount, goes_on, best, trace_lambda) -> list[float]:
    """best: value of each next observation, beside a worse action."""
    columns = (np.array(x)[:, None] for x in (reward, discount, goes_on))
    q = np.stack([np.array(best), np.array(best) - 3.0], -1)[:, None]
    return kernel(*columns, q, trace_lambda)[:, 0].tolist()


# γ = 0.5 and λ = 0.5; values of the next observations are 8, 4, 2, 16.
V = [8.0, 4.0, 2.0, 16.0]


@pytest.mark.parametrize(
    ("discount", "goes_on", "expected"),
    [
        # R3 = 1 + .5·16 = 9; R2 = 1 + .5(.5·2 + .5·9) = 3.75; R1 = 1 + .5(.5·4 + .5·3.75) = 2.9375;
        # R0 = 1 + .5(.5·8 + .5·2.9375)
        ([0.5] * 4, [True] * 4, [3.734375, 2.9375, 3.75, 9.0]),
        # terminated after 1: R1 = 1, whatever its value; R0 = 1 + .5(.5·8 + .5·1)
        ([0.5, 0.0, 0.5, 0.5], [True, False, True, True], [3.25, 1.0, 3.75, 9.0]),
        # truncated after 1: R1 = 1 + .5·4 and nothing of R2; R0 = 1 + .5(.5·8 + .5·3)
        ([0.5] * 4, [True, False, True, True], [3.75, 3.0, 3.75, 9.0]),
    ],
    ids=["goes on", "terminated", "truncated"],
)
def test_by_hand(discount, goes_on, expected):
    assert of_one_lane([1.0] * 4, discount, goes_on, V, 0.5) == expected


def test_the_ends_of_lambda():
    """0 is the one-step target; 1 sums rewards to the end of the block, whose value follows."""
    assert of_one_lane([1.0] * 4, [0.5] * 4, [True] * 4, V, 0.0) == [5.0, 3.0, 2.0, 9.0]
    assert of_one_lane([1.0] * 4, [0.5] * 4, [True] * 4, V, 1.0) == [1.75 + 0.125 * 9, 1.5 + 0.25 * 9, 1 + 0.5 * 9, 9.0]


def by_definition(reward, discount, goes_on, value, trace_lambda) -> np.ndarray:
    """(1 − λ) Σ λ^(n−1) G^(n) + λ^(K−1) G^(K), K steps to the end of the episode or of the block."""
    out = np.zeros(reward.shape)
    for t, lane in np.ndindex(reward.shape):
        end = t
        while goes_on[end, lane] and end < len(reward) - 1:
            end += 1
        long = end - t + 1
        steps = []
        for n in range(1, long + 1):
            total, gamma = 0.0, 1.0
            for k in range(t, t + n):
                total += gamma * reward[k, lane]
                gamma *= discount[k, lane]
            steps.append(total + gamma * value[t + n - 1, lane])
        shares = [(1 - trace_lambda) * trace_lambda ** (n - 1) for n in range(1, long)] + [trace_lambda ** (long - 1)]
        out[t, lane] = np.dot(shares, steps)
    return out


@settings(max_examples=200, deadline=None)
@given(
    steps=st.integers(1, 12), lanes=st.integers(1, 4), actions=st.integers(1, 4), masked=st.booleans(),
    trace_lambda=st.sampled_from([0.0, 0.3, 0.65, 0.95, 1.0]), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_against_the_definition(steps, lanes, actions, masked, trace_lambda, seed):
    rng = np.random.default_rng(seed)
    reward, q = rng.normal(size=(steps, lanes)), rng.normal(size=(steps, lanes, actions))
    kind = rng.choice([0, 0, 0, 1, 2], (steps, lanes))  # goes on, terminated, truncated
    discount = np.where(kind == 1, 0.0, 0.9)
    mask = rng.random((steps, lanes, actions)) < 0.5
    mask[..., 0] |= ~mask.any(-1)
    value = np.where(mask, q, -np.inf).max(-1) if masked else q.max(-1)
    if masked:
        q = np.where(mask, q, rng.choice([1e30, np.nan], q.shape))  # no illegal action enters
    found = kernel(reward, discount, kind == 0, q, trace_lambda, mask if masked else None)
    np.testing.assert_allclose(found, by_definition(reward, discount, kind == 0, value, trace_lambda), atol=1e-5)


def test_lanes_are_independent_and_what_is_not_finite_shows():
    rng = np.random.default_rng(0)
    reward, q, on = rng.normal(size=(6, 3)), rng.normal(size=(6, 3, 2)), np.ones((6, 3), bool)
    plain = kernel(reward, np.full((6, 3), 0.9), on, q, 0.7)
    q[4, 1, 0] = np.nan
    other = kernel(reward, np.full((6, 3), 0.9), on, q, 0.7)
    assert (plain[:, [0, 2]] == other[:, [0, 2]]).all()
    assert np.isnan(other[:5, 1]).all() and np.isfinite(other[5, 1])


# --- of blocks in the replay -----------------------------------------------------------------------------------------


def values(obs: Arrays) -> np.ndarray:
    """Three actions by the newest frame of every part: what the raw block says can be reckoned from."""
    total = sum(part.reshape(len(part), -1)[:, -_ENTRY[name] :].astype(np.float64).sum(1) for name, part in obs.items())
    return np.stack([total, -total, 0.5 * total + 1], -1).astype(np.float32)


_ENTRY: dict[str, int] = {}


def entries(spec: EnvSpec) -> None:
    _ENTRY.update({f.name: int(np.prod(f.shape, dtype=int)) for f in spec.observation})


def expected(block: Block, gamma: float, trace_lambda: float) -> np.ndarray:
    """[T, N], from the block as the collector made it."""
    ended = block.terminated | block.truncated
    value = np.zeros(block.reward.shape)
    for t, lane in np.ndindex(block.reward.shape):
        if block.terminated[t, lane]:
            continue
        final = bool(block.truncated[t, lane])
        source = {k: (block.final_obs[k][t] if final else block.obs[k][t + 1])[lane][None] for k in block.obs}
        q = values(source)[0]
        if block.mask is not None:
            q = q[(block.final_mask[t] if final else block.mask[t + 1])[lane]]
        value[t, lane] = q.max()
    discount = np.where(block.terminated, 0.0, gamma)
    return by_definition(block.reward.astype(np.float64), discount, ~ended, value, trace_lambda)


@pytest.mark.parametrize("observation", [PLAIN, PIXELS, PARTS], ids=["plain", "pixels", "parts"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("capacity", [21, 200])
def test_of_the_newest_block_whatever_else_the_replay_holds(observation, masked, capacity):
    w = Writer(observation, lanes=3, capacity=capacity, masked=masked, actions=3, gamma=0.9)
    entries(w.spec)
    returns = BlockReturns(w.spec, w.store, 7, 0.6)
    slots = np.empty((2, 30), np.int64)
    batch = new_batch(w.spec, 2, 30)
    for _ in range(5):
        block = w.write(7)
        begin = w.store.window().first + w.store.window().count - 7
        t, lane = w.rng.integers(0, 7, slots.shape), w.rng.integers(0, 3, slots.shape)
        slots[:] = lane * w.store.slots_per_lane + (begin + t) % w.store.slots_per_lane
        w.store.gather(slots, batch)
        returns.fill(slots, values, batch)
        np.testing.assert_allclose(batch.reward, expected(block, 0.9, 0.6)[t, lane], rtol=2e-5, atol=1e-3)
        assert (batch.discount == 0).all()


def test_steps_that_were_displaced_are_left_out():
    """Every step truncated, and room for few final observations: the oldest steps of the block have left the window."""
    w = Writer(PLAIN, lanes=2, capacity=20, share=0.02, actions=3, gamma=0.9)
    entries(w.spec)
    returns = BlockReturns(w.spec, w.store, 10, 0.6)
    block = w.write(10, terminate=0.0, truncate=1.0)
    window = w.store.window()
    assert 0 < window.count < 10
    slots = w.slots()
    batch = new_batch(w.spec, *slots.shape)
    w.store.gather(slots, batch)
    returns.fill(slots, values, batch)
    whole = expected(block, 0.9, 0.6)[-window.count :]
    np.testing.assert_allclose(batch.reward[0], whole.T.reshape(-1), rtol=2e-5, atol=1e-3)


def test_an_episode_that_was_cut_bootstraps_from_where_it_was_cut():
    w = Writer(PLAIN, lanes=2, capacity=40, actions=3, gamma=0.9)
    entries(w.spec)
    returns = BlockReturns(w.spec, w.store, 5, 0.6)
    block = w.write(5, terminate=0.0, truncate=0.0)
    w.cut()
    slots = w.slots()
    batch = new_batch(w.spec, *slots.shape)
    w.store.gather(slots, batch)
    returns.fill(slots, values, batch)
    np.testing.assert_allclose(batch.reward[0], expected(block, 0.9, 0.6).T.reshape(-1), rtol=2e-5, atol=1e-3)


def test_the_loss_is_the_distance_to_the_return():
    """(2 − 0.5)² and ½·1.5² under Huber with a wide delta; neither discount nor what follows enters."""
    from hotloop.learn.variants import pqn
    from hotloop.learn.variants._base import Transitions

    obs, other = {"obs": torch.tensor([[0.5, 9.0]])}, {"obs": torch.tensor([[1e9, 1e9]])}
    batch = Transitions(
        obs, torch.tensor([0]), torch.tensor([2.0]), torch.tensor([0.9]), other, None, torch.ones(1)
    )  # fmt: skip
    for options, loss in ((pqn.Options(), 2.25), (pqn.Options(loss="huber", huber_delta=5.0), 1.125)):
        out = pqn.loss(lambda obs: obs["obs"], batch, (), options)  # type: ignore[arg-type]
        assert (out.loss.item(), out.priority.item(), out.q.item()) == (loss, 1.5, 0.5)
