"""flood_fill: Snake without the room that each move leaves. It is another observation, and another game."""

from __future__ import annotations

from hotloop.config import TrainConfig
from hotloop.doctor.own.trial import Trial


def trials(config: TrainConfig, cores: int) -> list[Trial]:
    if config.workload != "snake" or config.env.get("observation") != "flood":
        return []
    return [
        Trial(
            "flood_fill", "no flood fill in the observation", "changes the problem", {"env": {"observation": "basic"}}
        )
    ]
