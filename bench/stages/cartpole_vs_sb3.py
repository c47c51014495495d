"""CartPole end to end, 10 lanes: hotloop against Stable-Baselines3, learning phase. Each torch operation has one
thread on either side; with overlap hotloop acts and learns in two threads, so two cores."""

from __future__ import annotations

from typing import Any

from bench.measure import Row, stage
from bench.stages import _cartpole

LONG = True  # run only where it is named, or with all
OVERLAP = "ours, native CartPole, overlap (2 cores)"
SERIAL = "ours, native CartPole, no overlap (1 core)"
GYMNASIUM = "ours, Gymnasium's CartPole-v1 as theirs, overlap (2 cores)"


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    work = _cartpole.terms(lanes=10, total_env_steps=15_000 if quick else 60_000, learning_starts=10_000)
    ours = {
        OVERLAP: _cartpole.layer(work, "cartpole", overlap=True),
        GYMNASIUM: _cartpole.layer(work, "CartPole-v1", overlap=True),
        SERIAL: _cartpole.layer(work, "cartpole", overlap=False),
    }
    return _cartpole.compare(work, ours, OVERLAP, {"sb3": (6, 10)}, repeats=2 if quick else 7)


if __name__ == "__main__":
    stage(run)
