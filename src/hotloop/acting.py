"""What a worker process collects with: the inline collector of a run's config, for some of its lanes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hotloop.collect._worker import Make
from hotloop.collect.inline import Inline, Share
from hotloop.config import TrainConfig
from hotloop.core.options import from_dict
from hotloop.core.types import EnvSpec
from hotloop.networks._flat import initial, layout_of
from hotloop.pipeline import build_forward, build_network, fingerprint
from hotloop.trace import Trace


def acting(spec: EnvSpec, of: Mapping[str, Any]) -> Make:
    """Called once per run, by the process that forks workers: loads the network and every kernel, so that they need
    not, and runs nothing of an environment that is not ours."""
    config = replace(from_dict(TrainConfig, of["config"]), threads=1, compile=of["compile"])
    world, network = config.world(), build_network(config, spec)
    forward = build_forward(config, spec, network, fingerprint(config, spec, network))
    noise = layout_of(network).noise_size

    def make(lanes: int, share: Share, trace: Trace) -> Inline:
        return Inline(
            world.alone().make(lanes, share.first_lane), forward, config.explore,
            steps=of["steps"], seed=config.seed, trace=trace, share=share, noise=noise,
        )  # fmt: skip

    if world.native:
        explore, env = replace(config.explore, start=0.5, end=0.5), world.make(1)
        scratch = Inline(env, forward, explore, steps=2, seed=0, trace=Trace(16), noise=noise)
        scratch.publish(initial(network))
        scratch.next_block()
    return make
