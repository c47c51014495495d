"""accumulate: the same batch in parts, one after another, whose gradients are averaged: less memory at a time."""

from __future__ import annotations

from hotloop.config import TrainConfig
from hotloop.doctor.own.trial import Trial


def trials(config: TrainConfig, cores: int) -> list[Trial]:
    """The batch halved; or whole again, where it is already taken in parts."""
    size, parts = config.learner.batch_size, config.learner.accumulate
    if parts > 1:
        size, parts = size * parts, 1
    elif size % 2 == 0:
        size, parts = size // 2, 2
    else:
        return []
    remedy = f"--learner.batch-size {size} --learner.accumulate {parts}"
    title = f"batches of {size}, {parts} per update" if parts > 1 else f"batches of {size}, none accumulated"
    change = {"learner": {"batch_size": size, "accumulate": parts}}
    return [Trial("accumulate", title, "same learning", change, remedy=remedy)]
