"""wildfire: fuel breaks on a landscape, within a budget, so that as little as possible burns. Owns the rules, the
observation, the measures and the reference policy; landscapes, their files, fires and episodes are in `_wildfire_*`.
Breaks lie over the landscape, which nothing writes into until the next episode. An action is always one cell: several
breaks at once (`cells_per_step`) are as many env steps between two rounds of fires. Fires are drawn per episode and
not per step, so that rewards add up to what the breaks spared; the budget ends an episode, nothing cuts one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hotloop.core.errors import UserError
from hotloop.core.jit import kernel
from hotloop.core.options import option
from hotloop.core.random import bits
from hotloop.core.types import Arrays, BatchedEnv, EnvSpec, Field, Policy, Steps
from hotloop.envs import _wildfire_episode as episode
from hotloop.envs import _wildfire_file, _wildfire_show
from hotloop.envs._lanes import COUNT, KEY, checked, copied, restore, start_streams
from hotloop.envs._wildfire_episode import SPENT, begin, judge, meet_breaks, new_fires
from hotloop.envs._wildfire_land import LAYERS, NONE, PLANES, SHARES, VEGETATION

# Shares of all cells that burn, mean over fires: on fires that the episode's rewards never saw, and on those they come
# from; each with the breaks as they stand at the end, and with none.
MEASURES = ("burned", "burned_unbroken", "burned_rewarded", "burned_rewarded_unbroken")

# Planes of an observation beside those of the landscape: the breaks; under them, the share of fires in which a cell
# burns and the root of the mean share of cells that fire comes to through it; and the share of the budget that is left.
BREAKS, FREQUENCY, FLOW, LEFT = range(PLANES, PLANES + 4)
CHANNELS = PLANES + 4
NO_STATE = ("library", "field", "loose", "passed")  # what is constant, and scratch
ASKED_FIRES = 1000  # that the heuristic looks at before each break


@dataclass(frozen=True)
class Options:
    size: int = option(20, "cells along one side of a drawn landscape; a file has its own", ge=10, le=60)
    landscape: str = option("", "an .npz file of layers to take landscapes from; empty: drawn from the seed")
    budget: float = option(0.05, "share of the cells that may become fuel break", gt=0, le=1)
    cells_per_step: int = option(1, "breaks between two rounds of fires; the env steps between give no reward", ge=1)
    fires: int = option(10, "fires that rewards come from", ge=1, le=1000)
    shown_fires: int = option(
        0, "fires that are shown, as burn frequency and flow, apart from those that reward; 0: these themselves",
        ge=0, le=1000,
    )  # fmt: skip
    evaluation_fires: int = option(10, "fires that only the measures of an episode come from", ge=1, le=100_000)
    wind: float = option(10.0, "greatest wind in m/s of a drawn landscape", gt=0, le=40)
    cell_metres: float = option(30.0, "side of a cell; slopes follow from it", gt=0)
    reward_scale: float = option(1.0, "rewards are shares of all cells times this", gt=0)


def spec(options: Options) -> EnvSpec:
    height, width = _shape(options)
    obs = Field("obs", (CHANNELS, height, width), "float32")
    return EnvSpec("wildfire", (obs,), height * width, masked=True, measures=MEASURES)


def bounds(options: Options) -> dict[str, tuple[float, float]]:
    """Least and greatest value of each part of the observation: slopes below 90°, winds up to 40 m/s."""
    return {"obs": (-2, 2)}


def make(options: Options, lanes: int, first_lane: int = 0) -> BatchedEnv:
    return _Wildfire(checked(options, lanes), lanes, first_lane)


def heuristic(options: Options, env: BatchedEnv) -> Policy:
    """Break the cell with the greatest burn frequency × burnt cells downstream of it: those to which fire came through
    it, mean over fires under the breaks there are. Looks at 1,000 fires of its own before each break."""
    assert isinstance(env, _Wildfire)
    worth = np.zeros((env.lanes, env.spec.num_actions), np.int32)
    asked = 0

    def act(obs: Arrays, mask: np.ndarray | None) -> np.ndarray:
        nonlocal asked
        env.ask(asked, ASKED_FIRES, worth)
        asked += ASKED_FIRES
        return np.where(mask, worth, -1).argmax(axis=1).astype(np.int32)

    return act


def _shape(options: Options) -> tuple[int, int]:
    """Height and width"""
    if not options.landscape:
        return options.size, options.size
    return _wildfire_file.read(options.landscape).shape[2:]


def _budget(options: Options, library: np.ndarray) -> int:
    """How many cells, refused where some landscape has fewer that can burn: the last breaks would have no cell."""
    height, width = _shape(options)
    cells = max(1, round(options.budget * height * width))
    if options.landscape:
        burnable = (library[:, VEGETATION] != NONE).sum(axis=1)
        least, where = int(burnable.min()), f"landscape {burnable.argmin()} of {options.landscape}"
    else:
        least, where = height * width - int(SHARES[NONE] * height * width), "a drawn landscape"
    if cells > least:
        raise UserError(
            f"option env.budget = {options.budget:g} is {cells} of {height * width} cells, but {where} has only "
            f"{least} that can burn; at most {np.floor(1000 * least / (height * width)) / 1000:g}"
        )
    return cells


@kernel
def _begin(rule, land, rewarding, shown, lanes, obs, mask):
    for i in range(lanes.lane.shape[0]):
        begin(i, bits(lanes.stream[i, KEY], lanes.stream[i, COUNT], 0), rule, land, rewarding, shown, lanes)
    _show(0, lanes.lane.shape[0], rule, land, lanes, obs, mask)


@kernel
def _step(
    rule, land, rewarding, shown, judges, unbroken, lanes, actions,
    obs, reward, terminated, truncated, final_obs, measures, mask, final_mask,
):  # fmt: skip
    for i in range(actions.shape[0]):
        spent = lanes.lane[i, SPENT] + 1
        lanes.stream[i, COUNT] += np.uint64(1)
        lanes.lane[i, SPENT] = spent
        lanes.broken[i, actions[i]] = True
        lanes.recent[i, (spent - 1) % rule.per_step] = actions[i]
        over = spent >= rule.budget
        terminated[i] = over
        truncated[i] = False
        reward[i] = 0.0
        if over or spent % rule.per_step == 0:
            spared = meet_breaks(i, (spent - 1) % rule.per_step + 1, rule, rewarding, shown, lanes)
            reward[i] = rule.scale * spared / (rule.fires * rule.height * rule.width)
        if over:
            judge(i, rule, land, rewarding, judges, unbroken, lanes, measures)
            _show(i, i + 1, rule, land, lanes, final_obs, final_mask)
            begin(i, bits(lanes.stream[i, KEY], lanes.stream[i, COUNT], 0), rule, land, rewarding, shown, lanes)
    _show(0, actions.shape[0], rule, land, lanes, obs, mask)


@kernel
def _show(first, last, rule, land, lanes, obs, mask):
    """Write observations [N, 10, H, W] and masks of lanes first … last - 1."""
    cells = rule.height * rule.width
    seen = obs.reshape((obs.shape[0], CHANNELS, cells))
    fires = rule.shown if rule.shown > 0 else rule.fires
    for i in range(first, last):
        left = np.float32(1.0 - lanes.lane[i, SPENT] / rule.budget)
        for p in range(PLANES):
            for c in range(cells):
                seen[i, p, c] = land.planes[i, p, c]
        for c in range(cells):
            seen[i, BREAKS, c] = lanes.broken[i, c]
            seen[i, FREQUENCY, c] = lanes.counts[i, c] / fires
            seen[i, FLOW, c] = math.sqrt(lanes.flow[i, c] / (fires * cells))
            seen[i, LEFT, c] = left
            mask[i, c] = land.layers[i, VEGETATION, c] != NONE and not lanes.broken[i, c]


class _Wildfire:
    def __init__(self, options: Options, lanes: int, first_lane: int) -> None:
        height, width = _shape(options)
        cells = height * width
        library = np.zeros((0, len(LAYERS), cells), np.float32)
        if options.landscape:
            library = _wildfire_file.read(options.landscape).reshape(-1, len(LAYERS), cells).copy()
        self.spec = spec(options)
        self.lanes = lanes
        self._first_lane = first_lane
        self._rule = episode.Rule(
            height, width, _budget(options, library), options.cells_per_step, options.fires, options.shown_fires,
            options.evaluation_fires, options.cell_metres, options.wind, options.reward_scale,
        )  # fmt: skip
        self._land = episode.Land(
            library,
            np.zeros((lanes, len(LAYERS), cells), np.float32),
            np.zeros((lanes, cells, 8), np.int32),
            np.zeros((lanes, PLANES, cells), np.float32),
            np.zeros((lanes, cells), np.int16),
            np.zeros(cells),
        )
        self._rewarding = new_fires(lanes * options.fires, cells)
        self._shown = new_fires(lanes * options.shown_fires, cells)
        self._judges, self._unbroken = new_fires(1, cells), np.zeros((1, cells), np.bool_)
        self._lanes = episode.Lanes(
            np.zeros((lanes, 2), np.uint64),
            np.zeros(lanes, np.uint64),
            np.zeros((lanes, 3), np.int32),
            np.zeros((lanes, cells), np.bool_),
            np.zeros((lanes, options.cells_per_step), np.int16),
            np.zeros((lanes, cells), np.int32),
            np.zeros((lanes, cells), np.int32),
        )
        groups = {"": self._land, "rewarding.": self._rewarding, "shown.": self._shown, " ": self._lanes}
        state = {prefix.strip() + name: a for prefix, group in groups.items() for name, a in group._asdict().items()}
        self._state = {name: a for name, a in state.items() if name.rpartition(".")[2] not in NO_STATE and a.size}

    def reset(self, seed: int, out: Steps) -> None:
        for array in self._state.values():
            array.fill(0)  # so that the state holds no trace of the episodes before
        start_streams(seed, self._first_lane, self._lanes.stream)
        _begin(self._rule, self._land, self._rewarding, self._shown, self._lanes, out.obs["obs"], out.mask)

    def step(self, actions: np.ndarray, out: Steps) -> None:
        _step(
            self._rule, self._land, self._rewarding, self._shown, self._judges, self._unbroken, self._lanes, actions,
            out.obs["obs"], out.reward, out.terminated, out.truncated, out.final_obs["obs"], out.measures,
            out.mask, out.final_mask,
        )  # fmt: skip

    def ask(self, first: int, number: int, worth: np.ndarray) -> None:
        """worth [N, cells] int32: burnt cells downstream of each cell, added up over fires that nothing else uses,
        under the breaks there are."""
        episode.ask(self._rule, self._land, self._judges, self._lanes, first, number, worth)

    def state(self) -> Arrays:
        return copied(self._state)

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        restore(self._state, state)

    def render(self, lane: int = 0) -> str:
        return _wildfire_show.text(*self._maps(lane))

    def picture(self, lane: int = 0) -> np.ndarray:
        """uint8 [H', W', 3]"""
        return _wildfire_show.picture(*self._maps(lane))

    def _maps(self, lane: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Layers, breaks and burn frequency of one lane."""
        shape = self._rule.height, self._rule.width
        often = self._lanes.counts[lane] / (self._rule.shown or self._rule.fires)
        layers = self._land.layers[lane].reshape(-1, *shape)
        return layers, self._lanes.broken[lane].reshape(shape), often.reshape(shape)

    def close(self) -> None:
        pass
