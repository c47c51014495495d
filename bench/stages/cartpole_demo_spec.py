"""A demonstration of DQN that was said to be slow in its loss: one lane, 64 SELU units, 32 updates of 32 every 4 env
steps, a target that goes a tenth of the way. Against PyTorch as people write it, and in µs per update, env steps
included."""

from __future__ import annotations

from typing import Any

from bench.measure import Row, stage
from bench.stages import _cartpole

OURS = "ours, native CartPole, serial (1 core)"


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    work = {
        **_cartpole.terms(lanes=1, total_env_steps=400 if quick else 2_000, learning_starts=40),
        "env_steps_per_update": 0.125, "updates_at_once": 32, "cycle_steps": 4, "batch": 32, "hidden": [64],
        "activation": "selu", "loss": "mse", "learning_rate": 0.02, "learning_rate_end": 0.0, "max_grad_norm": 0.5,
        "target_every_updates": 256, "target_tau": 0.1, "epsilon": [1.0, 0.1], "epsilon_decay": 1_000,
    }  # fmt: skip
    layer = _cartpole.layer(work, "cartpole", overlap=False)
    repeats = 2 if quick else 5
    bounds = {"cleanrl_style": (3.0, 5.0)}
    settings, rows = _cartpole.compare(work, {OURS: layer}, OURS, bounds, repeats, preset=("cartpole", "seed"))
    speed = next(row for row in rows if row.what == OURS)
    micros = tuple(1e6 * work["env_steps_per_update"] / value for value in speed.values)
    sampled = speed.samples_per_step
    rows.append(Row("ours, whole run per update", "µs", micros, "less", 100.0, 25.0, sampled))
    return settings, rows


if __name__ == "__main__":
    stage(run)
