"""The collector of this process: native lanes, or any environment that fits in a thread. The reference for all
others, and the debugger's friend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hotloop.aot import Program
from hotloop.collect import act
from hotloop.collect.episodes import Episodes, Finished
from hotloop.collect.noise import Noise
from hotloop.collect.seen import Seen
from hotloop.core import random
from hotloop.core.schema import new_block, steps_of
from hotloop.core.types import Arrays, BatchedEnv, Block
from hotloop.trace import Trace


@dataclass(frozen=True)
class Share:
    """Some of a run's lanes, and how far the run is."""

    first_lane: int
    all_lanes: int  # of the run
    games: int  # the seed of the episodes that begin now
    env_steps: int = 0  # of the run
    batched_steps: int = 0  # of these lanes


class Inline:
    """Acts with the weights last published and fills one block after another."""

    exact = True

    def __init__(
        self,
        env: BatchedEnv,
        forward: Program,
        explore: act.Options,
        *,
        steps: int,
        seed: int,
        trace: Trace,
        share: Share | None = None,
        noise: int = 0,
    ) -> None:
        """share: where these lanes are some of a run's; by default they are all of it, at its beginning. noise: how
        many numbers of it a call of `forward` takes."""
        share = share or Share(0, env.lanes, seed)
        self.env, self.explore, self._forward = env, explore, forward
        self.block: Block = new_block(env.spec, steps, env.lanes)
        self.env_steps = share.env_steps
        self.episodes = Episodes(env.lanes)
        self.finished: Finished | None = None  # of the newest block
        self._seed = seed
        self._all_lanes = share.all_lanes
        self._batched_steps = share.batched_steps
        self._keys = act.lane_keys(seed, random.EXPLORE, env.lanes, share.first_lane)
        self._powers = act.lane_powers(explore, env.lanes, share.all_lanes, share.first_lane)
        self._noise = Noise(noise, seed)
        self._seen = Seen(env.spec, env.lanes)
        self._weights: Tensor | None = None
        self._steps = [steps_of(self.block, t) for t in range(steps)]
        self._inputs = [self._network_inputs(t) for t in range(steps)]
        self._no_mask = np.ones((1, 1), np.bool_)
        self._first = steps_of(self.block, -1)  # writes row 0 of obs and mask, where a reset belongs
        self._act, self._env_step = trace.section("act"), trace.section("env")
        self._begin(share.games)

    def _begin(self, games: int) -> None:
        """New episodes in every lane."""
        self.env.reset(games, self._first)
        self._seen.start(self._first.obs)
        self._keep_last()

    def _network_inputs(self, t: int) -> list[Tensor]:
        """Row t of the block as tensors that share its memory; stacked parts come from the rolling stacks."""
        arrays = [self._seen.stacks.get(f.name, self.block.obs[f.name][t]) for f in self.env.spec.observation]
        return [torch.from_numpy(a) for a in arrays]

    def _keep_last(self) -> None:
        """Move row 0 to row T, where the next block looks for its beginning."""
        for array in self.block.obs.values():
            array[-1] = array[0]
        if self.block.mask is not None:
            self.block.mask[-1] = self.block.mask[0]

    def publish(self, weights: Tensor) -> None:
        """[P] act with these from the next block on. Never written to again by the learner, so nothing is copied."""
        self._weights = weights

    def next_block(self) -> Block:
        """T batched steps. The block is valid until the next call."""
        block, masked = self.block, self.env.spec.masked
        for array in block.obs.values():
            array[0] = array[-1]
        if block.mask is not None:
            block.mask[0] = block.mask[-1]
        mask = self._no_mask
        for t, steps in enumerate(self._steps):
            if block.mask is not None:
                mask = block.mask[t]
            with self._act:
                self._choose(t, mask, masked, block.action[t])
            with self._env_step:
                self.env.step(block.action[t], steps)
            self._seen.push(steps.obs, steps.terminated, steps.truncated)
            self.env_steps += self._all_lanes
        self.finished = self.episodes.add(block)
        return block

    def _choose(self, t: int, mask: np.ndarray, masked: bool, out: np.ndarray) -> None:
        step = self._batched_steps
        self._batched_steps += 1

        def values() -> np.ndarray:
            return self._forward.call([self._weights, *self._noise.at(step), *self._inputs[t]])[0].numpy()

        actions = self.env.spec.num_actions
        act.choose(self.explore, self._powers, self._keys, self.env_steps, step, values, mask, masked, actions, out)

    def warm(self, weights: Tensor) -> None:
        """Run the network once for this number of lanes."""
        self._forward.call([weights, *self._noise.at(0), *self._inputs[0]])

    def state(self) -> Arrays:
        """Everything a later block depends on, the weights apart."""
        out = {f"env.{k}": v for k, v in self.env.state().items()}
        out |= {f"seen.{k}": v for k, v in self._seen.state().items()}
        out |= {f"episodes.{k}": v for k, v in self.episodes.state().items()}
        out |= {f"obs.{name}": array[-1].copy() for name, array in self.block.obs.items()}
        if self.block.mask is not None:
            out["mask"] = self.block.mask[-1].copy()
        out["counters"] = np.array([self.env_steps, self._batched_steps], np.int64)
        return out

    def set_state(self, state: Mapping[str, np.ndarray]) -> bool:
        """Go on from `state`. Where the environment cannot be set back, its lanes start new episodes -> False."""
        self.env_steps, self._batched_steps = (int(c) for c in state["counters"])
        if not self.env.spec.exact or len(state) == 1:
            self._begin(self._seed + self._batched_steps)
            self.episodes = Episodes(self.env.lanes)
            return False
        self.env.set_state(_under("env.", state))
        self._seen.set_state(_under("seen.", state))
        self.episodes.set_state(_under("episodes.", state))
        for name, array in self.block.obs.items():
            array[-1] = state[f"obs.{name}"]
        if self.block.mask is not None:
            self.block.mask[-1] = state["mask"]
        return True

    def gauges(self) -> dict[str, Any]:
        return {}

    def said(self) -> list[str]:
        return []

    def close(self) -> None:
        self.env.close()


def _under(prefix: str, state: Mapping[str, np.ndarray]) -> Arrays:
    return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
