"""Wildfire without learning: env steps per second on one core, 20×20, 10 fires, 64 lanes, uniformly random breaks; and
the same work as a straightforward Python program does it, every fire burnt anew after every break."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from typing import Any

from bench.measure import Row, interleaved, ratios, stage

LANES, SIZE, FIRES, HELD_OUT = 64, 20, 10, 10
BREAKS = SIZE * SIZE // 20  # of an episode
NEIGHBOURS = [(1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1)]


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    steps, episodes = (400, 1) if quick else (4_000, 4)
    ours, theirs = _ours(), _plain()
    sides: dict[str, Callable[[], float]] = {"ours": lambda: ours(steps), "plain": lambda: theirs(episodes)}
    interleaved(sides, 1)
    found = interleaved(sides, 3 if quick else 11)
    settings = {
        "lanes": LANES, "map": f"{SIZE}×{SIZE}", "fires": FIRES, "held_out_fires_per_episode": HELD_OUT, "threads": 1,
        "batched_steps_per_repeat": steps, "episodes_per_repeat_in_plain_python": episodes,
    }  # fmt: skip
    rows = [
        Row("wildfire, drawing actions counted", "env steps/s", tuple(found["ours"]), must=2e3, aim=10e3),
        Row("wildfire in plain Python, one lane", "env steps/s", tuple(found["plain"])),
        Row("wildfire / plain Python", "×", ratios(found["ours"], found["plain"]), must=50, aim=200),
    ]
    return settings, rows


def _ours() -> Callable[[int], float]:
    import numpy as np

    from hotloop.collect.act import lane_keys, random_legal
    from hotloop.core.random import POLICY
    from hotloop.core.schema import new_steps
    from hotloop.envs import wildfire

    env = wildfire.make(wildfire.Options(size=SIZE, fires=FIRES, evaluation_fires=HELD_OUT), LANES)
    out, keys, actions = new_steps(env.spec, LANES), lane_keys(1, POLICY, LANES), np.empty(LANES, np.int32)
    _assert_pristine(env, out)
    drawn = 0

    def play(steps: int) -> float:
        nonlocal drawn
        began = time.perf_counter()
        for _ in range(steps):
            assert out.mask is not None
            random_legal(out.mask, True, env.spec.num_actions, keys, drawn, actions)
            env.step(actions, out)
            drawn += 1
        return steps * LANES / (time.perf_counter() - began)

    return play


def _assert_pristine(env: Any, out: Any) -> None:
    """Breaks leave no trace in the landscape: after a reset it is to the byte what it was, and burns as it did."""
    import numpy as np

    env.reset(7, out)
    before = env.state()
    for step in range(BREAKS):
        env.step(out.mask.argmax(axis=1).astype(np.int32), out)
        same = all(np.array_equal(before[k], env.state()[k]) for k in ("layers", "chance"))
        assert same or step == BREAKS - 1, "a break was written into the landscape"
    env.reset(7, out)
    after = env.state()
    assert all(np.array_equal(before[k], after[k]) for k in before), "the world is not pristine after reset"


# --- the same in plain Python, with the interpreter's own random numbers ---------------------------------------------


def _plain() -> Callable[[int], float]:
    """Landscapes come from ours, so that the fires are as large; their drawing is not counted."""
    import numpy as np

    from hotloop.core.schema import new_steps
    from hotloop.envs import wildfire

    env = wildfire.make(wildfire.Options(size=SIZE, fires=1, evaluation_fires=1), LANES)
    env.reset(3, new_steps(env.spec, LANES))
    chances = env.state()["chance"].reshape(LANES, SIZE, SIZE, 8) / 65_536
    fuel = env.state()["layers"][:, 0].reshape(LANES, SIZE, SIZE) > 0
    ways = [_ways(lane.tolist()) for lane in chances]
    burnable = [[(x, y) for y, x in np.argwhere(lane).tolist()] for lane in fuel]
    planes = np.zeros((10, SIZE, SIZE), np.float32)
    played = 0

    def play(episodes: int) -> float:
        nonlocal played
        began = time.perf_counter()
        for _ in range(episodes):
            _episode(ways[played % LANES], burnable[played % LANES], planes, played)
            played += 1
        return episodes * BREAKS / (time.perf_counter() - began)

    return play


def _ways(chances: list) -> dict:
    """Cell -> the neighbours that it may light, with their chances."""
    return {
        (x, y): [((x + dx, y + dy), p) for (dx, dy), p in zip(NEIGHBOURS, chances[y][x], strict=True) if p > 0]
        for y in range(SIZE)
        for x in range(SIZE)
    }


def _episode(ways: dict, burnable: list, planes: Any, seed: int) -> None:
    """Random breaks; after each one the reward, and the observation that shows where it burns."""
    broken: set = set()
    free = list(burnable)
    rng = random.Random(seed)
    before = _mean([_burn(ways, burnable, broken, f)[0] for f in range(FIRES)])
    for _ in range(BREAKS):
        cell = free.pop(rng.randrange(len(free)))
        broken.add(cell)
        fires = [_burn(ways, burnable, broken, f) for f in range(FIRES)]
        now = _mean([burnt for burnt, _ in fires])
        reward, before = before - now, now
        assert reward > -1
        _observe(planes, broken, fires)
    for judged in (set(), broken):
        _mean([_burn(ways, burnable, judged, 1_000 + f)[0] for f in range(HELD_OUT)])


def _burn(ways: dict, burnable: list, broken: set, seed: int) -> tuple[set, list]:
    """The cells that burn, and who lit whom."""
    draw = random.Random(seed).random
    start = burnable[int(draw() * len(burnable))]
    if start in broken:
        return set(), []
    burnt, lit = {start}, [(start, start)]
    for cell, _ in lit:  # grows as it burns
        for n, p in ways[cell]:
            if draw() < p and n not in burnt and n not in broken:
                burnt.add(n)
                lit.append((n, cell))
    return burnt, lit


def _mean(fires: list) -> float:
    return sum(map(len, fires)) / (len(fires) * SIZE * SIZE)


def _observe(planes: Any, broken: set, fires: list) -> None:
    """What changes: breaks, burn frequency, flow, the share of the budget that is left."""
    planes[6:] = 0
    for x, y in broken:
        planes[6, y, x] = 1
    flow: dict = {}
    for burnt, lit in fires:
        for x, y in burnt:
            planes[7, y, x] += 1 / FIRES
        through = dict.fromkeys(burnt, 1)
        for cell, lighter in reversed(lit):
            flow[cell] = flow.get(cell, 0) + through[cell]
            if lighter != cell:
                through[lighter] += through[cell]
    for (x, y), cells in flow.items():
        planes[8, y, x] = math.sqrt(cells / (FIRES * SIZE * SIZE))
    planes[9] = 1 - len(broken) / BREAKS


if __name__ == "__main__":
    stage(run)
