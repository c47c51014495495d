"""The Python door: train, load, act. What acts is what was evaluated."""

from __future__ import annotations

import shutil
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import hotloop
from hotloop.core.errors import UserError
from hotloop.core.schema import new_steps
from hotloop.evaluate import evaluation_seed, play
from tests import running

SMALL = {k: v for k, v in running.BASE.items() if k != "log_every_env_steps"}


@pytest.fixture(scope="module")
def snake(tmp_path_factory):
    return hotloop.train(
        "snake", run=tmp_path_factory.mktemp("api") / "run", quiet=True, **{**SMALL, **running.SMALL["snake"]}
    )


def test_train_gives_an_agent_and_prints_nothing(tmp_path, capfd):
    agent = hotloop.train("identity", run=tmp_path / "run", quiet=True, lanes=4, **SMALL)
    assert capfd.readouterr() == ("", "")
    assert isinstance(agent, hotloop.Agent) and agent.path == tmp_path / "run"
    assert agent.summary["env_steps"] == 960 and agent.config.lanes == 4
    assert agent.spec == hotloop.EnvSpec("identity", (hotloop.Field("obs", (4,), "float32"),), 4, measures=("correct",))


def test_train_takes_the_next_folder_and_shows_itself(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    hotloop.train("identity", **SMALL)
    assert hotloop.train("identity", quiet=True, **SMALL).path == Path("runs/identity-s0-2")
    assert "identity: 8 lanes, 960 env steps" in capsys.readouterr().out


def test_the_function_is_not_hidden_by_the_module_of_its_name():
    import importlib

    importlib.import_module("hotloop.train")
    assert hotloop.train.__module__ == "hotloop.api"


def test_options_do_not_stay_behind(tmp_path):
    """Options of one call are not those of the next: presets are not written into."""
    a = hotloop.train("identity", run=tmp_path / "a", quiet=True, **SMALL)
    options = {**SMALL, "learner": {"batch_size": 16, "optimizer": {"learning_rate": 0.5}}}
    hotloop.train("identity", run=tmp_path / "b", quiet=True, **options)
    c = hotloop.train("identity", run=tmp_path / "c", quiet=True, **SMALL)
    assert a.config == c.config and a.summary["weights_sha256"] == c.summary["weights_sha256"]


def test_evaluate_repeats_the_summary(snake):
    played = snake.evaluate(8, seed=snake.config.seed)
    assert played.episodes == 8 and played.returns.mean() == snake.summary["return_mean"]
    again = hotloop.load(snake.path).evaluate(8, seed=snake.config.seed)
    assert again.returns.tolist() == played.returns.tolist()


def test_act_is_the_policy_that_was_evaluated(snake):
    """Played with act() alone, one lane after the other, the returns are those of the evaluation."""
    seed = evaluation_seed(3)
    expected = play(snake.world, snake.policy, 4, seed, lanes=4)
    returns = []
    for lane in range(4):
        env, out = snake.world.make(1, first_lane=lane), new_steps(snake.spec, 1)
        env.reset(seed, out)
        total = 0.0
        while True:
            action = snake.act({name: part[0] for name, part in out.obs.items()})
            assert type(action) is int
            env.step(np.array([action], np.int32), out)
            total += float(out.reward[0])
            if out.terminated[0] or out.truncated[0]:
                returns.append(total)
                break
    assert returns == pytest.approx(expected.returns.tolist(), abs=1e-5)


def test_act_takes_one_observation_or_many(snake):
    (field,) = snake.spec.observation
    many = np.random.default_rng(0).random((6, *field.seen)).astype(np.float32)
    values, actions = snake.values(many), snake.act(many)
    assert values.shape == (6, snake.spec.num_actions) and actions.shape == (6,)
    assert actions.tolist() == values.argmax(1).tolist()
    for i in range(6):
        assert snake.act(many[i]) == actions[i] and snake.act(many[i].tolist()) == actions[i]
        np.testing.assert_allclose(snake.values(many[i]), values[i], rtol=1e-5, atol=1e-6)
    before = many.copy()
    snake.act({"obs": many})
    assert (many == before).all()


def test_act_never_takes_what_the_mask_forbids(snake):
    (field,) = snake.spec.observation
    obs = np.random.default_rng(1).random((50, *field.seen)).astype(np.float32)
    values = snake.values(obs)
    masks = np.ones_like(values, bool)
    masks[np.arange(50), values.argmax(1)] = False
    second = np.argsort(values, 1)[:, -2]
    assert snake.act(obs, masks).tolist() == second.tolist()
    assert snake.act(obs[0], masks[0]) == second[0] and snake.act(obs[0], masks[0].astype(int).tolist()) == second[0]


@pytest.mark.parametrize(
    ("obs", "mask", "said"),
    [
        (np.zeros(3), None, r"observation 'obs' has shape \(3,\); expected"),
        (np.zeros((2, 3, 4)), None, r"observation 'obs' has shape \(2, 3, 4\)"),
        ("text", None, "observation 'obs' is no array of float32: 'text'"),
        ("good", np.ones(99), r"mask has shape \(99,\); expected one flag for each of"),
        ("good", "none", "mask allows no action"),
    ],
)
def test_act_says_what_is_wrong_with_its_input(snake, obs, mask, said):
    (field,) = snake.spec.observation
    if isinstance(obs, str) and obs == "good":
        obs = np.zeros(field.seen, np.float32)
    if isinstance(mask, str):
        mask = np.zeros(snake.spec.num_actions, bool)
    with pytest.raises(UserError, match=said):
        snake.act(obs, mask)


def test_a_gymnasium_observation_goes_in_as_it_is(tmp_path):
    agent = hotloop.train("CartPole-v1", run=tmp_path / "run", quiet=True, lanes=4, **SMALL)
    env = gymnasium.make("CartPole-v1")
    obs, _ = env.reset(seed=0)
    for _ in range(3):
        action = agent.act(obs)
        assert env.action_space.contains(np.int64(action))
        obs, *_ = env.step(action)
    env.close()
    assert agent.summary["exact"] is False


# --- loading ---------------------------------------------------------------------------------------------------------


def test_load_says_what_is_missing(tmp_path, snake):
    with pytest.raises(UserError, match="is not a run: no such folder"):
        hotloop.load(tmp_path / "nowhere")
    for name, damage, said in (
        ("unfinished", lambda w: w.unlink(), "cannot be read .*; finish the run with: hotloop resume"),
        ("cut", lambda w: w.write_bytes(w.read_bytes()[:100]), "cannot be read"),
        ("other", lambda w: save_file({"x": np.zeros(3, np.float32)}, w), "holds another network than the run's"),
    ):
        copy = shutil.copytree(snake.path, tmp_path / name)
        damage(copy / "weights.safetensors")
        with pytest.raises(UserError, match=said) as error:
            hotloop.load(copy)
        assert "\n" not in str(error.value)


def test_the_weights_are_plain_safetensors_by_name(snake):
    tensors = load_file(snake.path / "weights.safetensors")
    assert {k: v.shape for k, v in tensors.items()} == {
        "torso.layers.0.weight": (16, snake.spec.observation[0].shape[0]),
        "torso.layers.0.bias": (16,),
        "head.weight": (snake.spec.num_actions, 16),
        "head.bias": (snake.spec.num_actions,),
    }


def test_mistakes_are_user_errors(tmp_path):
    for options, said in (
        ({"lanes": "x"}, "option lanes = 'x'"),
        ({"learner": {"gama": 1}}, "did you mean 'learner.gamma'"),
        ({"run": tmp_path}, None),
    ):
        if said:
            with pytest.raises(hotloop.UserError, match=said):
                hotloop.train("identity", **options)
    with pytest.raises(hotloop.UserError, match="unknown preset"):
        hotloop.train("identity", preset="x")


@pytest.mark.parametrize("name", ["FrozenLake-v1", "Blackjack-v1", "Taxi-v4"])
def test_the_agent_speaks_the_environments_own_words(name, tmp_path):
    """Discrete and Tuple observations go in as they come out of `step`, masks too, and actions fit `step`."""
    import gymnasium

    agent = hotloop.train(
        name, run=tmp_path / "run", quiet=True, compile=False, total_env_steps=1_000,
        learning_starts_env_steps=200, evaluate_episodes=1,
    )  # fmt: skip
    env = gymnasium.make(name)
    obs, info = env.reset(seed=3)
    for _ in range(30):
        action = agent.act(obs, info.get("action_mask"))
        assert env.action_space.contains(action)
        assert agent.values(obs).shape == (agent.spec.num_actions,)
        obs, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            obs, info = env.reset()
    env.close()
