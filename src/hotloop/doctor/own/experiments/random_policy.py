"""random_policy: actions are drawn and the network is not asked."""

from __future__ import annotations

from dataclasses import replace

from hotloop.config import TrainConfig
from hotloop.doctor.own.trial import Trial
from hotloop.pipeline import Pipeline


def trials(config: TrainConfig, cores: int) -> list[Trial]:
    if config.workers:  # what is taken away would have to be taken from them
        return []
    return [
        Trial(
            "random_policy", "random actions, the network is not asked", "changes the problem", cut=_cut,
            predict=lambda c: c.without(act=0),
        )
    ]  # fmt: skip


def _cut(pipeline: Pipeline) -> None:
    collector = pipeline.collector
    collector.explore = replace(collector.explore, kind="epsilon", start=1.0, end=1.0)
