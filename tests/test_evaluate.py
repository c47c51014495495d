"""Episodes with a policy: as many as asked for, each lane alike, on seeds of their own, with an honest interval."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.collect.policies import Random
from hotloop.core.schema import new_steps
from hotloop.envs._world import world
from hotloop.evaluate import evaluation_seed, interval, play
from hotloop.outcome import greedy
from hotloop.pipeline import build_pipeline
from hotloop.trace import Trace
from tests import running


@pytest.mark.parametrize(("episodes", "lanes", "played"), [(1, 0, 1), (7, 0, 7), (130, 0, 256), (7, 3, 9), (5, 1, 5)])
def test_at_least_as_many_as_asked_for_and_the_same_in_every_lane(episodes, lanes, played):
    found = play(world("identity", {}), world("identity", {}).heuristic, episodes, 0, lanes)
    assert found.episodes == played and found.unfinished == 0
    assert (found.returns == 10).all() and (found.lengths == 10).all() and (found.measures["correct"] == 10).all()


def test_against_one_lane_at_a_time():
    """Lane by lane in an environment of one lane: the same episodes, in the order of lanes."""
    cartpole = world("cartpole", {})
    together = play(cartpole, cartpole.heuristic, 6, 11, lanes=3)
    returns, lengths = [], []
    for lane in range(3):
        env, out = cartpole.make(1, first_lane=lane), new_steps(cartpole.spec(), 1)
        env.reset(11, out)
        policy = cartpole.heuristic(env)
        total, length, done = 0.0, 0, 0
        while done < 2:
            env.step(policy(out.obs, None), out)
            total, length = total + float(out.reward[0]), length + 1
            if out.terminated[0] or out.truncated[0]:
                returns.append(total)
                lengths.append(length)
                total, length, done = 0.0, 0, done + 1
    assert together.returns.tolist() == returns and together.lengths.tolist() == lengths


def test_the_same_seed_plays_the_same_and_training_never_uses_it():
    snake = world("snake", {"size": 5})
    a, b, c = (play(snake, lambda env: Random(env.spec, env.lanes, 3), 16, seed) for seed in (1, 1, 2))
    assert a.returns.tolist() == b.returns.tolist() != c.returns.tolist()
    seeds = {evaluation_seed(seed, number) for seed in range(50) for number in range(50)}
    assert len(seeds) == 2_500
    assert all(0 <= seed < 2**63 and seed > 10**6 for seed in seeds)


def test_short_episodes_are_not_counted_more_often():
    """Half of the lanes play episodes of 2 steps, the others of 20: the first to end are not taken for all."""

    class Uneven:
        spec = world("identity", {}).spec()
        lanes = 4

        def reset(self, seed, out):
            self.age = np.zeros(4, np.int64)

        def step(self, actions, out):
            self.age += 1
            out.reward[:] = 1
            out.terminated[:] = self.age == np.array([2, 20, 2, 20])
            out.truncated[:] = False
            out.measures[:] = 0
            self.age[out.terminated] = 0

        def close(self): ...

    class Found:
        def judged(self):
            return self

        def make(self, lanes):
            return Uneven()

    found = play(Found(), lambda env: lambda obs, mask: np.zeros(4, np.int32), 12, 0, lanes=4)  # type: ignore[arg-type]
    assert sorted(found.returns.tolist()) == [2.0] * 6 + [20.0] * 6


def test_an_episode_that_does_not_end_is_counted_as_it_stands():
    found = play(world("cartpole", {}), world("cartpole", {}).heuristic, 3, 0, longest=7)
    assert (found.unfinished, found.lengths.tolist(), found.returns.tolist()) == (3, [7] * 3, [7.0] * 3)
    assert np.isnan(found.measures["steps"]).all()


def test_the_environment_is_closed_also_after_an_error():
    closed = []

    class Env:
        spec, lanes = world("identity", {}).spec(), 1

        def reset(self, seed, out):
            raise RuntimeError("broken")

        def close(self):
            closed.append(True)

    class Found:
        def judged(self):
            return self

        def make(self, lanes):
            return Env()

    with pytest.raises(RuntimeError, match="broken"):
        play(Found(), lambda env: lambda obs, mask: np.zeros(1, np.int32), 1, 0)  # type: ignore[arg-type]
    assert closed == [True]


def test_the_greedy_policy_takes_the_best_action_and_leaves_the_run_alone():
    pipeline = build_pipeline(running.config("snake"), Trace())
    before = {name: array.copy() for name, array in pipeline.state().items()}
    first, second, other = greedy(pipeline, 0), greedy(pipeline, 0), greedy(pipeline, 1)
    assert first.returns.tolist() == second.returns.tolist()
    assert first.lengths.tolist() != other.lengths.tolist() or first.returns.tolist() != other.returns.tolist()
    for name, array in pipeline.state().items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


# --- the interval ----------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=40))
def test_the_interval_holds_the_mean_and_lies_within_the_values(values: list[Any]):
    array = np.array(values)
    low, high = interval(array, resamples=200)
    assert array.min() - 1e-9 <= low <= high <= array.max() + 1e-9
    assert interval(array, resamples=200) == (low, high)
    if len(set(values)) == 1:
        assert low == pytest.approx(values[0]) and high == pytest.approx(values[0])


def test_it_is_as_wide_as_theory_says():
    values = np.random.default_rng(0).normal(5.0, 2.0, 400)
    low, high = interval(values)
    half = 1.96 * values.std(ddof=1) / 20
    assert low == pytest.approx(values.mean() - half, abs=0.1 * half + 0.01)
    assert high == pytest.approx(values.mean() + half, abs=0.1 * half + 0.01)


def test_it_covers_the_truth_as_often_as_it_says():
    generator = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        low, high = interval(generator.exponential(1.0, 60), resamples=300)
        hits += low <= 1.0 <= high
    assert 0.88 <= hits / 200 <= 0.99


def test_nothing_has_no_interval():
    assert np.isnan(interval(np.empty(0))).all()
    assert interval(np.array([3.0])) == (3.0, 3.0)
