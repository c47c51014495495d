"""CartPole end to end, one lane, strictly serial: 10 env steps, one update, and so on, on one core either side."""

from __future__ import annotations

from typing import Any

from bench.measure import Row, stage
from bench.stages import _cartpole

LONG = True  # run only where it is named, or with all
NATIVE = "ours, native CartPole, one lane, serial (1 core)"
GYMNASIUM = "ours, Gymnasium's CartPole-v1 as theirs, one lane, serial (1 core)"


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    work = _cartpole.terms(lanes=1, total_env_steps=3_000 if quick else 12_000, learning_starts=2_000)
    ours = {
        NATIVE: _cartpole.layer(work, "cartpole", overlap=False),
        GYMNASIUM: _cartpole.layer(work, "CartPole-v1", overlap=False),
    }
    return _cartpole.compare(work, ours, NATIVE, {"sb3": (4, 6)}, repeats=2 if quick else 7)


if __name__ == "__main__":
    stage(run)
