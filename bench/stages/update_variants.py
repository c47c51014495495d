"""What a variant, a head or a sampler costs: the whole update of an MLP 4-256-256-2, batch 256, 8 updates per call,
over that of plain DQN, in turns in one process on one thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bench.measure import Row, interleaved, ratios, stage

LONG = True  # run only where it is named, or with all
HIDDEN, BATCH, UPDATES = (256, 256), 256, 8
PLAIN = "dqn"
# name -> (what is changed, the most it may cost)
SIDES: dict[str, tuple[Mapping[str, Any], float | None]] = {
    PLAIN: ({}, None),
    "double": ({"variant": {"double": True}}, 1.35),
    "3 steps": ({"replay": {"n_step": 3}}, 1.05),
    "prioritized": ({"sampler": {"name": "prioritized"}}, 1.15),
    "dueling": ({"network": {"head": "dueling"}}, None),
    "noisy": ({"network": {"noisy": True}}, 1.5),
    "munchausen": ({"variant": {"name": "munchausen"}}, None),
    "c51": ({"variant": {"name": "c51"}}, 1.6),
    "qr_dqn": ({"variant": {"name": "qr_dqn"}}, 1.6),
    "iqn": ({"variant": {"name": "iqn"}}, None),
}


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    import torch

    from bench.stages._update import micro, per_update
    from bench.stages._update_sides import Ours

    torch.set_num_threads(1)
    made = {name: Ours(HIDDEN, BATCH, UPDATES, changes=changes) for name, (changes, _) in SIDES.items()}
    seconds = 0.03 if quick else 0.25
    sides: dict[str, Callable[[], float]] = {
        name: lambda side=side: per_update(side.learn, 16, seconds) for name, side in made.items()
    }
    interleaved(sides, 1)  # caches, allocator and clock of the CPU
    found = interleaved(sides, 3 if quick else 21)
    rows = []
    for name, (_, most) in SIDES.items():
        if name != PLAIN:
            rows.append(Row(f"{name} / {PLAIN}", "×", ratios(found[name], found[PLAIN]), "less", must=most))
    for name, side in made.items():
        parts = {k: round(v * 1e6, 2) for k, v in side.parts(5 if quick else 100).items()}
        rows.append(Row(name, "µs per update", micro(found[name]), "less", detail=parts))
    settings = {"network": [4, *HIDDEN, 2], "batch": BATCH, "updates_per_call": UPDATES, "threads": 1}
    return settings, rows


if __name__ == "__main__":
    stage(run)
