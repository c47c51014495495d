from __future__ import annotations

import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from hotloop.core import discover
from hotloop.core.errors import MissingExtra, UserError
from hotloop.core.options import from_dict
from hotloop.core.schema import new_steps
from hotloop.envs import registration

IDS = registration.ids()
OURS = [
    ("identity", {}), ("identity", {"size": 6}), ("cartpole", {}), ("snake", {}),
    ("snake", {"observation": "flood", "size": 6}), ("snake", {"observation": "grid"}),
]  # fmt: skip


def test_ids():
    wanted = {"identity": "hotloop/Identity-v0", "cartpole": "hotloop/CartPole-v0", "snake": "hotloop/Snake-v0"}
    assert wanted.items() <= IDS.items()
    assert set(IDS.values()) <= set(gymnasium.registry)
    before = dict(gymnasium.registry)
    registration.register()  # again: nothing happens, nothing warns
    assert gymnasium.registry == before


@pytest.mark.parametrize(("name", "options"), OURS + [(w, {}) for w in IDS if w not in dict(OURS)])
def test_passes_gymnasiums_checks_without_a_warning(name, options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            env = gymnasium.make(IDS[name], **options)
        except MissingExtra as missing:
            pytest.skip(str(missing))
        check_env(env.unwrapped)
        env.close()


@pytest.mark.parametrize(("name", "options"), OURS)
def test_single_and_vector_play_the_lanes_games(name, options):
    single, vector = gymnasium.make(IDS[name], **options), gymnasium.make_vec(IDS[name], num_envs=5, **options)
    assert vector.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    module = discover.load("hotloop.envs", name)
    lanes = module.make(from_dict(module.Options, options), 5)
    out = new_steps(lanes.spec, 5)
    lanes.reset(17, out)
    many, info = vector.reset(seed=17)
    one, _ = single.reset(seed=17)
    assert info == {} and many in vector.observation_space
    assert np.array_equal(many, out.obs["obs"]) and np.array_equal(one, many[0])
    vector.action_space.seed(0)
    alone, ends = True, 0
    for _ in range(150):
        actions = vector.action_space.sample()
        kept = many.copy()
        seen, reward, terminated, truncated, info = vector.step(actions)
        assert np.array_equal(many, kept)  # what was handed out does not change afterwards
        many = seen
        lanes.step(actions.astype(np.int32), out)
        assert many in vector.observation_space and np.array_equal(many, out.obs["obs"])
        assert (reward == out.reward).all() and reward.dtype == np.float64
        assert (terminated == out.terminated).all() and (truncated == out.truncated).all()
        ended = terminated | truncated
        assert ("final_obs" in info) == ended.any() == ("final_info" in info)
        if alone:  # until its first episode ends, the single environment plays lane 0
            one, gain, over, cut, last = single.step(actions[0])
            assert (gain, over, cut) == (reward[0], terminated[0], truncated[0])
            alone = not (over or cut)
            assert np.array_equal(one, many[0] if alone else info["final_obs"][0])
            assert last == ({} if alone else {m: info["final_info"][m][0] for m in lanes.spec.measures})
        for lane in np.flatnonzero(ended):
            ends += 1
            assert np.array_equal(info["final_obs"][lane], out.final_obs["obs"][lane])
            assert [info["final_info"][m][lane] for m in lanes.spec.measures] == out.measures[lane].tolist()
        if ended.any():
            assert (info["_final_obs"] == ended).all() and (info["_final_info"] == ended).all()
            assert all(o is None for o in info["final_obs"][~ended])
    assert ends and not alone
    vector.close()


def test_like_gymnasiums_own_vector_of_single_environments():
    """The infos of an ended episode have the keys, types and masks that SyncVectorEnv gives for the same world."""
    kwargs = {"vector_kwargs": {"autoreset_mode": AutoresetMode.SAME_STEP}, "vectorization_mode": "sync"}
    theirs, ours = gymnasium.make_vec(IDS["snake"], 3, **kwargs), gymnasium.make_vec(IDS["snake"], 3)
    for env in (theirs, ours):
        env.reset(seed=1)
    found = [next(r for _ in range(10) if "final_obs" in (r := e.step(np.zeros(3, int)))[4]) for e in (theirs, ours)]

    def shape(value):
        if isinstance(value, dict):
            return {k: shape(v) for k, v in value.items()}
        return value.shape, value.dtype

    assert shape(found[0][4]) == shape(found[1][4])
    assert [a.dtype for a in found[0][:4]] == [a.dtype for a in found[1][:4]]
    assert theirs.observation_space == ours.observation_space and theirs.action_space == ours.action_space


def test_seeds():
    env = gymnasium.make_vec(IDS["snake"], num_envs=4, observation="grid")
    first = env.reset(seed=3)[0]
    then = env.reset()[0]
    assert not np.array_equal(first, then)
    assert np.array_equal(first, env.reset(seed=3)[0]) and np.array_equal(then, env.reset()[0])


def test_episode_statistics_wrapper_counts_whole_episodes():
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(gymnasium.make_vec(IDS["identity"], num_envs=3))
    env.reset(seed=0)
    *_, info = [env.step(env.action_space.sample())[4] for _ in range(10)]
    assert (info["episode"]["l"] == 10).all()
    assert (info["episode"]["r"] == info["final_info"]["correct"]).all()


def test_refusals_and_rendering():
    with pytest.raises(UserError, match="did you mean 'size'"):
        gymnasium.make(IDS["snake"], sise=8)
    with pytest.raises(UserError, match="at least 4"):
        gymnasium.make_vec(IDS["snake"], num_envs=2, size=3)
    vector = gymnasium.make_vec(IDS["snake"], num_envs=2, render_mode="ansi")
    vector.reset(seed=0)
    frames = vector.render()
    assert isinstance(frames, tuple) and len(frames) == 2 and "score 0" in str(frames[1])
    with pytest.raises(UserError, match="reset_mask"):
        vector.reset(options={"reset_mask": np.ones(2, bool)})
    with pytest.raises(UserError, match="render_mode"):
        gymnasium.make_vec(IDS["snake"], num_envs=2, render_mode="human")


def test_registering_is_light():
    """Gymnasium registers us whenever it is imported: that must not compile, nor import torch or any world."""
    code = (
        "import sys, hotloop.envs.registration, gymnasium; assert 'hotloop/Snake-v0' in gymnasium.registry; "
        "bad = {'numba', 'torch', 'hotloop.envs.snake'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
