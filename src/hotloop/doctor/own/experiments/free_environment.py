"""free_environment: the blocks are those that were collected last, again and again, with new actions."""

from __future__ import annotations

from hotloop.config import TrainConfig
from hotloop.doctor.own.trial import Trial
from hotloop.pipeline import Pipeline


def trials(config: TrainConfig, cores: int) -> list[Trial]:
    if config.workers:  # what is taken away would have to be taken from them
        return []
    return [
        Trial(
            "free_environment", "canned blocks in place of the environment", "changes the problem", cut=_cut,
            predict=lambda c: c.without(env=0),
        )
    ]  # fmt: skip


def _cut(pipeline: Pipeline) -> None:
    pipeline.collector.env.step = lambda actions, out: None  # type: ignore[method-assign]
