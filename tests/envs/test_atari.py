"""Atari by ale-py: what its lanes owe, held against ale-py's own vector and single environments."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from hotloop import api, presets
from hotloop.config import resolve
from hotloop.core.errors import UserError
from hotloop.core.schema import new_steps
from hotloop.envs import atari
from hotloop.envs._world import world
from hotloop.envs.atari import Options, lane_seed, make
from hotloop.report.console import display
from hotloop.run import RunFolder

ale_py = pytest.importorskip("ale_py", reason='atari needs pip install "hotloop[atari]"')


def rolled(options: Options, lanes: int, steps: int, seed: int = 3, first_lane: int = 0) -> list[tuple]:
    """Random play, lane i always with the same actions -> per step (obs, reward, terminated, truncated, measures)."""
    env = make(options, lanes, first_lane)
    out = new_steps(env.spec, lanes)
    env.reset(seed, out)
    draws = [np.random.default_rng(first_lane + i).integers(0, env.spec.num_actions, steps) for i in range(lanes)]
    history = []
    for t in range(steps):
        env.step(np.array([d[t] for d in draws], np.int32), out)
        arrays = (out.obs["obs"], out.reward, out.terminated, out.truncated, out.measures, out.final_obs["obs"])
        history.append(tuple(a.copy() for a in arrays))
    env.close()
    return history


def test_the_name_after_the_slash_is_the_game():
    spec = world("atari/breakout", {"frame": 42}).spec()
    assert (spec.name, spec.num_actions, spec.measures, spec.exact) == ("atari/breakout", 4, ("score",), False)
    (frame,) = spec.observation
    assert (frame.shape, frame.seen, frame.dtype, frame.scale) == ((42, 42), (4, 42, 42), "uint8", 1 / 255)
    assert world("atari/breakout", {"all_actions": True}).spec().num_actions == 18


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("atari/pongg", "unknown Atari game 'pongg'; did you mean 'pong'?"),
        ("atari/Pong", "did you mean 'pong'?"),
        ("atari", "atari needs a game, such as atari/pong"),
        ("atari/combat", "unknown Atari game 'combat'"),  # for two: ale-py would end the process
    ],
)
def test_what_is_no_game_is_said_in_one_line(name, said):
    with pytest.raises(UserError) as refused:
        world(name, {}).spec()
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_a_missing_extra_is_said_with_its_command():
    code = (
        "import sys; sys.modules['ale_py'] = None\n"
        "from hotloop.envs._world import world\n"
        "from hotloop.core.errors import MissingExtra\n"
        "try: world('atari/pong', {}).spec()\n"
        "except MissingExtra as why: print(why)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'atari needs an extra: pip install "hotloop[atari]"'


def test_frames_rewards_and_ends_are_those_of_ale_py():
    """Beside ale-py's own stacks of four: ours are single, and its last of four."""
    from ale_py.vector_env import AtariVectorEnv
    from gymnasium.vector import AutoresetMode

    lanes, steps = 2, 400
    theirs = AtariVectorEnv("breakout", lanes, autoreset_mode=AutoresetMode.SAME_STEP, reward_clipping=True)
    theirs.reset(seed=np.array([lane_seed(3, i) for i in range(lanes)]))
    draws = [np.random.default_rng(i).integers(0, 4, steps) for i in range(lanes)]
    ends, score = 0, np.zeros(lanes)
    for t, (obs, reward, terminated, truncated, measures, final) in enumerate(
        rolled(Options("breakout"), lanes, steps)
    ):
        seen, gain, over, cut, info = theirs.step(np.array([d[t] for d in draws]))
        assert np.array_equal(obs, seen[:, -1]) and np.array_equal(reward, gain)
        assert np.array_equal(terminated, over) and np.array_equal(truncated, cut)
        score += gain  # in so short a time only the lowest bricks are hit, which count 1
        for lane in np.flatnonzero(over):
            ends += 1
            assert np.array_equal(final[lane], info["final_obs"][lane, -1])
            assert measures[lane, 0] == score[lane]
            score[lane] = 0
    assert ends > 1
    theirs.close()


@pytest.mark.parametrize(
    "options",
    [
        Options("breakout", frame=42),
        Options("breakout", frame=42, sticky=0.25),
        Options("breakout", life_ends=True),
        Options("pong", frame=42, max_frames=150),
    ],
    ids=["plain", "sticky", "life_ends", "cut"],
)
def test_a_lane_plays_its_game_whatever_the_others_and_the_threads(options):
    """Over the ends of games, whose beginnings are drawn, too."""
    many = rolled(replace(options, threads=2), 3, 500)
    alone = rolled(replace(options, threads=1), 1, 500, first_lane=2)
    assert any(s[2][2] or s[3][2] for s in many)
    for step, own in zip(many, alone, strict=True):
        for whole, part in zip(step[:4], own[:4], strict=True):
            assert np.array_equal(whole[2], part[0])


def test_another_seed_is_another_game():
    one, two = rolled(Options("pong", frame=42), 1, 60), rolled(Options("pong", frame=42), 1, 60, seed=4)
    assert not all(np.array_equal(a[0], b[0]) for a, b in zip(one, two, strict=True))


def test_rewards_are_clipped_for_learning_and_not_in_the_score():
    plain = rolled(Options("qbert", clip_rewards=False, frame=42), 2, 500)
    clipped = rolled(Options("qbert", frame=42), 2, 500)
    gains = np.array([s[1] for s in plain])
    assert gains.max() >= 25 and np.array_equal(np.sign(gains), [s[1] for s in clipped])
    for history in (plain, clipped):
        since = np.zeros(2)
        for (*_, terminated, _, measures, _), gain in zip(history, gains, strict=True):
            since += gain
            assert np.array_equal(measures[terminated, 0], since[terminated])
            since[terminated] = 0


def test_a_lost_life_ends_an_episode_and_not_the_game():
    """In Breakout, five lives: four ends without a score, whose frames go on, and the fifth with that of all."""
    history = rolled(Options("breakout", life_ends=True, clip_rewards=False), 1, 500)
    ends = [(t, float(s[4][0, 0])) for t, s in enumerate(history) if s[2][0]]
    assert len(ends) >= 10
    begin = 0
    for k, (t, score) in enumerate(ends[:10]):
        if k % 5 < 4:
            assert np.isnan(score)
            continue
        assert score == sum(s[1][0] for s in history[begin : t + 1])
        begin = t + 1
    whole = rolled(Options("breakout", clip_rewards=False), 1, 500)
    assert [t for t, s in enumerate(whole) if s[2][0]] == [t for t, _ in ends[4::5]]
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(history, whole, strict=True))


def test_a_long_game_is_cut_with_its_last_frame():
    history = rolled(Options("pong", max_frames=200, frame=42, noop_frames=1, fire=False), 1, 120)
    cuts = [t for t, s in enumerate(history) if s[3][0]]
    assert cuts == [49, 99] and not any(s[2][0] for s in history)
    free = rolled(Options("pong", frame=42, noop_frames=1, fire=False), 1, 50)
    assert np.array_equal(history[49][5], free[49][0])  # what the game showed then; the next one has begun in obs
    assert not np.array_equal(history[49][5], history[49][0])
    assert history[49][4][0, 0] == sum(s[1][0] for s in history[:50])


def test_the_state_is_its_own():
    env = make(Options("pong"), 1)
    assert env.state() == {}
    env.set_state({})
    with pytest.raises(UserError, match="ale-py keeps"):
        env.set_state({"x": np.zeros(1)})
    with pytest.raises(UserError, match="before its first reset"):
        env.step(np.zeros(1, np.int32), new_steps(env.spec, 1))
    out = new_steps(env.spec, 1)
    env.reset(0, out)
    with pytest.raises(UserError, match="actions 0 … 5"):
        env.step(np.array([6], np.int32), out)
    env.close()


def test_what_is_shown_is_what_the_network_sees():
    env = make(Options("pong"), 2)
    out = new_steps(env.spec, 2)
    env.reset(0, out)
    env.step(np.zeros(2, np.int32), out)
    assert np.array_equal(env.picture(1), np.repeat(out.obs["obs"][1][:, :, None], 3, 2))
    *rows, last = env.render(1).splitlines()
    assert len(rows) == 42 and len(set("".join(rows))) > 2 and last == "score 0"
    env.close()


def test_no_lanes_is_refused():
    with pytest.raises(UserError, match="lanes"):
        make(Options("pong"), 0)


def test_presets_are_found_by_game_and_by_world():
    assert presets.presets_of("atari/pong") != presets.presets_of("atari/breakout")
    nature = presets.preset("atari/breakout", "nature_dqn")
    assert api.configure("atari/breakout", "nature_dqn").env["game"] == "breakout"
    # Mnih et al. 2015, extended data table 1
    learner, optimizer = nature["learner"], nature["learner"]["optimizer"]
    assert nature["samples_per_step"] / learner["batch_size"] == 1 / 4
    assert (learner["batch_size"], learner["gamma"], learner["target_every_updates"]) == (32, 0.99, 10_000)
    assert (optimizer["name"], optimizer["learning_rate"]) == ("rmsprop", 2.5e-4)
    assert nature["explore"] == {"start": 1.0, "end": 0.1, "decay_env_steps": 1_000_000}


def test_a_short_run_and_its_resume_say_that_they_are_not_exact(tmp_path):
    options = {
        "total_env_steps": 192, "lanes": 4, "samples_per_step": 2.0, "learning_starts_env_steps": 64,
        "evaluate_episodes": 1, "compile": False, "replay": {"capacity": 400, "n_step": 3},
        "learner": {"batch_size": 8}, "network": {"channels": [4], "kernels": [8], "strides": [8], "features": 8},
        "env": {"frame": 24, "max_frames": 100, "life_ends": True},
    }  # fmt: skip
    agent = api.train("atari/breakout", run=tmp_path / "run", quiet=True, **options)
    assert agent.summary["exact"] is False and agent.summary["env_steps"] == 192
    assert set(agent.summary["measures"]) == {"score"}  # of a whole game, though a life ends what is learnt from
    again = RunFolder.open(agent.path)
    config = resolve(again.read_config(), {"total_env_steps": 256})
    assert api.start(config, again, display(True, json=False), resume=True)["env_steps"] == 256
    assert agent.act(np.zeros((4, 24, 24), np.uint8)) in range(4)


def test_listing_worlds_imports_no_emulator():
    code = (
        "import sys; from hotloop.envs._world import own_names; from hotloop.presets import presets_of\n"
        "presets_of('atari/pong'); assert 'atari' in own_names(); import hotloop.envs.atari\n"
        "assert not {'ale_py', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_game_that_is_named_can_be_played():
    """Those left out are what ale-py itself leaves out."""
    import gymnasium

    gymnasium.register_envs(ale_py)
    from ale_py import roms

    ids = {name.removeprefix("ALE/").removesuffix("-v5") for name in gymnasium.registry if name.startswith("ALE/")}
    games = set(roms.get_all_rom_ids()) - atari.TWO_PLAYERS
    assert {game.title().replace("_", "") for game in games} == ids
