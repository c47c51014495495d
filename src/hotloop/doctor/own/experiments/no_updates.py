"""no_updates: nothing is learnt, so what is left is collecting."""

from __future__ import annotations

from hotloop.config import TrainConfig
from hotloop.doctor.own.trial import Trial
from hotloop.pipeline import Pipeline


def trials(config: TrainConfig, cores: int) -> list[Trial]:
    return [
        Trial("no_updates", "no updates", "changes learning", cut=_cut, predict=lambda c: c.without(update=0, sample=0))
    ]


def _cut(pipeline: Pipeline) -> None:
    pipeline.learning = lambda env_steps: False  # type: ignore[method-assign]
