"""The two sides of an update comparison, with the same transitions in their replays and the same first weights.
Imports torch, so stages import it only when they run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bench.peers.eager import EagerDQN
from bench.stages._update import CAPACITY, LANES, TARGET_EVERY
from hotloop import presets
from hotloop.collect import act
from hotloop.collect.forward import forward_program
from hotloop.collect.inline import Inline
from hotloop.config import resolve
from hotloop.core.schema import new_batch
from hotloop.learn.learner import Learner
from hotloop.pipeline import build_network, fingerprint
from hotloop.replay.samplers import _base as samplers
from hotloop.replay.store import Store
from hotloop.trace import Trace

PARTS = ("choose", "gather", "update", "learned")


class Ours:
    """Sampler, store and learner, put together as the pipeline does, filled by random play on the native CartPole."""

    def __init__(
        self,
        hidden: tuple[int, ...],
        batch: int,
        updates_per_call: int,
        sampler: str = "uniform",
        changes: Mapping[str, Any] | None = None,
    ) -> None:
        config = resolve(
            presets.preset("cartpole", "cleanrl"),
            {
                "workload": "cartpole",
                "lanes": LANES,
                "samples_per_step": 1.0 * batch,
                "network": {"hidden": list(hidden)},
                "variant": {"loss": "huber"},
                "sampler": {"name": sampler},
                "replay": {"capacity": CAPACITY},
                "learner": {
                    "batch_size": batch,
                    "target_every_updates": TARGET_EVERY,
                    "optimizer": {"learning_rate": 1e-3, "max_grad_norm": 0.0},
                },
            },
            changes or {},
        )
        env = config.world().make(LANES)
        network = build_network(config, env.spec)
        mark = fingerprint(config, env.spec, network)
        self.store = Store(env.spec, config.replay, LANES, config.learner.gamma)
        self.sampler = samplers.make(
            config.sampler["name"], config.sampler_options(), LANES, self.store.slots_per_lane, config.total_env_steps
        )
        forward = forward_program(env.spec, network, mark, compile=False, threads=1)
        collector = Inline(env, forward, act.Options(start=1.0, end=1.0), steps=100, seed=1, trace=Trace(16))
        while self.store.size < CAPACITY:
            self.block = collector.next_block()
            self.commit()
        self.learner = Learner(
            env.spec, network, config.variant["name"], config.variant_options(), config.learner,
            updates_per_cycle=updates_per_call, total_updates=1_000_000, fingerprint=mark, compile=True, threads=1,
        )  # fmt: skip
        assert self.learner.program.origin != "eager", self.learner.program.note
        self.slots = np.zeros((updates_per_call, batch), np.int64)

    def commit(self) -> None:
        """100 batched steps into the replay."""
        self.store.write(self.block)
        self.sampler.written(self.store.window())

    def cycle(self) -> np.ndarray:
        """Choose, gather, update -> stats [U, 4]."""
        self.choose()
        self.store.gather(self.slots, self.learner.batch)
        stats, priority = self.learner.update()
        self.sampler.learned(self.slots, priority)
        return stats

    def choose(self) -> None:
        self.sampler.choose(self.store.window(), 1, self.learner.updates, self.slots, self.learner.batch.weight)

    def learn(self, updates: int) -> None:
        for _ in range(updates // len(self.slots)):
            self.cycle()

    def parts(self, cycles: int) -> dict[str, float]:
        """Seconds per update of each part, clocked inside: a little more than the whole."""
        clock, sums = time.perf_counter, [0.0] * len(PARTS)
        for _ in range(cycles):
            times = [clock()]
            self.choose()
            times.append(clock())
            self.store.gather(self.slots, self.learner.batch)
            times.append(clock())
            _, priority = self.learner.update()
            times.append(clock())
            self.sampler.learned(self.slots, priority)
            times.append(clock())
            sums = [s + b - a for s, a, b in zip(sums, times[:-1], times[1:], strict=True)]
        return {name: s / (cycles * len(self.slots)) for name, s in zip(PARTS, sums, strict=True)}


@dataclass(frozen=True)
class Transitions:
    """All of a store's window, R rows."""

    obs: torch.Tensor  # [R, 4]
    action: torch.Tensor  # [R]
    reward: torch.Tensor  # [R]
    next_obs: torch.Tensor  # [R, 4]
    terminated: torch.Tensor  # [R]
    index: np.ndarray  # slot -> row, -1 where the slot is outside the window


def transitions(store: Store) -> Transitions:
    window = store.window()
    positions = (window.oldest + np.arange(window.count)) % window.slots_per_lane
    slots = (np.arange(window.lanes)[:, None] * window.slots_per_lane + positions).reshape(1, -1)
    batch = new_batch(store.spec, 1, slots.size)
    store.gather(slots, batch)
    index = np.full(window.lanes * window.slots_per_lane, -1)
    index[slots[0]] = np.arange(slots.size)
    obs, action, reward, next_obs, discount = (
        torch.from_numpy(a[0])
        for a in (batch.obs["obs"], batch.action, batch.reward, batch.next_obs["obs"], batch.discount)
    )
    return Transitions(obs, action, reward, next_obs, (discount == 0).float(), index)


def eager_with(ours: Ours, hidden: tuple[int, ...]) -> EagerDQN:
    """The rival, with our transitions in its replay and our first weights in its networks."""
    options, known = ours.learner.options, transitions(ours.store)
    eager = EagerDQN((4, *hidden, 2), options.optimizer.learning_rate, options.gamma, TARGET_EVERY)
    eager.remember(known.obs, known.action, known.reward, known.next_obs, known.terminated)
    torch.nn.utils.vector_to_parameters(ours.learner.params.clone(), eager.net.parameters())
    eager.target.load_state_dict(eager.net.state_dict())
    return eager
