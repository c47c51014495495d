"""Snake without learning, 256 lanes, 12×12: ours on one core against EnvPool's C++ `Jumanji/Snake-v1` on both. Theirs
sees five planes of the board; ours is played with the ten numbers of our preset, and with planes."""

from __future__ import annotations

from typing import Any

from bench.measure import Row, stage
from bench.stages import _envs

LANES, CORES = 256, 2


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    long, short = (200, 20) if quick else (20_000, 400)  # batched steps per repeat
    ours = {
        "ours, ten numbers": _envs.native("snake", LANES, long, size=12, observation="basic"),
        "ours, planes": _envs.native("snake", LANES, long // 10, size=12, observation="grid"),
    }
    asked = {"env": "Jumanji/Snake-v1", "lanes": LANES, "actions": 4, "batched_steps": short, "threads": CORES}
    theirs = {
        "EnvPool, all lanes at once": ("envpool", asked),
        "EnvPool, whichever are ready": ("envpool", {**asked, "ready": LANES // 4}),
    }
    settings, rows = _envs.compare(ours, theirs, {"envpool": (50.0, 300.0)}, 2 if quick else 7)
    return {"lanes": LANES, "board": "12×12", **settings}, rows


if __name__ == "__main__":
    stage(run)
