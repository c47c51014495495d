"""A cycle of CartPole without learning: 10 lanes, the compiled network asked at every step, the block committed."""

from __future__ import annotations

from collections.abc import Callable


def make() -> Callable[[], object]:
    import torch

    from hotloop import presets
    from hotloop.config import resolve
    from hotloop.pipeline import build_pipeline
    from hotloop.trace import Trace

    torch.set_num_threads(1)
    config = resolve(presets.preset("cartpole", "cleanrl"), {"workload": "cartpole"})
    pipeline = build_pipeline(config, Trace())
    pipeline.collector.publish(pipeline.learner.params)

    def work() -> None:
        done = pipeline.collector.env_steps + 10_000
        while pipeline.collector.env_steps < done:
            pipeline.store.write(pipeline.collector.next_block())

    return work
