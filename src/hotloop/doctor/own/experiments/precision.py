"""precision: matrix products of bfloat16 in the update, or of float32."""

from __future__ import annotations

from hotloop.config import TrainConfig
from hotloop.doctor.own.trial import Trial


def trials(config: TrainConfig, cores: int) -> list[Trial]:
    other = "float32" if config.learner.precision == "bfloat16" else "bfloat16"
    change = {"learner": {"precision": other}}
    title = f"matrix products of {other}"
    return [Trial("precision", title, "changes learning", change, remedy=f"--learner.precision {other}")]
