"""One update, replay included: eager PyTorch against ours, in one process on one thread, round by round."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.measure import Row, interleaved, ratios

CALLS = (8, 32, 1)  # updates per call of ours; the first one is judged
TARGET_EVERY = 50
CAPACITY = 10_000
LANES = 10


@dataclass(frozen=True)
class Bounds:
    ratio: tuple[float, float]  # must, aim
    microseconds: tuple[float, float] | None = None


def compare(hidden: tuple[int, ...], batch: int, bounds: Bounds, quick: bool) -> tuple[dict[str, Any], list[Row]]:
    import torch

    from bench.stages._update_sides import Ours, eager_with, transitions

    torch.set_num_threads(1)
    ours = {u: Ours(hidden, batch, u) for u in CALLS}
    eager = eager_with(ours[CALLS[0]], hidden)
    largest = assert_same_losses(ours[CALLS[0]], eager, transitions(ours[CALLS[0]].store).index)

    seconds = 0.03 if quick else 0.25
    sides: dict[str, Callable[[], float]] = {"eager": lambda: per_update(lambda n: eager.learn(n, batch), 20, seconds)}
    for u, side in ours.items():
        sides[f"{u}"] = lambda side=side: per_update(side.learn, 96, seconds)
    interleaved(sides, 1)  # caches, allocator and clock of the CPU
    found = interleaved(sides, 3 if quick else 21)
    rows = []
    for u in CALLS:
        must, aim = bounds.ratio if u == CALLS[0] else (None, None)
        rows.append(
            Row(f"eager / ours, {u} updates per call", "×", ratios(found["eager"], found[f"{u}"]), must=must, aim=aim)
        )
    for u in CALLS:
        must, aim = (bounds.microseconds if u == CALLS[0] else None) or (None, None)
        parts = {k: round(v * 1e6, 2) for k, v in ours[u].parts(20 if quick else 500).items()}
        rows.append(
            Row(f"ours, {u} updates per call", "µs per update", micro(found[f"{u}"]), "less", must, aim, detail=parts)
        )
    rows.append(Row("eager PyTorch", "µs per update", micro(found["eager"]), "less"))
    settings = {
        "network": [4, *hidden, 2],
        "batch": batch,
        "replay": CAPACITY,
        "target_every_updates": TARGET_EVERY,
        "optimizer": "Adam 1e-3, no clip",
        "threads": 1,
        "origin": ours[CALLS[0]].learner.program.origin,
        "largest_relative_difference_of_losses": largest,
    }
    return settings, rows


def assert_same_losses(ours: Any, eager: Any, row_of: np.ndarray) -> float:
    """The same batches through both, over more than two moves of the target -> largest relative difference.
    row_of: slot -> row of the eager replay."""
    import torch

    a, b = [], []
    for _ in range(15):
        stats = ours.cycle()
        a += stats[:, 0].tolist()
        b += [eager.update(torch.from_numpy(row_of[slots])).item() for slots in ours.slots]
    assert len(a) > 2 * TARGET_EVERY
    np.testing.assert_allclose(a[0], b[0], rtol=1e-5, err_msg="first loss")
    np.testing.assert_allclose(a, b, rtol=2e-3, err_msg="losses over two moves of the target")
    return float(np.max(np.abs(np.array(a) / np.array(b) - 1)))


def per_update(learn: Callable[[int], None], grain: int, seconds: float) -> float:
    """Seconds per update over about `seconds`."""
    done, began = 0, time.perf_counter()
    while (now := time.perf_counter()) < began + seconds:
        learn(grain)
        done += grain
    return (now - began) / done


def micro(values: list[float]) -> tuple[float, ...]:
    return tuple(v * 1e6 for v in values)
