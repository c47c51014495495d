"""unstable: losses or gradients that are not finite, so that updates are refused. Nothing is measured for it: whether
a run learns is seen after minutes, not after a slice."""

from __future__ import annotations

from hotloop.doctor.own.examined import Advice, Examined


def find(seen: Examined) -> list[Advice]:
    refused = seen.baseline.refused_updates
    if not refused:
        return []
    rate = seen.config.learner.optimizer.learning_rate / 10
    return [
        Advice(
            "unstable", "learning is unstable",
            f"{refused:,} updates had a loss or gradient that is not finite, and were not applied",
            f"--learner.optimizer.learning-rate {rate:g} --learner.optimizer.max-grad-norm 1", 0.0,
            "changes learning (learning rate)",
        )
    ]  # fmt: skip
