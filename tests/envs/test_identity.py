from __future__ import annotations

import numpy as np
import pytest

from hotloop.core.errors import UserError
from hotloop.core.schema import new_steps
from hotloop.envs.identity import EPISODE, Options, heuristic, make, spec


def test_the_right_action_is_the_one_shown():
    env = make(Options(size=5), 32)
    policy = heuristic(Options(size=5), env)
    out = new_steps(env.spec, 32)
    env.reset(0, out)
    rng = np.random.default_rng(0)
    correct = np.zeros(32)
    for t in range(1, 5 * EPISODE + 1):
        assert (np.sort(out.obs["obs"], axis=1) == [0, 0, 0, 0, 1]).all()
        right = out.obs["obs"].argmax(axis=1)
        assert (policy(out.obs, None) == right).all()
        action = rng.integers(0, 5, 32).astype(np.int32)
        env.step(action, out)
        assert (out.reward == (action == right)).all()
        correct += out.reward
        assert (out.terminated == (t % EPISODE == 0)).all() and not out.truncated.any()
        if t % EPISODE == 0:
            assert (out.measures[:, 0] == correct).all()
            assert (np.sort(out.final_obs["obs"], axis=1) == [0, 0, 0, 0, 1]).all()
            correct[:] = 0


def test_what_is_shown_is_uniform_and_cannot_be_foreseen():
    env = make(Options(), 4000)
    out = new_steps(env.spec, 4000)
    env.reset(1, out)
    pairs = np.zeros((4, 4))
    for _ in range(12):  # over the end of an episode
        before = out.obs["obs"].argmax(axis=1)
        env.step(np.zeros(4000, np.int32), out)
        np.add.at(pairs, (before, out.obs["obs"].argmax(axis=1)), 1)
    assert abs(pairs / 3000 - 1).max() < 0.08  # 3,000 expected in each cell, standard deviation 53


def test_size_sets_the_shape_and_its_range_is_kept():
    assert spec(Options(size=7)).num_actions == 7 and spec(Options(size=7)).observation[0].shape == (7,)
    with pytest.raises(UserError, match="at least 2"):
        make(Options(size=1), 1)
    env = make(Options(), 1)
    env.reset(0, new_steps(env.spec, 1))
    assert "step 0 of 10" in env.render()
