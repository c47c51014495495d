"""workers: processes that step the environments, or this one."""

from __future__ import annotations

from hotloop.config import TrainConfig
from hotloop.doctor.own.trial import Trial


def trials(config: TrainConfig, cores: int) -> list[Trial]:
    numbers = [n for n in sorted({0, 1, cores}) if n != config.workers and (not n or config.lanes % n == 0)]
    return [
        Trial(
            "workers", f"{n} worker processes" if n else "no worker processes", "same learning", {"workers": n},
            remedy=f"--workers {n}",
        )
        for n in numbers
    ]  # fmt: skip
