"""CartPole end to end, 10 lanes, against each rival: learning phase, the same samples per step. Each rival's updates
come in the cycles that suit it; its environment is Gymnasium's, but for the JAX program, which has its own."""

from __future__ import annotations

from typing import Any

from bench.measure import Row, stage
from bench.stages import _cartpole

OVERLAP = "ours, native CartPole, overlap (2 cores)"
SERIAL = "ours, native CartPole, no overlap (1 core)"
GYMNASIUM = "ours, Gymnasium's CartPole-v1, overlap (2 cores)"
BOUNDS = {
    "sb3": (6.0, 10.0), "tianshou": (6.0, 10.0), "sbx": (6.0, 10.0), "torchrl": (6.0, 10.0), "rllib": (6.0, 10.0),
    "jax_whole": (1.0, 2.0),
}  # fmt: skip
# Slow ones get shorter windows. Their epsilon, the same function of env steps, is then higher while they are measured,
# and a random action costs them less than one that is looked up.
CHANGES: dict[str, dict[str, Any]] = {
    "tianshou": {"updates_at_once": 10, "total_env_steps": 25_000},
    "sbx": {"updates_at_once": 10},
    "torchrl": {"updates_at_once": 10, "total_env_steps": 25_000},
    "rllib": {"updates_at_once": 50, "total_env_steps": 14_000},
}


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    work = _cartpole.terms(
        lanes=10, total_env_steps=3_000 if quick else 60_000, learning_starts=1_000 if quick else 10_000
    )
    changes = {k: {n: v for n, v in c.items() if n != "total_env_steps"} for k, c in CHANGES.items()}
    ours = {
        OVERLAP: _cartpole.layer(work, "cartpole", overlap=True),
        SERIAL: _cartpole.layer(work, "cartpole", overlap=False),
        GYMNASIUM: _cartpole.layer(work, "CartPole-v1", overlap=True),
    }
    return _cartpole.compare(work, ours, OVERLAP, BOUNDS, 1 if quick else 5, changes if quick else CHANGES)


if __name__ == "__main__":
    stage(run)
