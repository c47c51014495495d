"""One episode of a lane: its landscape and fires from its key, what breaks spare, and the measures at its end. Knows
neither actions nor observations.

Fires are drawn once per episode and met by each break in turn: a fire under more breaks is a part of the fire under
fewer, so putting out what a break spares gives to the cell what burning anew under all breaks would.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hotloop.core.jit import kernel
from hotloop.core.random import below, bits
from hotloop.envs._wildfire_fire import UNBURNT, burn, downstream, put_out
from hotloop.envs._wildfire_land import draw_layers, follow

# What an episode's key is drawn from for. Fires that judge an episode are not those that reward it, and a policy that
# asks for fires gets others again.
LAND, REWARD, SHOWN, HELD_OUT, ASKED = range(5)

# Columns of `lane`, int32 [N, 3]: breaks of this episode, burnable cells, cells that burnt in all its fires unbroken.
SPENT, BURNABLE, UNBROKEN = range(3)


class Rule(NamedTuple):
    """The options as the kernels take them; numba knows named tuples and no dataclasses."""

    height: int
    width: int
    budget: int  # cells
    per_step: int
    fires: int
    shown: int  # 0: the fires that reward are shown
    held_out: int
    metres: float
    wind: float
    scale: float


class Land(NamedTuple):
    """The landscape of each lane, [N, …] unless said otherwise, and what follows from it."""

    library: np.ndarray  # float32 [M, 5, cells]: landscapes to choose from; M = 0: they are drawn
    layers: np.ndarray  # float32 [5, cells]
    chance: np.ndarray  # int32 [cells, 8]
    planes: np.ndarray  # float32 [6, cells]
    burnable: np.ndarray  # int16 [cells]: the cells that can burn come first
    field: np.ndarray  # float64 [cells], scratch of all lanes


class Fires(NamedTuple):
    """R fires, see _wildfire_fire."""

    ways: np.ndarray  # uint8 [R, cells]
    lit: np.ndarray  # uint8 [R, cells]
    order: np.ndarray  # int16 [R, cells + 1]
    size: np.ndarray  # int32 [R]: cells that burn
    loose: np.ndarray  # int16 [cells], scratch
    passed: np.ndarray  # int32 [cells], scratch


class Lanes(NamedTuple):
    """The episode of each lane."""

    stream: np.ndarray  # uint64 [N, 2], see _lanes
    episode: np.ndarray  # uint64 [N]: the key that landscape and fires are drawn from
    lane: np.ndarray  # int32 [N, 3]
    broken: np.ndarray  # bool [N, cells]: the fuel breaks
    recent: np.ndarray  # int16 [N, cells_per_step]: those that no fire has met yet
    counts: np.ndarray  # int32 [N, cells]: shown fires in which a cell burns
    flow: np.ndarray  # int32 [N, cells]: burnt cells that shown fires came to through a cell


def new_fires(rows: int, cells: int) -> Fires:
    return Fires(
        np.zeros((rows, cells), np.uint8),
        np.zeros((rows, cells), np.uint8),
        np.zeros((rows, cells + 1), np.int16),
        np.zeros(rows, np.int32),
        np.zeros(cells, np.int16),
        np.zeros(cells, np.int32),
    )


@kernel
def begin(i, key, rule, land, rewarding, shown, lanes):
    """Another landscape without breaks, and its fires."""
    lanes.episode[i] = key
    if land.library.shape[0] > 0:
        land.layers[i] = land.library[below(key, LAND, 0, land.library.shape[0])]
    else:
        draw_layers(i, bits(key, LAND, 0), rule.height, rule.width, rule.wind, land.layers, land.field)
    count = follow(i, rule.height, rule.width, rule.metres, land.layers, land.chance, land.planes, land.burnable)
    lanes.lane[i, SPENT] = 0
    lanes.lane[i, BURNABLE] = count
    for c in range(rule.height * rule.width):
        lanes.broken[i, c] = False
        lanes.counts[i, c] = 0
        lanes.flow[i, c] = 0
    lanes.lane[i, UNBROKEN] = _burn_all(i, REWARD, rule.fires, rule.shown == 0, rule, land, rewarding, lanes)
    _burn_all(i, SHOWN, rule.shown, True, rule, land, shown, lanes)


@kernel
def _burn_all(i, kind, number, seen, rule, land, fires, lanes):
    """New fires in place of those of the episode before -> burnt cells. seen: whether they are shown."""
    total = 0
    for f in range(number):
        r = i * number + f
        for k in range(fires.size[r]):
            fires.lit[r, fires.order[r, k]] = UNBURNT
        size = burn(
            r, bits(lanes.episode[i], kind, f), i, rule.width, land.chance, land.burnable, lanes.lane[i, BURNABLE],
            i, lanes.broken, fires.ways, fires.lit, fires.order,
        )  # fmt: skip
        fires.size[r] = size
        total += size
        if seen:
            downstream(r, size, i, rule.width, 1, fires.lit, fires.order, fires.passed, lanes.flow)
            for k in range(size):
                lanes.counts[i, fires.order[r, k]] += 1
    return total


@kernel
def meet_breaks(i, new, rule, rewarding, shown, lanes):
    """Put out what the `new` recent breaks spare -> burnt cells less, over the fires that reward."""
    spared = _put_out_all(i, new, rule.fires, rule.shown == 0, rule.width, rewarding, lanes)
    _put_out_all(i, new, rule.shown, True, rule.width, shown, lanes)
    return spared


@kernel
def _put_out_all(i, new, number, seen, width, fires, lanes):
    """A fire that has not burnt a cell that is now broken stays as it is."""
    spared = 0
    for r in range(i * number, (i + 1) * number):
        touched = False
        for k in range(new):
            touched |= fires.lit[r, lanes.recent[i, k]] != UNBURNT
        if not touched:
            continue
        before = np.int64(fires.size[r])
        if seen:
            downstream(r, before, i, width, -1, fires.lit, fires.order, fires.passed, lanes.flow)
        after = put_out(r, before, i, width, lanes.broken, fires.ways, fires.lit, fires.order, fires.loose)
        if seen:
            downstream(r, after, i, width, 1, fires.lit, fires.order, fires.passed, lanes.flow)
            for k in range(before - after):
                lanes.counts[i, fires.loose[k]] -= 1
        fires.size[r] = after
        spared += before - after
    return spared


@kernel
def judge(i, rule, land, rewarding, judges, unbroken, lanes, measures):
    """The measures of the episode that ends. judges: room for one fire, burnt without the breaks, then with them."""
    rewarded, held_out, held_out_unbroken = 0, 0, 0
    for r in range(i * rule.fires, (i + 1) * rule.fires):
        rewarded += rewarding.size[r]
    for f in range(rule.held_out):
        size = burn(
            0, bits(lanes.episode[i], HELD_OUT, f), i, rule.width, land.chance, land.burnable, lanes.lane[i, BURNABLE],
            0, unbroken, judges.ways, judges.lit, judges.order,
        )  # fmt: skip
        held_out_unbroken += size
        size = put_out(0, size, i, rule.width, lanes.broken, judges.ways, judges.lit, judges.order, judges.loose)
        held_out += size
        for k in range(size):
            judges.lit[0, judges.order[0, k]] = UNBURNT
    cells = rule.height * rule.width
    measures[i, 0] = held_out / (rule.held_out * cells)
    measures[i, 1] = held_out_unbroken / (rule.held_out * cells)
    measures[i, 2] = rewarded / (rule.fires * cells)
    measures[i, 3] = lanes.lane[i, UNBROKEN] / (rule.fires * cells)


@kernel
def ask(rule, land, judges, lanes, first, number, worth):
    """worth [N, cells]: burnt cells downstream of each cell, added up over fires first … first + number - 1 of those
    that may be asked for."""
    for i in range(worth.shape[0]):
        worth[i] = 0
        for f in range(first, first + number):
            size = burn(
                0, bits(lanes.episode[i], ASKED, f), i, rule.width, land.chance, land.burnable,
                lanes.lane[i, BURNABLE], i, lanes.broken, judges.ways, judges.lit, judges.order,
            )  # fmt: skip
            downstream(0, size, i, rule.width, 1, judges.lit, judges.order, judges.passed, worth)
            for k in range(size):
                judges.lit[0, judges.order[0, k]] = UNBURNT
