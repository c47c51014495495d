from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.core.errors import UserError
from hotloop.core.schema import new_steps
from hotloop.envs import _bitboard, snake
from hotloop.envs.snake import Options, heuristic, make

sys.path.insert(0, str(Path(__file__).parents[1]))
reference = importlib.import_module("references.snake")

MEASURES = ("death_wall", "death_self", "death_entrapment", "death_timeout")


def careful(game, rng) -> int:
    """Mostly the safe move that leaves most room, then towards the food: games that grow long and get tangled."""
    if rng.random() < 0.03:
        return int(rng.integers(3))
    fx, fy = game.food
    options = []
    for action in range(3):
        x, y = game.cell_after(action)[1]
        options.append((game.room((x, y)), -abs(fx - x) - abs(fy - y), rng.random(), action))
    return max(options)[3]


def sweep(game) -> int:
    """Round and round a cycle through all cells of an even board: wins every game. Row 0 leads back to the left."""
    (x, y), last = game.body[0], game.size - 1
    if y == 0:
        wanted = 3 if x > 0 else 2
    elif x % 2 == 0:
        wanted = 2 if y < last else 1
    else:
        wanted = 0 if y > 1 or x == last else 1
    turn = (wanted - game.direction) % 4
    return {0: 0, 3: 1, 1: 2}.get(turn, 1)


def pieces(game) -> int:
    """Number of connected pieces of the free cells, by search."""
    left = {(x, y) for x in range(game.size) for y in range(game.size)} - set(game.body)
    count = 0
    while left:
        count += 1
        todo = [left.pop()]
        while todo:
            x, y = todo.pop()
            near = {(x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)} & left
            left -= near
            todo += near
    return count


def compare(size, observation, steps, lanes=4, max_steps=500, timeout_reward=-5.0, policy="careful", seed=1):
    options = Options(size=size, observation=observation, max_steps=max_steps, timeout_reward=timeout_reward)
    env = make(options, lanes, first_lane=2)
    games = [reference.Snake(size, max_steps, timeout_reward, seed, 2 + lane) for lane in range(lanes)]
    out = new_steps(env.spec, lanes)
    rng = np.random.default_rng(seed)
    ends: dict[str, int] = {}
    env.reset(seed, out)
    rolls = rng.integers(0, 3, (steps, lanes))
    for t in range(steps):
        if observation == "flood":
            known = env.state()["lane"]
            kept = known[:, snake.EULER] + (known[:, snake.BORDER] == 0)
            assert kept.tolist() == [pieces(game) for game in games]
        for lane, game in enumerate(games):
            assert np.array_equal(out.obs["obs"][lane], np.asarray(getattr(game, observation)(), np.float32))
            if policy != "random":
                rolls[t, lane] = careful(game, rng) if policy == "careful" else sweep(game)
        env.step(rolls[t].astype(np.int32), out)
        for lane, game in enumerate(games):
            reward, terminated, truncated, end = game.step(int(rolls[t, lane]))
            assert out.reward[lane] == np.float32(reward)
            assert (out.terminated[lane], out.truncated[lane]) == (terminated, truncated)
            if end is None:
                continue
            ends[end] = ends.get(end, 0) + 1
            final = np.asarray(getattr(game, observation)(), np.float32)
            assert np.array_equal(out.final_obs["obs"][lane], final)
            assert out.measures[lane].tolist() == [game.score, *(float(m == f"death_{end}") for m in MEASURES)]
            game.begin()
    return ends


@pytest.mark.parametrize("observation", ["basic", "flood", "grid"])
@pytest.mark.parametrize("size", [4, 5, 8, 10, 15])
def test_like_the_reference(size, observation):
    random = compare(size, observation, 300, policy="random")
    assert random["wall"] and random.get("self", 0) + random.get("entrapment", 0) >= (size < 8)
    careful = compare(size, observation, 500, lanes=2, max_steps=200)
    assert sum(careful.values())


def test_flood_like_the_reference_in_long_tangled_games():
    ends = compare(8, "flood", 2500, lanes=3, max_steps=10_000)
    assert ends["entrapment"] >= 3


@pytest.mark.parametrize("observation", ["basic", "flood", "grid"])
def test_a_full_board_is_won(observation):
    assert compare(4, observation, 400, policy="sweep")["won"] >= 4


def test_time_limits():
    assert compare(10, "basic", 60, max_steps=1) == {"timeout": 240}  # no wall is one step away
    assert compare(6, "flood", 200, max_steps=7, timeout_reward=-2.5, policy="careful")["timeout"] > 50
    # heading straight for the wall, G/2 steps away: death and limit on the same step are a death
    env = make(Options(size=10, max_steps=5), 1)
    out = new_steps(env.spec, 1)
    env.reset(0, out)
    for t in range(5):
        env.step(np.zeros(1, np.int32), out)
        assert out.terminated[0] == (t == 4)
    assert out.terminated[0] and not out.truncated[0] and out.reward[0] == -10
    assert out.measures[0].tolist()[1:] == [1, 0, 0, 0]


def test_the_tail_kills():
    """A square of four cells: the head moves onto the cell the tail is about to leave."""
    env = make(Options(size=10), 1)
    out = new_steps(env.spec, 1)
    for seed in range(200):
        env.reset(seed, out)
        game = reference.Snake(10, 500, -5.0, seed, 0)
        if game.food == (6, 5):  # grow to four by the first step
            break
    for t, action in enumerate((0, 2, 2, 2)):
        env.step(np.array([action], np.int32), out)
        assert out.terminated[0] == (t == 3)
    assert out.terminated[0] and out.measures[0].tolist() == [1, 0, 1, 0, 0]


def test_food_is_uniform_over_free_cells():
    lanes = 97 * 400
    env = make(Options(observation="grid"), lanes)
    out = new_steps(env.spec, lanes)
    env.reset(3, out)
    counts = out.obs["obs"][:, 2].sum(axis=0, dtype=np.int64)
    body = out.obs["obs"][0, :2].sum(axis=0) > 0
    assert counts[body].sum() == 0 and counts.sum() == lanes
    chi2 = ((counts[~body] - 400) ** 2 / 400).sum()
    assert 50 < chi2 < 160  # 96 degrees of freedom: mean 96, standard deviation 13.9


@given(size=st.integers(4, 32), seed=st.integers(0, 2**32), density=st.floats(0, 1))
def test_bitboard_like_sets(size, seed, density):
    rng = np.random.default_rng(seed)
    taken = rng.random((size, size)) < density
    rows = np.full((1, size + 2), ~np.uint64(0))
    for y in range(size):
        rows[0, y + 1] = ~np.uint64(_bitboard.inside(size))
        for x in range(size):
            rows[0, y + 1] |= np.uint64(int(taken[y, x]) << (x + 1))
    cells = [(x + 1, y + 1) for y in range(size) for x in range(size) if not taken[y, x]]
    for k in rng.integers(0, max(len(cells), 1), 5 if cells else 0):
        assert _bitboard.select_free(rows, 0, size, k) == cells[k]
        game = reference.Snake(size, 1, 0.0, 0, 0)
        game.body = [(int(x), int(y)) for y, x in np.argwhere(taken)]
        fill = np.full(size + 2, ~np.uint64(0))
        x, y = cells[k]
        count = _bitboard.flood(rows, 0, size, x, y, fill)
        assert count == round(game.room((x - 1, y - 1)) * (size * size - len(game.body)))
        assert sum(int(row).bit_count() for row in fill) == count
    word = seed * 0x9E3779B97F4A7C15 % 2**64
    assert _bitboard.popcount(np.uint64(word)) == word.bit_count()


@pytest.mark.parametrize("observation", ["basic", "flood"])
def test_the_heuristic_is_worth_a_comparison(observation):
    options = Options(observation=observation)
    env = make(options, 64)
    policy = heuristic(options, env)
    out = new_steps(env.spec, 64)
    env.reset(0, out)
    scores = []
    for _ in range(1500):
        env.step(policy(out.obs, None), out)
        scores += out.measures[out.terminated | out.truncated, 0].tolist()
    assert np.mean(scores) > (15 if observation == "basic" else 25)


def test_what_cannot_be_played_is_refused():
    with pytest.raises(UserError, match="at least 4"):
        make(Options(size=3), 1)
    with pytest.raises(UserError, match="choose one of"):
        make(Options(observation="smell"), 1)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="choose basic or flood"):
        heuristic(Options(observation="grid"), make(Options(observation="grid"), 1))


def test_render_shows_head_body_and_food():
    env = make(Options(size=5), 1)
    env.reset(0, new_steps(env.spec, 1))
    text = env.render()
    assert text.splitlines()[0] == "#######" and text.count("*") == 1
    assert text.splitlines()[3].startswith("#oo>") and "score 0, step 0" in text
    assert snake.MEASURES[0] == "score"


def test_picture_shows_what_the_text_shows():
    env = snake.make(snake.Options(), 2)
    out = new_steps(env.spec, 2)
    env.reset(3, out)
    picture, board = env.picture(1), env.render(1).splitlines()[:12]
    cells = picture[10::20, 10::20]
    assert picture.shape == (240, 240, 3) and picture.dtype == np.uint8
    colours = {
        sign: {tuple(cells[y, x]) for y in range(12) for x in range(12) if board[y][x] == sign} for sign in "#o*> "
    }
    assert all(len(found) == 1 for found in colours.values()) and len(set.union(*colours.values())) == 5
