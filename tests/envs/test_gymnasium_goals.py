"""Goals of Gymnasium environments: what the environment says of one pair is what is said of many."""

from __future__ import annotations

import numpy as np
import pytest

from hotloop.core.errors import UserError
from hotloop.envs._world import world
from tests import running
from tests.references import goal_envs

HERE = goal_envs.__name__


def pairs(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    achieved = rng.integers(-2, 3, (500, 2)).astype(np.float32)
    return achieved, np.where(rng.random((500, 1)) < 0.3, achieved, achieved + 1)


@pytest.mark.parametrize("name", ["Walk", "OneByOne"])
def test_many_pairs_are_worth_what_each_is(name):
    goal = world(f"{HERE}:{name}", {}).goal()
    env, (achieved, desired) = getattr(goal_envs, name)(), pairs()
    reward, ends = goal.reward(achieved, desired), goal.terminated(achieved, desired)
    assert reward.shape == ends.shape == (500,) and ends.dtype == bool and 100 < ends.sum() < 200
    for i in range(500):
        assert reward[i] == env.compute_reward(achieved[i].astype(float), desired[i].astype(float), {})
        assert ends[i] == env.compute_terminated(achieved[i].astype(float), desired[i].astype(float), {})


def test_what_says_nothing_of_ends_ends_by_no_goal():
    assert world(f"{HERE}:Endless", {}).goal().terminated is None


def test_goals_behind_wrappers_are_found():
    wrappers = ("gymnasium.wrappers:RecordEpisodeStatistics",)
    assert world(f"{HERE}:Walk", {"wrappers": wrappers, "max_episode_steps": 5}).goal() is not None


@pytest.mark.parametrize("name", ["goalless", "CartPole-v1"])
def test_without_goals_there_are_none(name):
    assert world(name if "-" in name else f"{HERE}:{name}", {}).goal() is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("uneven", "hindsight takes goals that are one Box or MultiBinary of one axis, the same for both"),
        ("pictures", "hindsight takes goals that are one Box or MultiBinary of one axis, the same for both"),
        ("NeedsInfo", "compute_reward(achieved, desired, {}) fails: KeyError: 'energy'; set --replay.hindsight 0"),
    ],
)
def test_goals_that_cannot_be_asked_for_are_refused_in_one_line(name, said):
    with pytest.raises(UserError) as error:
        world(f"{HERE}:{name}", {}).goal()
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_vector_environment_of_a_factory_cannot_be_asked():
    with pytest.raises(UserError, match=r"set env\.vector = 'own' or --replay\.hindsight 0"):
        world(f"{HERE}:Walk", {"vector": "gymnasium"}).goal()


def test_a_gymnasium_environment_is_learnt_with_hindsight(tmp_path):
    options = {"replay": {"capacity": 400, "hindsight": 4, "n_step": 2}, "lanes": 4}
    plain = {**options, "replay": {**options["replay"], "hindsight": 0}}
    ours, other = (
        running.train(tmp_path / name, f"{HERE}:Walk", **o) for name, o in (("ours", options), ("plain", plain))
    )
    assert ours["weights_sha256"] != other["weights_sha256"] and ours["refused_updates"] == 0
