"""Service chains without learning: env steps per second on one core, 64 lanes, uniformly random legal play from reset;
and against the plain Python reference, which plays lane 0 of the same games with the same actions."""

from __future__ import annotations

import sys
import time
from typing import Any

from bench.measure import ROOT, Row, interleaved, ratios, stage

LANES = 64


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    sys.path.insert(0, str(ROOT / "tests"))
    steps, plain_steps = (500, 60) if quick else (8_000, 1_500)
    assert_same(plain_steps)
    found = interleaved({"ours": lambda: ours(steps), "plain": lambda: plain(plain_steps)}, 3 if quick else 9)
    speeds, over = tuple(found["ours"]), ratios(found["ours"], found["plain"])
    rows = [
        Row("service chains, random play", "env steps/s", speeds, must=200_000, aim=1_000_000),
        Row("service chains / plain Python reference", "×", over, must=50, aim=200),
    ]
    settings = {"lanes": LANES, "batched_steps_per_repeat": steps, "plain_steps_per_repeat": plain_steps, "threads": 1}
    return settings, rows


def ours(steps: int) -> float:
    import numpy as np

    env, out, keys, random_legal = _world()
    actions = np.empty(LANES, np.int32)
    began = time.perf_counter()
    for t in range(steps):
        random_legal(out.mask, True, env.spec.num_actions, keys, t, actions)
        env.step(actions, out)
    return steps * LANES / (time.perf_counter() - began)


def plain(steps: int) -> float:
    """As a Python script would: step, then make observation and mask."""
    import numpy as np

    game, rng = _reference(), np.random.default_rng(0)
    began = time.perf_counter()
    for _ in range(steps):
        _, ended = game.step(int(rng.choice(np.flatnonzero(game.mask()))))
        game.observation()
        if ended:
            game.begin()
    return steps / (time.perf_counter() - began)


def _world() -> tuple[Any, Any, Any, Any]:
    from hotloop.collect.act import lane_keys, random_legal
    from hotloop.core.random import POLICY
    from hotloop.core.schema import new_steps
    from hotloop.envs import service_chain

    env = service_chain.make(service_chain.Options(), LANES)
    out = new_steps(env.spec, LANES)
    env.reset(1, out)
    return env, out, lane_keys(1, POLICY, LANES), random_legal


def _reference() -> Any:
    from references.service_chain import ServiceChain  # pyright: ignore[reportMissingImports]

    from hotloop.envs.service_chain import Options

    o = Options()
    return ServiceChain(
        o.data_centres_min, o.data_centres_max, o.actions_per_step, o.traffic_ms, o.link_mbps, o.reward, 1, 0
    )


def assert_same(steps: int) -> None:
    """Both sides play the same game."""
    import numpy as np

    env, out, keys, random_legal = _world()
    game, actions = _reference(), np.empty(LANES, np.int32)
    for t in range(steps):
        random_legal(out.mask, True, env.spec.num_actions, keys, t, actions)
        assert out.mask is not None and out.mask[0].tolist() == game.mask(), t
        env.step(actions, out)
        reward, ended = game.step(int(actions[0]))
        assert out.reward[0] == np.float32(float(reward)) and out.terminated[0] == ended, t
        for part, wanted in game.observation().items():
            assert np.array_equal(out.obs[part][0], wanted), (t, part)


if __name__ == "__main__":
    stage(run)
