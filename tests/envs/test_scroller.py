from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from hotloop.core.schema import new_steps
from hotloop.envs import scroller
from hotloop.envs.scroller import Options, heuristic, make

sys.path.insert(0, str(Path(__file__).parents[1]))
reference = importlib.import_module("references.scroller")


def compare(options: Options, steps: int, runs: float) -> dict[str, int]:
    """Play beside the reference, with so large a share of running; counts how episodes ended."""
    lanes, seed = 3, 5
    env = make(options, lanes, first_lane=4)
    games = [reference.Scroller(options.frame, options.length, options.max_steps, seed, 4 + i) for i in range(lanes)]
    out, rng = new_steps(env.spec, lanes), np.random.default_rng(1)
    ends = dict.fromkeys(("pit", "flag", "limit"), 0)
    env.reset(seed, out)
    policy = heuristic(options, env)
    for t in range(steps):
        wise = policy(out.obs, None)
        actions = np.where(rng.random(lanes) < runs, wise, rng.integers(0, 4, lanes)).astype(np.int32)
        env.step(actions, out)
        for lane, game in enumerate(games):
            reward, terminated, truncated = game.step(int(actions[lane]))
            assert out.reward[lane] == np.float32(reward)
            assert (out.terminated[lane], out.truncated[lane]) == (terminated, truncated)
            if terminated or truncated:
                assert np.array_equal(out.final_obs["obs"][lane], game.picture())
                assert out.measures[lane].tolist() == game.measures
                ends["limit" if truncated else "flag" if game.measures[1] else "pit"] += 1
                game.begin()
            if t % 7 == 0:
                assert np.array_equal(out.obs["obs"][lane], game.picture())
    return ends


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        (Options(frame=24, length=12), 0.9),
        (Options(frame=42, length=30), 0.97),
        (Options(frame=84, max_steps=40), 0.5),
        (Options(frame=128, max_steps=50), 0.5),
    ],
    ids=str,
)
def test_equals_the_reference(options, runs):
    ends = compare(options, 120 if options.frame > 60 else 400, runs)
    assert sum(ends.values()) > 3, ends


def test_every_end_was_compared():
    found = compare(Options(frame=24, length=20, max_steps=43), 600, 0.9)
    assert min(found.values()) > 0, found


def share_of_flags(options: Options, policy, episodes: int = 300) -> float:
    env = make(options, 100)
    out = new_steps(env.spec, 100)
    env.reset(3, out)
    act, flags = policy(env), []
    while len(flags) < episodes:
        env.step(act(out.obs, None), out)
        flags += out.measures[out.terminated | out.truncated, 1].tolist()
    return float(np.mean(flags))


def test_every_level_can_be_won_and_has_to_be_jumped():
    assert share_of_flags(Options(), lambda env: heuristic(Options(), env)) == 1.0
    for action in range(4):
        assert share_of_flags(Options(), lambda env, a=action: lambda obs, mask: np.full(100, a, np.int32)) < 0.2


@pytest.mark.parametrize(("frame", "stack"), [(84, 4), (128, 8)])
def test_frames_are_stored_single_and_seen_stacked(frame, stack):
    (field,) = scroller.spec(Options(frame=frame, stack=stack)).observation
    assert (field.shape, field.seen, field.dtype, field.scale) == (
        (frame, frame),
        (stack, frame, frame),
        "uint8",
        1 / 255,
    )


def test_busy_work_takes_time_and_changes_nothing_else():
    lanes, games, seconds = 4, [], []
    for busy in (0, 100_000):
        env = make(Options(busy=busy), lanes)
        out, rng = new_steps(env.spec, lanes), np.random.default_rng(0)
        env.reset(0, out)
        env.step(np.zeros(lanes, np.int32), out)
        began = time.perf_counter()
        for _ in range(20):
            env.step(rng.integers(0, 4, lanes).astype(np.int32), out)
        seconds.append(time.perf_counter() - began)
        games.append([out.obs["obs"].tobytes(), *(v.tobytes() for v in env.state().values())])
    assert games[0] == games[1]
    assert seconds[1] > 10 * seconds[0]  # it takes a thousand times as long


def test_the_picture_shows_what_the_network_sees():
    env = make(Options(frame=240), 2)
    out = new_steps(env.spec, 2)
    env.reset(0, out)
    for _ in range(25):
        env.step(np.array([1, 3], np.int32), out)
    for lane in (0, 1):
        picture = env.picture(lane)
        assert picture.shape == (240, 240, 3) and picture.dtype == np.uint8
        colours = np.array([scroller.PALETTE[g] for g in out.obs["obs"][lane].ravel().tolist()], np.uint8)
        assert np.array_equal(picture, colours.reshape(picture.shape))
    assert (env.picture(0) == scroller.PALETTE[scroller.RUNNER]).all(axis=2).any()


def test_render_shows_runner_and_level():
    env = make(Options(), 1)
    out = new_steps(env.spec, 1)
    env.reset(0, out)
    *rows, line = env.render(0).splitlines()
    assert rows[6][3] == "@" and set(rows[7][:9]) == {"#"} and line == "tile 0.0 of 60, step 0"
    level = env.state()["level"][0][: len(rows[0])]
    for height in (0, 1):
        assert [c == "#" for c in rows[6 - height].replace("@", " ")] == (level > height).tolist()
    assert [c == "#" for c in rows[7]] == (level > scroller.PIT).tolist()
