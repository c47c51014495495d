"""What prioritized sampling costs: the whole update of an MLP 4-256-256-2, batch 256, from a replay that is written
into, against the same with uniform sampling. One process, one thread, round by round."""

from __future__ import annotations

from typing import Any

from bench.measure import Row, interleaved, ratios, stage
from bench.stages._update import CAPACITY, LANES, TARGET_EVERY, micro, per_update

HIDDEN, BATCH = (256, 256), 256
UPDATES = 32  # per call, and per block of 100 batched steps: 8.2 samples per step
SAMPLERS = ("uniform", "prioritized", "combined")


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    import torch

    from bench.stages._update_sides import Ours

    torch.set_num_threads(1)
    ours = {name: Ours(HIDDEN, BATCH, UPDATES, name) for name in SAMPLERS}

    def learn(side: Ours, updates: int) -> None:
        for _ in range(updates // UPDATES):
            side.commit()
            side.cycle()

    seconds = 0.05 if quick else 0.5
    sides = {
        name: lambda side=side: per_update(lambda n: learn(side, n), UPDATES, seconds) for name, side in ours.items()
    }
    interleaved(sides, 1)
    found = interleaved(sides, 3 if quick else 21)
    rows = [
        Row("prioritized / uniform", "×", ratios(found["prioritized"], found["uniform"]), "less", must=1.15),
        Row("combined / uniform", "×", ratios(found["combined"], found["uniform"]), "less"),
    ]
    for name, side in ours.items():
        parts = {k: round(v * 1e6, 2) for k, v in side.parts(3 if quick else 50).items()}
        rows.append(Row(name, "µs per update", micro(found[name]), "less", detail=parts))
    settings = {
        "network": [4, *HIDDEN, 2],
        "batch": BATCH,
        "updates_per_call": UPDATES,
        "replay": CAPACITY,
        "samples_per_step": UPDATES * BATCH / (100 * LANES),
        "target_every_updates": TARGET_EVERY,
        "threads": 1,
        "origin": ours["uniform"].learner.program.origin,
    }
    return settings, rows


if __name__ == "__main__":
    stage(run)
