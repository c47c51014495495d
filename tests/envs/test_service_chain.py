"""The kernels of service_chain against the naive reference, action by action, and what is refused."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from hotloop.core.errors import UserError
from hotloop.core.options import from_dict
from hotloop.core.schema import new_steps
from hotloop.envs.service_chain import MEASURES, Options, heuristic, make, spec

sys.path.insert(0, str(Path(__file__).parents[1]))
reference = importlib.import_module("references.service_chain")


def games_of(options: Options, seed: int, lanes: range) -> list:
    return [
        reference.ServiceChain(
            options.data_centres_min, options.data_centres_max, options.actions_per_step,
            options.traffic_ms, options.link_mbps, options.reward, seed, lane,
        )
        for lane in lanes
    ]  # fmt: skip


def chosen(rng, policy: str, mask: list[bool]) -> int:
    """any: whatever there is. legal: of the legal ones. busy: allocations if any. tidy: uninstalls, too."""
    if policy == "any":
        return int(rng.integers(13))
    legal = np.flatnonzero(mask)
    if policy == "legal" or rng.random() < 0.05:
        return int(rng.choice(legal))
    first = 6 if policy == "busy" or rng.random() < 0.7 else 0
    some = [a for a in legal if first <= a < 12]
    return int(rng.choice(some)) if some else 12


def same(seen, lane: int, game) -> None:
    for part, wanted in game.observation().items():
        assert np.array_equal(seen[part][lane], wanted), part


def compare(options: Options, steps: int, policy: str, lanes: int = 2, seed: int = 1) -> dict[str, int]:
    """Both play the same games; returns how often things happened, so that a test can ask for them."""
    env, first = make(options, lanes, first_lane=5), 5
    games = games_of(options, seed, range(first, first + lanes))
    out, rng = new_steps(env.spec, lanes), np.random.default_rng(seed)
    seen: dict[str, int] = dict.fromkeys(("ends", "satisfied", "dropped", "invalid", "needed", "freed"), 0)
    env.reset(seed, out)
    assert out.mask is not None and out.final_mask is not None
    for _ in range(steps):
        actions = np.zeros(lanes, np.int32)
        for lane, game in enumerate(games):
            same(out.obs, lane, game)
            assert out.mask[lane].tolist() == game.mask()
            actions[lane] = chosen(rng, policy, game.mask())
        env.step(actions, out)
        for lane, game in enumerate(games):
            before = sum(dc.installed[v] for dc in game.dcs for v in range(6))
            reward, ended = game.step(int(actions[lane]))
            assert out.reward[lane] == np.float32(float(reward))
            assert (out.terminated[lane], out.truncated[lane]) == (ended, False)
            seen["freed"] += sum(dc.installed[v] for dc in game.dcs for v in range(6)) < before
            seen["invalid"] += reward % 0.5 == 0 and reward == -1.0
            seen["needed"] += reward == -0.5
            if not ended:
                continue
            same(out.final_obs, lane, game)
            assert out.final_mask[lane].tolist() == game.mask()
            assert np.array_equal(out.measures[lane], np.array(game.measures(), np.float32))
            seen["ends"] += 1
            seen["satisfied"] += sum(game.satisfied)
            seen["dropped"] += sum(game.dropped)
            game.begin()
    return seen


@pytest.mark.parametrize("policy", ["any", "legal", "busy", "tidy"])
def test_like_the_reference_with_few_actions(policy):
    """Few actions in a millisecond: short episodes, in which nearly all requests are dropped."""
    seen = compare(Options(actions_per_step=3, traffic_ms=21), 400, policy)
    assert seen["ends"] >= 2 and seen["dropped"] > 1000
    assert policy != "any" or (seen["invalid"] > 100 and seen["needed"] > 0)


@pytest.mark.parametrize(("centres", "mbps"), [(2, 1000), (8, 1000), (4, 100), (8, 150), (3, 40)])
def test_like_the_reference_with_many_actions(centres, mbps):
    """Links of little bandwidth: paths lead around, and requests wait since there is none."""
    options = Options(centres, centres, actions_per_step=60, traffic_ms=1, link_mbps=mbps)
    compare(options, 250, "busy", lanes=1, seed=centres)
    compare(options, 150, "legal", lanes=1, seed=centres + 10)


def test_like_the_reference_from_start_to_end():
    seen = compare(Options(2, 6, actions_per_step=25, traffic_ms=8), 2700, "busy", lanes=1, seed=4)
    assert seen["ends"] >= 1 and seen["satisfied"] > 100


def test_like_the_reference_when_credited():
    seen = compare(Options(actions_per_step=30, traffic_ms=1, reward="credited"), 1200, "busy", lanes=1, seed=2)
    assert seen["satisfied"] > 20 or seen["ends"] == 0


def test_like_the_reference_when_uninstalling():
    seen = compare(Options(2, 3, actions_per_step=40, traffic_ms=1, link_mbps=2000), 1500, "tidy", lanes=1, seed=3)
    assert seen["freed"] > 0


# --- the heuristic ---------------------------------------------------------------------------------------------------


def advised(game) -> int:
    """The heuristic in words: requests by least time left; the first whose best data centre on its shortest path is
    the current one. Best: has been there (100), plus share of free CPU."""
    for request in sorted(game.pending(), key=lambda r: (game.left_ms(r), *r.order)):
        vnf = request.left[0]
        path = game.path(request.at, request.destination, request.kbps) or []
        feasible = [d for d in path if game.dcs[d].room_for(vnf)]
        if feasible:
            worth = [100 * (d in request.hosts) + game.dcs[d].free()[0] / game.dcs[d].cpu for d in feasible]
            if feasible[worth.index(max(worth))] == game.current:
                return 6 + vnf
    return 12


@pytest.mark.parametrize("mbps", [60, 1000])
def test_the_heuristic_is_what_its_words_say(mbps):
    options = Options(actions_per_step=30, traffic_ms=5, link_mbps=mbps)
    env = make(options, 2)
    games = games_of(options, 9, range(2))
    policy, out = heuristic(options, env), new_steps(env.spec, 2)
    env.reset(9, out)
    busy = 0
    for _ in range(250):
        actions = policy(out.obs, out.mask)
        assert actions.tolist() == [advised(game) for game in games]
        busy += (actions < 12).sum()
        env.step(actions, out)
        for lane, game in enumerate(games):
            game.step(int(actions[lane]))
    assert busy > 100


def test_the_heuristic_plays_no_other_world():
    snake = importlib.import_module("hotloop.envs.snake")
    with pytest.raises(UserError, match="service_chain heuristic"):
        heuristic(Options(), snake.make(snake.Options(), 1))


# --- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"data_centres_min": 0}, "data_centres_min"),
        ({"data_centres_max": 9}, "data_centres_max"),
        ({"data_centres_min": 6, "data_centres_max": 4}, "at most env.data_centres_max = 4"),
        ({"actions_per_step": 0}, "actions_per_step"),
        ({"traffic_ms": 0}, "traffic_ms"),
        ({"link_mbps": 0}, "link_mbps"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(given, says):
    with pytest.raises(UserError, match=says) as refused:
        spec(from_dict(Options, given))
    assert "\n" not in str(refused.value)


def test_measures_are_named():
    assert spec(Options()).measures == MEASURES and MEASURES[:2] == ("acceptance", "delay_ms")
    assert len(MEASURES) == 4 + 2 * 6


def test_traffic_is_the_same_whatever_is_done():
    """So that policies can be compared game by game."""
    generated = []
    for action in (12, 6):
        env = make(Options(actions_per_step=4, traffic_ms=50), 3)
        out = new_steps(env.spec, 3)
        env.reset(2, out)
        for _ in range(4 * 49):
            env.step(np.full(3, action, np.int32), out)
        generated.append(env.state()["generated"].tolist())
    assert generated[0] == generated[1]


# --- what people see -------------------------------------------------------------------------------------------------


def test_text_and_picture():
    env = make(Options(3, 3, actions_per_step=20, traffic_ms=9), 2)
    out = new_steps(env.spec, 2)
    env.reset(3, out)
    policy = heuristic(Options(3, 3, actions_per_step=20, traffic_ms=9), env)
    first, before = env.render(1), env.picture(1)
    assert first.startswith("0.00 ms") and " 0 satisfied" in first
    for _ in range(90):
        env.step(policy(out.obs, out.mask), out)
    text, picture, state = env.render(1), env.picture(1), env.state()
    generated, satisfied, active = (int(state[n][1].sum()) for n in ("generated", "satisfied", "active"))
    assert text.startswith(f"4.50 ms, {generated} requests: {satisfied} satisfied, {active} active")
    lines = text.splitlines()
    assert [line[0] == ">" for line in lines[3:6]] == [d == state["current"][1] for d in range(3)]
    cpu, free = state["cpu"][1], state["free_cpu"][1]
    assert all(f"{cpu[d] - free[d]} of {cpu[d]} GHz" in lines[3 + d] for d in range(3))
    assert all(name in text for name in reference.KINDS) and max(map(len, lines)) <= 120
    assert picture.dtype == np.uint8 and picture.shape == before.shape and picture.shape[2] == 3
    assert (picture != before).any()
