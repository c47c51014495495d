"""Owns the weights: parameters, target and optimizer moments as flat tensors, and the count of updates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from hotloop import aot
from hotloop.core.options import option
from hotloop.core.schema import new_batch
from hotloop.core.types import Arrays, Batch, EnvSpec
from hotloop.learn import optimizers, step
from hotloop.learn.chance import Chance, outside
from hotloop.learn.variants._base import chosen
from hotloop.networks._build import QNetwork
from hotloop.networks._flat import forward_of, initial, layout_of, learning_forward_of

PATIENCE = 10  # updates in a row that may be refused for values that are not finite


@dataclass(frozen=True)
class Options:
    batch_size: int = option(64, "transitions per update", ge=1)
    accumulate: int = option(
        1,
        "batches per update, gradients averaged: as one of so many times the size, in less memory (same learning)",
        ge=1,
    )
    gamma: float = option(0.99, "discount per step", ge=0, le=1)
    target_every_updates: int = option(500, "updates between moves of the target network; 0: there is none (pqn)", ge=0)
    target_tau: float = option(
        1.0, "share of the way the target moves: 1 copies, below 1 is polyak averaging", gt=0, le=1
    )
    precision: Literal["float32", "bfloat16"] = option(
        "float32",
        "bfloat16: matrix products and convolutions of numbers of 8 bits, sums, weights and loss of float32; changes "
        "learning by rounding, and is faster where the CPU has AVX512-BF16",
    )
    optimizer: optimizers.Options = optimizers.Options()

    @property
    def samples_per_update(self) -> int:
        """B, the transitions that one update learns from."""
        return self.batch_size * self.accumulate


class NotFinite(Exception):
    """Too many updates in a row had a loss or gradient that was not finite."""


class Learner:
    def __init__(
        self,
        spec: EnvSpec,
        network: QNetwork,
        variant: str,
        variant_options: Mapping[str, Any],
        options: Options,
        *,
        updates_per_cycle: int,
        total_updates: int,
        fingerprint: str,
        compile: bool,
        threads: int,
        seed: int = 0,
    ) -> None:
        layout = layout_of(network)
        made = chosen(variant, variant_options)
        moves = options.target_every_updates == 1
        update = step.Update(
            spec=spec,
            layout=layout,
            forward=forward_of(network, layout),
            learning_forward=learning_forward_of(network, layout),
            variant=made.module,
            variant_options=made.options,
            mask=made.mask,
            draws=made.draws > 0,
            optimizer=options.optimizer,
            target_tau=options.target_tau,
            target_moves=moves,
            accumulate=options.accumulate,
            half=options.precision == "bfloat16",
        )
        self.options, self.total_updates, self._target_moves = options, total_updates, moves
        self.noise = layout.noise_size  # K, numbers of noise that a call of the network takes
        self.params = initial(network)  # [P]
        self.target = self.params.clone()  # [P]
        # Each as long as what is trained of the parameters.
        self.moments = [torch.zeros(layout.trained_size) for _ in range(update.moments)]
        self.updates = 0
        self.refused = 0  # updates that were not applied, of all
        self.refused_in_a_row = 0
        self.reward_range = made.reward_range
        self.rewards_outside = 0  # sampled rewards that were beyond it
        # Room for the batches of one cycle; the sampler fills it, the program reads it, nothing is copied.
        size = options.samples_per_update
        self.batch: Batch = new_batch(spec, updates_per_cycle, size, mask=made.mask)
        self._chance = Chance(seed, updates_per_cycle, size, made.draws, layout.noise_size)
        self._inputs = [*self._chance.noise_inputs, *step.inputs(self.batch, self._chance.draws)]
        scalars = torch.zeros(updates_per_cycle, optimizers.SCALARS)
        # Two rows are enough to compile for any number, and one row would be taken for a constant.
        examples = [t[:1].expand(2, *t.shape[1:]).contiguous() for t in (scalars, *self._inputs)]
        # What is compiled in besides the network. The learning rate is not: it comes as a scalar.
        baked = replace(options.optimizer, learning_rate=1.0, learning_rate_end=-1.0, learning_rate_shape="linear")
        tau = options.target_tau if moves else 1.0
        mark = repr((fingerprint, variant, update.variant_options, baked, moves, tau, options.accumulate))
        self.program: aot.Program = step.program(
            update, [self.params, self.target, *self.moments, torch.zeros(1), *examples], mark, compile, threads
        )

    def update(self) -> tuple[np.ndarray, np.ndarray]:
        """All updates of one cycle from `self.batch` -> stats [U, 4] (columns step.STATS), priority [U, B]."""
        job = self.begin()
        job.run()
        return self.end(job)

    def begin(self) -> aot.Job:
        """The updates of one cycle from `self.batch`, to be run by any thread: one call, or one more for each time
        that the target moves on the way."""
        every, total = self.options.target_every_updates, self.batch.action.shape[0]
        self._chance.draw(self.updates)
        if self.reward_range:
            self.rewards_outside += outside(self.batch.reward, *self.reward_range)
        calls, done = [], 0
        while done < total:
            whole = self._target_moves or not every
            count = total - done if whole else min(total - done, every - (self.updates + done) % every)
            moves = not whole and (self.updates + done + count) % every == 0
            calls.append(self._inputs_of(done, count, moves))
            done += count
        return self.program.chain([self.params, self.target, *self.moments], calls)

    def _inputs_of(self, first: int, count: int, moves: bool) -> list[Tensor]:
        """What a call takes besides the state. moves: whether the target does, once its updates are made."""
        share = torch.full((1,), self.options.target_tau if moves else 0.0)
        scalars = optimizers.scalars(self.options.optimizer, self.updates + first, count, self.total_updates)
        rows = self._inputs
        if count != rows[0].shape[0]:
            rows = [r[first : first + count] for r in rows]
        return [share, torch.from_numpy(scalars), *rows]

    def end(self, job: aot.Job) -> tuple[np.ndarray, np.ndarray]:
        """Take what a job has led to -> stats [U, 4], priority [U, B]."""
        results = job.results()
        self.params, self.target, *self.moments = results[-1][:-2]
        stats, priority = (
            (results[0][k] if len(results) == 1 else torch.cat([r[k] for r in results])).numpy() for k in (-2, -1)
        )
        self.updates += len(stats)
        self._watch(stats[:, step.STATS.index("applied")])
        return stats, priority

    def _watch(self, applied: np.ndarray) -> None:
        if applied.all():
            self.refused_in_a_row = 0
            return
        for ok in applied:
            self.refused_in_a_row = 0 if ok else self.refused_in_a_row + 1
            self.refused += not ok
            if self.refused_in_a_row >= PATIENCE:
                raise NotFinite(f"{PATIENCE} updates in a row had a loss or gradient that is not finite")

    def state(self) -> Arrays:
        """Everything a later update depends on."""
        out = {"params": self.params, "target": self.target, **{f"moment{i}": m for i, m in enumerate(self.moments)}}
        arrays = {name: tensor.numpy().copy() for name, tensor in out.items()}
        arrays["counters"] = np.array(
            [self.updates, self.refused, self.refused_in_a_row, self.rewards_outside], np.int64
        )
        return arrays

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        self.params = torch.from_numpy(state["params"].copy())
        self.target = torch.from_numpy(state["target"].copy())
        self.moments = [torch.from_numpy(state[f"moment{i}"].copy()) for i in range(len(self.moments))]
        self.updates, self.refused, self.refused_in_a_row, self.rewards_outside = (int(c) for c in state["counters"])
