"""Fires against sets of cells burnt anew, and the whole world against the same."""

from __future__ import annotations

import importlib
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.core.schema import new_steps
from hotloop.core.types import Steps
from hotloop.envs import wildfire
from hotloop.envs._wildfire_episode import new_fires
from hotloop.envs._wildfire_fire import IGNITED, UNBURNT, burn, downstream, put_out
from hotloop.envs._wildfire_land import LAYERS, PLANES, follow
from hotloop.envs.wildfire import FLOW, Options, heuristic, make

sys.path.insert(0, str(Path(__file__).parents[1]))
reference = importlib.import_module("references.wildfire")

SMALL = Options(size=10, fires=5, evaluation_fires=4, budget=0.06)


def at_random(out: Steps, rng: np.random.Generator) -> np.ndarray:
    """A legal action for each lane."""
    assert out.mask is not None
    return np.array([rng.choice(np.flatnonzero(m)) for m in out.mask], np.int32)


def random_layers(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Rough land with much fuel, so that fires are neither sparks nor everything."""
    uniform = rng.uniform
    shape = (height, width)
    layers = [rng.integers(0, 4, shape), uniform(0, 1, shape), uniform(0, 60, shape), uniform(0, 12, shape)]
    layers = np.stack([*layers, uniform(0, 360, shape)]).astype(np.float32)
    layers[0, rng.integers(height), rng.integers(width)] = 3  # at least one cell that can burn
    return layers


class Burning:
    """One landscape under the kernels, with room for one fire."""

    def __init__(self, layers: np.ndarray, metres: float = 30.0) -> None:
        self.height, self.width = layers.shape[1:]
        cells = self.height * self.width
        self.chance = np.zeros((1, cells, 8), np.int32)
        self.burnable = np.zeros((1, cells), np.int16)
        planes = np.zeros((1, PLANES, cells), np.float32)
        flat = layers.reshape(1, len(LAYERS), cells)
        self.count = follow(0, self.height, self.width, metres, flat, self.chance, planes, self.burnable)
        self.fires, self.broken = new_fires(1, cells), np.zeros((1, cells), np.bool_)
        self.size = 0

    def burn(self, key: int) -> set:
        self.fires.lit.fill(UNBURNT)
        f = self.fires
        given = 0, np.uint64(key), 0, self.width, self.chance, self.burnable, self.count, 0
        self.size = burn(*given, self.broken, f.ways, f.lit, f.order)
        return self.burnt()

    def put_out(self) -> set:
        f, before = self.fires, self.burnt()
        lost = self.size
        self.size = put_out(0, self.size, 0, self.width, self.broken, f.ways, f.lit, f.order, f.loose)
        lost -= self.size
        assert {self.cell(c) for c in f.loose[:lost]} == before - self.burnt()
        return self.burnt()

    def cell(self, number: int) -> tuple[int, int]:
        return int(number) % self.width, int(number) // self.width

    def burnt(self) -> set:
        """What is marked as lit: it has to be what stands in the order, each cell once, after the one that lit it."""
        listed = [self.cell(c) for c in self.fires.order[0, : self.size]]
        assert len(set(listed)) == self.size
        assert {self.cell(c) for c in np.flatnonzero(self.fires.lit[0])} == set(listed)
        for k, cell in enumerate(listed):
            how = int(self.fires.lit[0, cell[1] * self.width + cell[0]])
            assert (how == IGNITED) == (k == 0)
            if how != IGNITED:
                dx, dy = reference.NEIGHBOURS[how - 1]
                lighter = cell[0] - dx, cell[1] - dy
                assert lighter in listed[:k]
                assert self.fires.ways[0, lighter[1] * self.width + lighter[0]] >> (how - 1) & 1
        return set(listed)

    def downstream(self) -> np.ndarray:
        flow = np.zeros((1, self.height * self.width), np.int32)
        f = self.fires
        downstream(0, self.size, 0, self.width, 1, f.lit, f.order, f.passed, flow)
        assert not f.passed.any()
        return flow[0]


def test_a_thousand_small_maps_burn_like_sets_of_cells():
    """A fire burnt, then put out break by break, then burnt anew under all breaks: the same cells each time."""
    rng = np.random.default_rng(0)
    sizes = []
    for key in range(1000):
        height, width = (int(n) for n in rng.integers(1, 8, 2))
        layers = random_layers(rng, height, width)
        land, fire = reference.Land(layers, 30.0), Burning(layers)
        wanted = land.burn(np.uint64(key), set())
        assert fire.burn(key) == wanted
        sizes.append(len(wanted) / (height * width))
        broken = set()
        for c in rng.permutation(height * width)[:5]:
            fire.broken[0, c] = True
            broken.add(land.cells[c])
            wanted = land.burn(np.uint64(key), broken)
            assert fire.put_out() == wanted
        assert fire.burn(key) == wanted
    assert 0.2 < np.mean(sizes) < 0.7 and np.std(sizes) > 0.2


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), side=st.integers(2, 60), breaks=st.integers(0, 200), more=st.integers(1, 200))
def test_a_break_never_makes_a_fire_larger(seed, side, breaks, more):
    rng = np.random.default_rng(seed)
    fire = Burning(random_layers(rng, side, side))
    some = rng.integers(0, side * side, breaks)
    fire.broken[0, some] = True
    before = fire.burn(seed)
    added = rng.integers(0, side * side, more)
    fire.broken[0, added] = True
    after = fire.burn(seed)
    assert after <= before
    assert not after & {fire.cell(c) for c in (*some, *added)}


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), breaks=st.integers(0, 6))
def test_downstream_counts_what_fire_came_to_through_a_cell(seed, breaks):
    rng = np.random.default_rng(seed)
    fire = Burning(random_layers(rng, 7, 6))
    burnt = fire.burn(seed)
    fire.broken[0, rng.integers(0, 42, breaks)] = True
    burnt = fire.put_out()
    flow = fire.downstream()
    wanted = np.zeros(42, np.int64)
    for x, y in burnt:  # from each burnt cell back to the ignition
        while True:
            wanted[y * 6 + x] += 1
            how = int(fire.fires.lit[0, y * 6 + x])
            if how == IGNITED:
                break
            x, y = x - reference.NEIGHBOURS[how - 1][0], y - reference.NEIGHBOURS[how - 1][1]
    assert flow.tolist() == wanted.tolist()
    assert flow.max(initial=0) == len(burnt)  # all of it comes through the ignition


def test_chances_are_those_of_the_formula():
    """By hand: pine, normal cover, 5 m/s from the west, 30 m to the east and 10 m up."""
    layers = np.zeros((5, 1, 2), np.float32)
    layers[:, 0, :] = np.array([[3, 3], [0.5, 0.5], [0, 10], [5, 5], [270, 270]])
    east = 0.58 * 1.4 * math.exp(0.045 * 5) * math.exp(0.078 * math.degrees(math.atan(10 / 30)))
    west = 0.58 * 1.4 * math.exp(0.045 * 5) * math.exp(0.131 * 5 * -2) * math.exp(-0.078 * 18.434948822922)
    assert east > 1 and west == pytest.approx(0.0652, abs=1e-4)
    chance = Burning(layers).chance
    assert chance[0, 0, 0] == 65_536 and chance[0, 1, 4] == round(west * 65_536)
    assert chance.sum() == 65_536 + round(west * 65_536)


def saved_landscapes(folder: Path, number: int, height: int, width: int) -> tuple[str, np.ndarray]:
    rng = np.random.default_rng(5)
    layers = np.stack([random_layers(rng, height, width) for _ in range(number)])
    path = folder / "land.npz"
    np.savez(path, **{name: layers[:, k] for k, name in enumerate(LAYERS)})
    return str(path), layers


CASES = [
    SMALL,
    replace(SMALL, shown_fires=3, reward_scale=10.0),
    replace(SMALL, size=12, cells_per_step=4, wind=20.0, cell_metres=50.0),
    replace(SMALL, landscape="file", cells_per_step=2, shown_fires=2),
]


@pytest.mark.parametrize("options", CASES, ids=range(len(CASES)))
def test_like_the_reference(options, tmp_path):
    """Whole episodes of two lanes at random, everything that a step writes. Only who lit whom is taken from the world,
    and the layers of drawn landscapes."""
    if options.landscape:
        path, library = saved_landscapes(tmp_path, 3, 10, 13)
        options = replace(options, landscape=path)
    lanes, first_lane, seed = 2, 3, 9
    env = make(options, lanes, first_lane)
    height, width = env.spec.observation[0].shape[1:]
    budget = round(options.budget * height * width)
    games = [reference.Wildfire(options, seed, first_lane + i, budget) for i in range(lanes)]
    out, rng = new_steps(env.spec, lanes), np.random.default_rng(1)

    def begin(i: int) -> None:
        layers = env.state()["layers"][i].reshape(-1, height, width)
        if options.landscape:
            assert any(np.array_equal(layers, land) for land in library)
        games[i].begin(layers)

    def same(i: int, obs: np.ndarray, mask: np.ndarray) -> None:
        np.testing.assert_allclose(np.delete(obs[i], FLOW, axis=0), games[i].observation(), atol=2e-6)
        assert mask[i].tolist() == games[i].mask()

    env.reset(seed, out)
    ended = 0
    for i in range(lanes):
        begin(i)
        same(i, out.obs["obs"], out.mask)
    for _ in range(2 * budget + 1):
        actions = at_random(out, rng)
        env.step(actions, out)
        for i, game in enumerate(games):
            reward, over = game.step(int(actions[i]))
            assert out.reward[i] == pytest.approx(reward, abs=1e-6)
            assert out.terminated[i] == over and not out.truncated[i]
            if over:
                ended += 1
                same(i, out.final_obs["obs"], out.final_mask)
                np.testing.assert_allclose(out.measures[i], game.measures(), atol=1e-6)
                begin(i)
            same(i, out.obs["obs"], out.mask)
    assert ended == 2 * lanes


@pytest.mark.parametrize("shown", [0, 4])
def test_flow_is_what_shown_fires_brought(shown):
    options = replace(SMALL, shown_fires=shown, budget=0.2)
    env = make(options, 3)
    out, rng = new_steps(env.spec, 3), np.random.default_rng(0)
    env.reset(2, out)
    name, fires = ("shown.", shown) if shown else ("rewarding.", options.fires)
    for _ in range(25):
        state = env.state()
        for i in range(3):
            wanted = np.zeros((1, 100), np.int32)
            for r in range(i * fires, (i + 1) * fires):
                lit, order, size = (state[name + part] for part in ("lit", "order", "size"))
                downstream(r, int(size[r]), 0, 10, 1, lit, order, np.zeros(100, np.int32), wanted)
            assert np.array_equal(state["flow"][i], wanted[0])
            flow = np.sqrt(wanted.reshape(10, 10) / (fires * 100))
            np.testing.assert_allclose(out.obs["obs"][i, FLOW], flow, atol=1e-6)
        env.step(at_random(out, rng), out)


def random_episode(env, out, rng) -> None:
    while True:
        env.step(at_random(out, rng), out)
        if out.terminated.all():
            return


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**40), from_file=st.booleans())
def test_reset_restores_the_landscape_byte_for_byte(seed, from_file, tmp_path_factory):
    options = replace(SMALL, budget=0.3, fires=2, evaluation_fires=1)
    if from_file:
        path, _ = saved_landscapes(tmp_path_factory.mktemp("land"), 4, 10, 10)
        options = replace(options, landscape=path)
    env = make(options, 4)
    out, rng = new_steps(env.spec, 4), np.random.default_rng(seed)
    env.reset(seed, out)
    before, shown = env.state(), out.obs["obs"].copy()
    for _ in range(29):  # breaks are an overlay: nothing is written into the landscape while it is played on
        env.step(at_random(out, rng), out)
        now = env.state()
        assert all(now[name].tobytes() == before[name].tobytes() for name in ("layers", "chance", "planes", "burnable"))
    assert out.obs["obs"][:, :PLANES].tobytes() == shown[:, :PLANES].tobytes()
    random_episode(env, out, rng)
    random_episode(env, out, rng)
    assert env.state()["layers"].tobytes() != before["layers"].tobytes() or from_file
    env.reset(seed, out)
    after = env.state()
    assert all(after[name].tobytes() == before[name].tobytes() for name in before)
    assert out.obs["obs"].tobytes() == shown.tobytes()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**40), size=st.integers(10, 24), share=st.floats(0.01, 0.84))
def test_a_mask_offers_what_can_burn_and_is_not_broken(seed, size, share):
    env = make(Options(size=size, budget=share, fires=1, evaluation_fires=1), 2)
    budget = max(1, round(share * size * size))
    out, rng = new_steps(env.spec, 2), np.random.default_rng(seed)
    env.reset(seed, out)
    for _ in range(2):
        burnable, taken = out.mask.copy(), np.zeros_like(out.mask)
        assert (burnable == (env.state()["layers"][:, 0] != 0)).all()
        for step in range(budget):
            assert (out.mask == (burnable & ~taken)).all()
            actions = at_random(out, rng)
            env.step(actions, out)
            taken[[0, 1], actions] = True
            assert (out.terminated == (step == budget - 1)).all()  # the budget, to the cell
        assert (out.final_mask == (burnable & ~taken)).all()


def test_rewards_add_up_to_what_the_rewarding_fires_were_spared():
    for per_step in (1, 3):
        env = make(replace(SMALL, budget=0.1, cells_per_step=per_step, reward_scale=4.0), 8)
        out, rng = new_steps(env.spec, 8), np.random.default_rng(0)
        env.reset(0, out)
        sums = np.zeros(8)
        for step in range(1, 11):
            env.step(at_random(out, rng), out)
            assert (out.reward >= 0).all()
            assert step % per_step == 0 or step == 10 or (out.reward == 0).all()
            sums += out.reward
        assert out.terminated.all() and sums.min() > 0
        np.testing.assert_allclose(sums, 4 * (out.measures[:, 3] - out.measures[:, 2]), atol=1e-5)


def test_breaks_help_and_the_heuristic_more(monkeypatch):
    monkeypatch.setattr(wildfire, "ASKED_FIRES", 300)
    options = Options(size=12, evaluation_fires=100)
    burned = {}
    for name in ("random", "heuristic"):
        env = make(options, 40)
        out, rng = new_steps(env.spec, 40), np.random.default_rng(0)
        policy = heuristic(options, env)
        env.reset(4, out)
        for _ in range(7):
            by_chance = at_random(out, rng)
            env.step(by_chance if name == "random" else policy(out.obs, out.mask), out)
        burned[name], burned["unbroken"] = out.measures[:, 0], out.measures[:, 1]
    assert (burned["random"] <= burned["unbroken"]).all()
    assert burned["random"].mean() < 0.95 * burned["unbroken"].mean()
    assert burned["heuristic"].mean() < 0.8 * burned["random"].mean()


def test_asking_for_fires_changes_nothing():
    env = make(SMALL, 3)
    out = new_steps(env.spec, 3)
    env.reset(1, out)
    before = env.state()
    heuristic(SMALL, env)(out.obs, out.mask)
    assert all(env.state()[name].tobytes() == before[name].tobytes() for name in before)
