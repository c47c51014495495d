from __future__ import annotations

import gymnasium
import numpy as np

from hotloop.core.schema import new_steps
from hotloop.envs import cartpole
from hotloop.envs.cartpole import MAX_STEPS, Options, bounds, heuristic, make


def test_ten_thousand_steps_like_gymnasium():
    """Gymnasium's state is copied into ours before each step, so that no error can hide behind an earlier one."""
    theirs = gymnasium.make("CartPole-v1", disable_env_checker=True)
    ours = make(Options(), 1)
    out = new_steps(ours.spec, 1)
    ours.reset(0, out)
    rng = np.random.default_rng(0)
    theirs.reset(seed=0)
    age, ends = 0, 0
    for _ in range(10_000):
        state = ours.state()
        before = np.array(theirs.unwrapped.state)  # type: ignore[attr-defined]
        state["body"][0], state["age"][0] = before, age
        ours.set_state(state)
        # a controller with noise: episodes long enough to reach the limits of position and of steps
        lean = before[2] + 0.25 * before[3] + 0.02 * before[0]
        action = int(rng.integers(2) if rng.random() < 0.2 + 0.4 * (ends % 3 == 1) else lean > 0)
        obs, reward, terminated, truncated, _ = theirs.step(action)
        ours.step(np.array([action], np.int32), out)
        age += 1
        ended = terminated or truncated
        seen = out.final_obs["obs"][0] if ended else out.obs["obs"][0]
        assert np.abs(seen - obs).max() < 1e-6
        assert not ended or out.measures[0, 0] == age
        if not ended:
            assert np.abs(ours.state()["body"][0] - theirs.unwrapped.state).max() < 1e-12  # type: ignore[attr-defined]
        ends_like = reward, terminated, truncated and not terminated
        assert (out.reward[0], out.terminated[0], out.truncated[0]) == ends_like
        if ended:
            theirs.reset()
            age, ends = 0, ends + 1
    assert ends > 20


def test_limits_of_position_angle_and_time():
    env = make(Options(), 5)
    out = new_steps(env.spec, 5)
    env.reset(0, out)
    state = env.state()
    state["body"][:] = 0
    state["body"][0, :2] = 2.39, 1.0
    state["body"][1, :2] = -2.39, -1.0
    state["body"][2, 2:] = 0.209, 1.0
    state["age"][3:] = MAX_STEPS - 1
    state["body"][4, 2:] = -0.209, -1.0
    env.set_state(state)
    env.step(np.ones(5, np.int32), out)
    assert out.terminated.tolist() == [True, True, True, False, True]  # an end by the rules is no truncation
    assert out.truncated.tolist() == [False, False, False, True, False]
    assert out.measures[3:, 0].tolist() == [MAX_STEPS, MAX_STEPS]
    low, high = bounds(Options())["obs"]
    assert ((out.final_obs["obs"] >= low) & (out.final_obs["obs"] <= high)).all()
    assert (np.abs(out.obs["obs"]) <= 0.05).all() and (env.state()["age"] == 0).all()


def test_starts_are_uniform():
    env = make(Options(), 20_000)
    out = new_steps(env.spec, 20_000)
    env.reset(2, out)
    start = out.obs["obs"]
    assert (np.abs(start) <= 0.05).all()
    assert np.abs(start.mean(axis=0)).max() < 1e-3 and np.abs(start.std(axis=0) / 0.028868 - 1).max() < 0.02
    assert np.abs(np.corrcoef(start.T) - np.eye(4)).max() < 0.03


def test_the_heuristic_balances():
    env = make(Options(), 32)
    policy = heuristic(Options(), env)
    out = new_steps(env.spec, 32)
    env.reset(0, out)
    lengths = []
    for _ in range(2 * MAX_STEPS):
        env.step(policy(out.obs, None), out)
        lengths += out.measures[out.terminated | out.truncated, 0].tolist()
    assert np.mean(lengths) > 475
    assert env.render().splitlines()[0].count("#") == 1 and cartpole.MEASURES == ("steps",)
