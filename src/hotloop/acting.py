"""What a worker process collects with: the inline collector of a run's config, for some of its lanes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hotloop.collect._worker import Make
from hotloop.collect.inline import Inline, Share
from hotloop.config import TrainConfig
from hotloop.core.options import from_dict
from hotloop.core.types import Arrays, EnvSpec, Steps
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

    explore, env = replace(config.explore, start=0.5, end=0.5), world.make(1) if world.native else StandIn(spec)
    scratch = Inline(env, forward, explore, steps=2, seed=0, trace=Trace(16), noise=noise)
    scratch.publish(initial(network))
    scratch.next_block()
    return make


class StandIn:
    """One lane in which nothing happens, in place of an environment that is not ours."""

    def __init__(self, spec: EnvSpec) -> None:
        self.spec, self.lanes = spec, 1

    def reset(self, seed: int, out: Steps) -> None:
        for array in out.obs.values():
            array.fill(0)
        if out.mask is not None:
            out.mask.fill(True)

    def step(self, actions: np.ndarray, out: Steps) -> None:
        self.reset(0, out)
        for array in (out.reward, out.terminated, out.truncated):
            array.fill(0)

    def state(self) -> Arrays:
        return {}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None: ...

    def render(self, lane: int = 0) -> str:
        return ""

    def close(self) -> None: ...
