"""lanes: more or fewer copies of the environment in a step, at the same samples per step."""

from __future__ import annotations

from hotloop.config import TrainConfig
from hotloop.doctor.own.trial import Trial


def trials(config: TrainConfig, cores: int) -> list[Trial]:
    numbers = [n for n in (config.lanes // 4, config.lanes * 4) if n]
    learning = "changes learning" if config.learns_from_blocks else "same learning"
    return [
        Trial("lanes", f"{n} lanes", learning, {"lanes": n, "cycle_steps": 0}, remedy=f"--lanes {n}") for n in numbers
    ]
