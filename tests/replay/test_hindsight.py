"""Hindsight against the naive model: a relabelled sample is what its transition would have been with a goal that its
own episode reached later, and nothing else is touched."""

from __future__ import annotations

import copy

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from scipy.stats import chisquare

from hotloop.core.errors import UserError
from hotloop.core.types import Batch, EnvSpec, Field, Goal
from hotloop.replay.hindsight import Hindsight
from tests.references.replay import Model
from tests.replay.writing import Writer

VECTORS = (
    Field("observation", (2,), "float32"),
    Field("achieved_goal", (4,), "int32"),
    Field("desired_goal", (4,), "int32"),
)
STACKED = (
    Field("picture", (2, 2), "uint8", stack=3),
    Field("achieved_goal", (4,), "uint8", stack=3),
    Field("desired_goal", (4,), "uint8", stack=3),
)


def worth(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
    assert achieved.shape == desired.shape and achieved.ndim == 2
    return ((achieved.astype(int) * 3 - desired).sum(axis=-1) % 11 - 5).astype(np.float64)


def over(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
    return (achieved.astype(int) + desired).sum(axis=-1) % 4 == 0


GOAL = Goal(reward=worth, terminated=over)


def later(model: Model, lane: int, k: int) -> list[np.ndarray]:
    """What the episode achieved after step k and each later one, as far as it is stored."""
    steps, found = model.history[lane], []
    for j in range(k, len(steps)):
        if steps[j].end == "terminated":
            break
        if steps[j].end == "truncated":
            found.append(steps[j].final_obs["achieved_goal"])
            break
        obs = steps[j + 1].obs if j + 1 < len(steps) else model.tail[lane][0]
        found.append(obs["achieved_goal"])
    return found


def span(model: Model, lane: int, k: int) -> tuple[int, bool]:
    """How many steps the n-step sample covers, and whether it ends by the rules."""
    for j in range(model.n_step):
        if model.history[lane][k + j].end:
            return j + 1, model.history[lane][k + j].end == "terminated"
    return model.n_step, False


def assert_relabelled(batch: Batch, plain: Batch, i: int, model: Model, lane: int, k: int) -> bool:
    """Whether sample i has another goal; if so it follows from it, if not nothing was changed."""
    wanted = batch.obs["desired_goal"][0, i]
    if (wanted == plain.obs["desired_goal"][0, i]).all() and batch.reward[0, i] == plain.reward[0, i]:
        for ours, theirs in zip(contents(batch, i), contents(plain, i), strict=True):
            assert np.array_equal(ours, theirs)
        return False
    goal = wanted[-1] if wanted.ndim == 2 else wanted
    assert (wanted == goal).all(), "one goal for all frames"
    taken, by_the_rules = span(model, lane, k)
    reached = later(model, lane, k)
    assert not by_the_rules and any((goal == a).all() for a in reached)
    total, ended = 0.0, False
    for j in range(taken):
        total += model.gamma**j * float(worth(reached[j][None], goal[None])[0])
        ended = bool(over(reached[j][None], goal[None])[0])
        if ended:
            break
    assert batch.reward[0, i] == pytest.approx(total, rel=1e-6, abs=1e-6)
    assert batch.discount[0, i] == (0 if ended else np.float32(model.gamma**taken))
    for name, part in batch.obs.items():
        assert name == "desired_goal" or np.array_equal(part[0, i], plain.obs[name][0, i])
    for name, part in batch.next_obs.items():
        if ended:
            assert not part[0, i].any()
        elif name == "desired_goal":
            assert (part[0, i] == goal).all()
        else:
            assert np.array_equal(part[0, i], plain.next_obs[name][0, i])
    if batch.next_mask is not None and ended:
        assert batch.next_mask[0, i].all()
    assert batch.action[0, i] == plain.action[0, i]
    return True


def contents(batch: Batch, i: int) -> list[np.ndarray]:
    masks = [] if batch.next_mask is None else [batch.next_mask]
    return [
        a[0, i]
        for a in (batch.action, batch.reward, batch.discount, *masks, *batch.obs.values(), *batch.next_obs.values())
    ]


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    observation=st.sampled_from([VECTORS, STACKED]),
    lanes=st.integers(1, 3),
    capacity=st.sampled_from([1, 7, 29]),
    n_step=st.sampled_from([1, 3]),
    share=st.sampled_from([0.02, 1.0]),
    masked=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
    blocks=st.lists(st.integers(1, 20), min_size=1, max_size=5),
    ends=st.sampled_from([(0.0, 0.0), (0.1, 0.1), (0.0, 0.3), (0.4, 0.0)]),
)
def test_what_is_relabelled_follows_from_its_new_goal(
    observation, lanes, capacity, n_step, share, masked, seed, blocks, ends
):
    w = Writer(observation, lanes=lanes, capacity=capacity, n_step=n_step, share=share, masked=masked, seed=seed)
    hindsight = Hindsight(w.store, GOAL, 4)
    for steps in blocks:
        w.write(steps, *ends)
        if not w.store.size:
            continue
        plain = w.gather()
        plain.weight.fill(1)
        batch = copy.deepcopy(plain)
        hindsight.relabel(w.slots(), 3, steps, batch)
        for i, (lane, k) in enumerate(w.model.sampleable()):
            assert_relabelled(batch, plain, i, w.model, lane, k)


def one_episode(k: int, steps: int = 30, n_step: int = 1) -> tuple[Writer, Hindsight]:
    w = Writer(VECTORS, lanes=1, capacity=100, n_step=n_step, seed=1)
    w.write(steps, 0.0, 0.0)
    return w, Hindsight(w.store, GOAL, k)


@pytest.mark.parametrize("k", [1, 4])
def test_of_k_and_one_samples_k_are_relabelled_with_any_later_goal_alike(k):
    _, hindsight = one_episode(k)
    slots = np.full((1, 20_000), 5)
    drawn = hindsight._draw(slots, 3, 0)
    assert len(drawn) / 20_000 == pytest.approx(k / (k + 1), abs=0.02)
    found = np.bincount(drawn[:, 2], minlength=31)
    assert not found[:6].any() and chisquare(found[6:]).pvalue > 0.001  # 6 … 30: the newest observation among them


def test_nothing_is_relabelled_where_k_is_tiny_or_the_episode_is_over():
    w, hindsight = one_episode(4)
    block = w.random_block(1, 1.0, 0.0, False)
    w.store.write(block)
    assert len(hindsight._draw(np.full((1, 1_000), 30), 3, 0)) == 0
    before_the_end = hindsight._draw(np.full((1, 1_000), 29), 3, 0)
    assert len(before_the_end) > 700 and (before_the_end[:, 2] == 30).all()


def test_the_same_request_is_answered_alike_and_each_update_draws_anew():
    _, hindsight = one_episode(4)
    slots = np.tile(np.arange(28), (3, 4))
    whole = hindsight._draw(slots, 3, 10).copy()
    rows = [hindsight._draw(slots[u : u + 1], 3, 10 + u).copy() for u in range(3)]
    for u, part in enumerate(rows):
        part[:, 0] += u * slots.shape[1]
    assert np.array_equal(whole, np.concatenate(rows))
    assert not np.array_equal(rows[0][:, 2][:50], rows[1][:, 2][:50])


def test_a_world_that_ends_by_no_goal_goes_on():
    w, _ = one_episode(4)
    hindsight = Hindsight(w.store, Goal(reward=worth), 4)
    batch = w.gather()
    hindsight.relabel(w.slots(), 3, 0, batch)
    assert (batch.discount == np.float32(w.store.gamma)).all()


@pytest.mark.parametrize(
    ("observation", "said"),
    [
        ((Field("obs", (2,), "float32"),), "has goals but no observation part 'achieved_goal'"),
        (
            (VECTORS[1], Field("desired_goal", (3,), "int32")),
            r"achieved_goal is int32\[4\] but desired_goal int32\[3\]",
        ),
        ((VECTORS[1], Field("desired_goal", (4,), "uint8")), "a goal has to be of the kind of what is achieved"),
    ],
)
def test_goals_that_cannot_be_compared_are_refused(observation, said):
    from hotloop.replay.hindsight import fields_of

    with pytest.raises(UserError, match=said):
        fields_of(EnvSpec("made-up", observation, 2), GOAL)
