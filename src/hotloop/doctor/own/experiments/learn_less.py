"""learn_less: fewer samples replayed per env step; faster, and less learnt from each step."""

from __future__ import annotations

from hotloop.config import TrainConfig
from hotloop.doctor.own.trial import Trial

PARTS = (2, 4)


def trials(config: TrainConfig, cores: int) -> list[Trial]:
    return [_less(config.samples_per_step / part, part) for part in PARTS]


def _less(samples: float, part: int) -> Trial:
    return Trial(
        "learn_less", f"{samples:g} samples per step", "changes learning", {"samples_per_step": samples},
        predict=lambda c: c.without(update=c.update / part, sample=c.sample / part),
        remedy=f"--samples-per-step {samples:g}",
    )  # fmt: skip
