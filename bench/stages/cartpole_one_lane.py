"""CartPole end to end, one lane, strictly serial, at CleanRL's settings: against a single file of PyTorch as people
write it. One core on either side."""

from __future__ import annotations

from typing import Any

from bench.measure import Row, stage
from bench.stages import _cartpole

NATIVE = "ours, native CartPole, one lane, serial (1 core)"
GYMNASIUM = "ours, Gymnasium's CartPole-v1, one lane, serial (1 core)"


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    work = _cartpole.terms(lanes=1, total_env_steps=3_000 if quick else 12_000, learning_starts=2_000)
    work |= {"loss": "mse", "max_grad_norm": 0.0}
    ours = {
        NATIVE: _cartpole.layer(work, "cartpole", overlap=False),
        GYMNASIUM: _cartpole.layer(work, "CartPole-v1", overlap=False),
    }
    return _cartpole.compare(work, ours, NATIVE, {"cleanrl_style": (3.0, 5.0)}, 2 if quick else 7)


if __name__ == "__main__":
    stage(run)
