"""overlap: collecting and learning at the same time, or in turn."""

from __future__ import annotations

from dataclasses import replace

from hotloop.config import TrainConfig
from hotloop.doctor.own.trial import Trial


def trials(config: TrainConfig, cores: int) -> list[Trial]:
    other = not config.overlap
    title = "overlap on: weights one cycle old" if other else "overlap off: one after the other"
    return [
        Trial(
            "overlap", title, "same learning", {"overlap": other}, predict=lambda c: replace(c, overlap=other),
            remedy=f"--overlap {str(other).lower()}",
        )
    ]  # fmt: skip
