"""cached_batch: every cycle learns from the batches that were gathered last."""

from __future__ import annotations

from hotloop.config import TrainConfig
from hotloop.doctor.own.trial import Trial
from hotloop.pipeline import Pipeline


def trials(config: TrainConfig, cores: int) -> list[Trial]:
    return [
        Trial(
            "cached_batch", "the same batches again, nothing sampled or gathered", "changes learning", cut=_cut,
            predict=lambda c: c.without(sample=0),
        )
    ]  # fmt: skip


def _cut(pipeline: Pipeline) -> None:
    pipeline.begin_updates = pipeline.learner.begin  # type: ignore[method-assign]
