"""threads: how many threads share one operation of the network."""

from __future__ import annotations

from hotloop.config import TrainConfig
from hotloop.doctor.own.trial import Trial


def trials(config: TrainConfig, cores: int) -> list[Trial]:
    numbers = sorted({1, cores // 2, cores} - {0, config.threads})
    return [Trial("threads", f"threads {n}", "same learning", {"threads": n}, remedy=f"--threads {n}") for n in numbers]
