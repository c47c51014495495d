"""CartPole without learning, 256 lanes: ours on one core against EnvPool, gymnax and Gymnasium's own vectorised one on
as many as they take."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from bench.measure import Row, stage
from bench.stages import _envs

LANES, CORES = 256, 2


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    steps = 200 if quick else 10_000
    ours = {"ours": _envs.native("cartpole", LANES, steps), "Gymnasium's, of NumPy": _gymnasium(steps // 10)}
    asked = {"env": "CartPole-v1", "lanes": LANES, "actions": 2, "batched_steps": steps // 10, "threads": CORES}
    theirs = {
        "EnvPool, all lanes at once": ("envpool", asked),
        "EnvPool, whichever are ready": ("envpool", {**asked, "ready": LANES // 4}),
        "gymnax": ("gymnax_env", {"env": "CartPole-v1", "lanes": LANES, "batched_steps": steps}),
    }
    settings, rows = _envs.compare(
        ours, theirs, {"envpool": (None, None), "gymnax_env": (None, None)}, 2 if quick else 7
    )
    return {"lanes": LANES, **settings}, [row for row in rows if "Gymnasium's, of NumPy /" not in row.what]


def _gymnasium(steps: int) -> Callable[[], float]:
    import gymnasium
    import numpy as np

    env = gymnasium.make_vec("CartPole-v1", LANES, vectorization_mode="vector_entry_point")
    env.reset(seed=1)
    drawn = np.random.default_rng(0).integers(0, 2, (64, LANES))

    def play() -> float:
        began = time.perf_counter()
        for t in range(steps):
            env.step(drawn[t & 63])
        return steps * LANES / (time.perf_counter() - began)

    return play


if __name__ == "__main__":
    stage(run)
