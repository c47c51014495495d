"""compiling: the update and acting as native code, or eagerly."""

from __future__ import annotations

from hotloop.config import TrainConfig
from hotloop.doctor.own.trial import Trial


def trials(config: TrainConfig, cores: int) -> list[Trial]:
    other = not config.compile
    title = "compiled" if other else "eager, nothing compiled"
    return [Trial("compiling", title, "same learning", {"compile": other}, remedy=f"--compile {str(other).lower()}")]
