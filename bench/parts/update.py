"""The compiled update, 8 per call, 4-120-84-2, batch 128."""

from __future__ import annotations

from collections.abc import Callable


def make() -> Callable[[], object]:
    import torch

    from bench.stages._update_sides import Ours

    torch.set_num_threads(1)
    side = Ours((120, 84), 128, 8)
    side.cycle()
    return lambda: [side.learner.update() for _ in range(12)]
