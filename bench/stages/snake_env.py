"""Snake without learning: env steps per second on one core, 256 lanes, uniformly random play from reset. Random
snakes are short; the flood of a long one costs more."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from bench.measure import Row, interleaved, stage

LANES = 256
BOUNDS = {"basic": (5e6, 20e6), "flood": (1e6, 4e6)}  # must, aim; with the drawing of actions


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    steps = 500 if quick else 20_000
    sides: dict[str, Callable[[], float]] = {}
    for kind in BOUNDS:
        play = _player(kind)
        for drawn in (True, False):
            sides[f"{kind}, {_label(drawn)}"] = lambda play=play, drawn=drawn: play(steps, drawn)
    interleaved(sides, 1)
    found = interleaved(sides, 3 if quick else 15)
    rows = []
    for name, values in found.items():
        must, aim = BOUNDS[name.split(",")[0]] if name.endswith(_label(True)) else (None, None)
        rows.append(Row(f"snake {name}", "env steps/s", tuple(values), must=must, aim=aim))
    return {"lanes": LANES, "board": "10×10", "batched_steps_per_repeat": steps, "threads": 1}, rows


def _label(drawn: bool) -> str:
    return "drawing actions counted" if drawn else "actions drawn before"


def _player(kind: str) -> Callable[[int, bool], float]:
    import numpy as np

    from hotloop.collect.act import lane_keys, random_legal
    from hotloop.core.random import POLICY
    from hotloop.core.schema import new_steps
    from hotloop.envs import snake

    env = snake.make(snake.Options(observation=kind), LANES)
    out, keys, no_mask = new_steps(env.spec, LANES), lane_keys(1, POLICY, LANES), np.ones((1, 1), np.bool_)
    _assert_pristine(env, out)
    table = np.empty((1_024, LANES), np.int32)  # enough that no lane meets its own actions in step with its games
    for t, row in enumerate(table):
        random_legal(no_mask, False, 3, keys, t, row)
    shares = np.bincount(table.ravel(), minlength=3) / table.size
    assert np.abs(shares - 1 / 3).max() < 0.01, f"the policy is not uniform: {shares}"

    def play(steps: int, drawn: bool) -> float:
        actions = np.empty(LANES, np.int32)
        began = time.perf_counter()
        if drawn:
            for t in range(steps):
                random_legal(no_mask, False, 3, keys, t, actions)
                env.step(actions, out)
        else:
            for t in range(steps):
                env.step(table[t & 1_023], out)
        return steps * LANES / (time.perf_counter() - began)

    return play


def _assert_pristine(env: Any, out: Any) -> None:
    """A reset leaves nothing of the games before it, and gives the episode it gave at first."""
    import numpy as np

    env.reset(7, out)
    before = env.state()
    for _ in range(100):
        env.step(np.zeros(LANES, np.int32), out)
    env.reset(7, out)
    after = env.state()
    assert all(np.array_equal(before[k], after[k]) for k in before), "the world is not pristine after reset"


if __name__ == "__main__":
    stage(run)
