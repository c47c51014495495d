"""Builds the parts of a run from its config, warms them, and reads and writes all of their state. The loop that
drives them stands in train.py."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from hotloop import aot
from hotloop.collect.collector import Collector
from hotloop.collect.forward import forward_program
from hotloop.collect.inline import Inline
from hotloop.collect.policies import Greedy
from hotloop.collect.workers import Recipe, Workers, Zygote
from hotloop.config import Cycle, TrainConfig, cycle_of, learning_from
from hotloop.core import discover, random
from hotloop.core.clock import process_age_s
from hotloop.core.errors import UserError
from hotloop.core.options import to_dict
from hotloop.core.schema import new_block
from hotloop.core.types import Arrays, BatchedEnv, Block, EnvSpec, Goal
from hotloop.learn.learner import Learner
from hotloop.learn.returns import BlockReturns, Values
from hotloop.learn.variants import _base as variants
from hotloop.networks._build import QNetwork, build
from hotloop.replay.hindsight import Hindsight, fields_of
from hotloop.replay.plan import HEADROOM, available, in_units
from hotloop.replay.samplers import _base as samplers
from hotloop.replay.store import Store
from hotloop.trace import Trace


@dataclass
class Pipeline:
    """envs → collect → replay → learn, ready to run."""

    config: TrainConfig
    cycle: Cycle
    spec: EnvSpec
    collector: Collector
    store: Store
    sampler: samplers.Sampler
    learner: Learner
    forward: aot.Program
    returns: BlockReturns | None  # where the variant learns from whole blocks
    trace: Trace
    warm_seconds: dict[str, float]  # what was done before step 1, and how long it took
    notes: list[str]  # one line each, for the user
    hindsight: Hindsight | None = None  # None: samples keep their goals, or have none
    began_env_steps: int | None = None  # when the first cycle that learns began
    first_update_s: float | None = None  # seconds from the start of the process to the end of the first updates

    @property
    def exact(self) -> bool:
        """Whether a resumed run equals one that was never stopped, bit for bit."""
        return self.spec.exact and self.collector.exact

    @property
    def learning_env_steps(self) -> int:
        """Env steps collected since the first update was due."""
        return 0 if self.began_env_steps is None else self.collector.env_steps - self.began_env_steps

    @property
    def samples_per_step(self) -> float:
        """As it was, not as it was asked for: updates × batch / env steps of the cycles that learnt."""
        return self.learner.updates * self.config.learner.samples_per_update / max(self.learning_env_steps, 1)

    def check_contract(self) -> None:
        """The declared samples per step were kept, whatever the lanes, the threads and the interruptions."""
        if self.learner.updates and abs(self.samples_per_step / self.config.samples_per_step - 1) > 1e-6:
            raise AssertionError(
                f"samples per step: declared {self.config.samples_per_step}, was {self.samples_per_step}"
            )

    def learning(self, env_steps: int) -> bool:
        """Whether the cycle that begins after so many env steps also learns."""
        learns = (
            env_steps >= self.config.learning_starts_env_steps
            and self.store.size >= self.config.learner.samples_per_update
        )
        if learns and self.began_env_steps is None:
            self.began_env_steps = env_steps
        return learns

    def commit(self, block: Block) -> None:
        """Into the replay with what was collected."""
        self.store.write(block)
        self.sampler.written(self.store.window())

    def begin_updates(self) -> aot.Job:
        """All updates of one cycle, from the replay as it stands, to be run by this thread or another."""
        slots, learner = self._slots, self.learner
        with self._sample:
            self.sampler.choose(self.store.window(), self.config.seed, learner.updates, slots, learner.batch.weight)
            self.store.gather(slots, learner.batch)
            if self.returns:
                self.returns.fill(slots, self._values(), learner.batch)
            if self.hindsight:
                self.hindsight.relabel(slots, self.config.seed, learner.updates, learner.batch)
            return learner.begin()

    def _values(self) -> Values:
        """Q-values by the weights as they stand."""
        return Greedy(self.spec, self.forward, self.learner.params, self.learner.noise).values

    def end_updates(self, job: aot.Job) -> np.ndarray:
        """Take what they have led to -> stats [U, 4]."""
        stats, priority = self.learner.end(job)
        self.sampler.learned(self._slots, priority)
        if self.first_update_s is None:
            self.first_update_s = round(process_age_s(), 3)
        return stats

    def __post_init__(self) -> None:
        self._slots = np.zeros((self.cycle.updates, self.config.learner.samples_per_update), np.int64)
        self._sample = self.trace.section("sample")

    def state(self) -> Arrays:
        """Everything a later bit depends on."""
        state = {f"{name}.{k}": v for name, part in self._parts().items() for k, v in part.state().items()}
        state["began_env_steps"] = np.array([] if self.began_env_steps is None else [self.began_env_steps], np.int64)
        return state

    def misfit(self, state: Mapping[str, np.ndarray]) -> str:
        """What in a saved state another config has written; empty where nothing."""
        own = self.state()
        if not any(name.startswith("collector.") for name in state if name != "collector.counters"):
            own = {k: v for k, v in own.items() if k in state or not k.startswith("collector.")}  # lanes begin anew
        for name in sorted({*own, *state} - {"began_env_steps"}):
            have, want = (f"{s[name].dtype} {s[name].shape}" if name in s else "absent" for s in (state, own))
            if have != want:
                return f"{name} is {have}, expected {want}"
        return ""

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        def of(name: str) -> Arrays:
            return {k.removeprefix(f"{name}."): v for k, v in state.items() if k.startswith(f"{name}.")}

        for name, part in self._parts().items():
            if name != "collector":
                part.set_state(of(name))
        self.began_env_steps = next((int(n) for n in state["began_env_steps"]), None)
        if not self.collector.set_state(of("collector")):
            self.store.cut()  # the lanes begin new episodes, and no transition may cross into them
            self.sampler.written(self.store.window())

    def _parts(self) -> dict[str, Any]:
        """All that has a state."""
        return {"collector": self.collector, "store": self.store, "sampler": self.sampler, "learner": self.learner}

    def close(self) -> None:
        self.collector.close()


def build_network(config: TrainConfig, spec: EnvSpec) -> QNetwork:
    seed = int(random.stream_key(config.seed, random.NETWORK, 0)) >> 1
    named, outputs = config.network, _variant(config).outputs
    sigma = named["noisy_sigma"] if named["noisy"] else 0.0
    return build(spec, named["name"], config.network_options(), named["head"], seed, outputs, sigma)


def _variant(config: TrainConfig) -> variants.Chosen:
    return variants.chosen(config.variant["name"], config.variant_options())


def build_forward(config: TrainConfig, spec: EnvSpec, network: QNetwork, mark: str) -> aot.Program:
    """What acts: the network, and the way from what it gives to values."""
    return forward_program(spec, network, mark, config.compile, config.threads, _variant(config).values)


def fingerprint(config: TrainConfig, spec: EnvSpec, network: QNetwork) -> str:
    """All that the network's arithmetic depends on, as text: what was compiled for it is found again by this."""
    name, variant = config.network["name"], _variant(config)
    return json.dumps(
        {
            "network": config.network,
            "outputs": repr(variant.outputs),
            "values": repr(variant.options) if variant.values else None,
            "own": [discover.source_digest(name), repr(network)] if ":" in name else None,
            "constants": {k: aot.digest_of(b) for k, b in network.named_buffers() if k not in network.gathered},
            "spec": repr((spec.observation, spec.num_actions, spec.masked)),
        },
        sort_keys=True,
    )


def build_pipeline(config: TrainConfig, trace: Trace) -> Pipeline:
    """Plan, refuse, allocate, compile and warm: nothing of this is left to the first step."""
    torch.set_num_threads(config.threads)
    seconds: dict[str, float] = {}
    with _timed(seconds, "environment"):
        spec = config.world().spec()
    with _timed(seconds, "replay"):
        _refuse_cycle(config, spec)  # what does not fit is refused before anything is allocated
        goal = _goal(config, spec)
        store = Store(spec, config.replay, config.lanes, config.learner.gamma)
        sampler = _sampler(config, store)
        hindsight = Hindsight(store, goal, config.replay.hindsight) if goal else None
    with _timed(seconds, "lanes"):
        # A zygote takes as long to load as this process to compile, so it begins before.
        made = Zygote(aot.cache_folder()) if config.workers else config.world().make(config.lanes)
    try:
        spec = spec if isinstance(made, Zygote) else made.spec
        pipeline = _built(config, spec, store, sampler, made, seconds, trace)
        pipeline.hindsight = hindsight
        return pipeline
    except BaseException:
        made.close()
        raise


def _built(
    config: TrainConfig,
    spec: EnvSpec,
    store: Store,
    sampler: samplers.Sampler,
    made: BatchedEnv | Zygote,
    seconds: dict[str, float],
    trace: Trace,
) -> Pipeline:
    """What depends on the lanes. made: them, or the process that will make them."""
    cycle = cycle_of(config)
    with _timed(seconds, "compile"):
        network = build_network(config, spec)
        mark = fingerprint(config, spec, network)
        # Two modules: eagerly, calling one puts the given parameters into it for as long as the call lasts, and acting
        # and learning call theirs at the same time.
        forward = build_forward(config, spec, copy.deepcopy(network), mark)
        learner = Learner(
            spec,
            network,
            config.variant["name"],
            config.variant_options(),
            config.learner,
            updates_per_cycle=cycle.updates,
            total_updates=total_updates(config),
            fingerprint=mark,
            compile=config.compile,
            threads=config.threads,
            seed=config.seed,
        )
    collector: Collector
    if isinstance(made, Zygote):
        with _timed(seconds, "workers"):
            collector = _workers(config, spec, made, network, mark, learner.params.numel(), trace)
    else:
        collector = Inline(
            made, forward, config.explore, steps=cycle.steps, seed=config.seed, trace=trace, noise=learner.noise
        )
    returns = _returns(config, store, spec)
    notes = list(dict.fromkeys(p.note for p in (forward, learner.program) if p.note))
    pipeline = Pipeline(
        config, cycle, spec, collector, store, sampler, learner, forward, returns, trace, seconds, notes
    )
    try:
        with _timed(seconds, "warm-up"):
            _warm(pipeline)
    except BaseException:
        collector.close()
        raise
    return pipeline


def _workers(
    config: TrainConfig, spec: EnvSpec, zygote: Zygote, network: QNetwork, mark: str, params: int, trace: Trace
) -> Workers:
    """params: P"""
    # Theirs has one thread. It is compiled here, and they find it.
    forward = build_forward(replace(config, threads=1), spec, copy.deepcopy(network), mark)
    steps = cycle_of(config).steps
    of = {"config": to_dict(config), "compile": forward.origin != "eager", "steps": steps}
    return Workers(
        zygote, Recipe("hotloop.acting:acting", spec, of), config.collect, workers=config.workers, lanes=config.lanes,
        steps=steps, params=params, seed=config.seed, trace=trace,
    )  # fmt: skip


def _sampler(config: TrainConfig, store: Store) -> samplers.Sampler:
    return samplers.make(
        config.sampler["name"], config.sampler_options(), store.lanes, store.slots_per_lane, config.total_env_steps
    )


def _returns(config: TrainConfig, store: Store, spec: EnvSpec) -> BlockReturns | None:
    trace_lambda = _variant(config).trace_lambda
    return None if trace_lambda is None else BlockReturns(spec, store, cycle_of(config).steps, trace_lambda)


def _goal(config: TrainConfig, spec: EnvSpec) -> Goal | None:
    if not config.replay.hindsight:
        return None
    goal = config.world().goal()
    if goal is None:
        raise UserError(
            f"replay.hindsight = {config.replay.hindsight} needs goals, and workload = {config.workload} has none: a "
            "Gymnasium environment has them where it has compute_reward and a Dict with achieved_goal and "
            "desired_goal; set --replay.hindsight 0"
        )
    fields_of(spec, goal)
    return goal


def _refuse_cycle(config: TrainConfig, spec: EnvSpec) -> None:
    """The block and the batches of one cycle have to lie in memory beside the replay."""
    cycle, batch, free = cycle_of(config), config.learner.samples_per_update, available()
    seen = sum(int(np.prod(f.seen, dtype=float)) * np.dtype(f.dtype).itemsize for f in spec.observation)
    blocks = 1 + config.learns_from_blocks
    need = 2 * seen * (cycle.updates * batch + blocks * cycle.env_steps)
    if free is not None and need > free * HEADROOM:
        raise UserError(
            f"one cycle of {cycle.env_steps} env steps and {cycle.updates} updates of {batch} needs "
            f"{in_units(need)}, but {in_units(free)} are free; lower samples_per_step, lanes or learner.batch_size"
        )


def total_updates(config: TrainConfig) -> int:
    """Updates of the whole run, as the schedules see it."""
    cycle = cycle_of(config)
    cycles = -(-config.total_env_steps // cycle.env_steps)
    before = learning_from(config) // cycle.env_steps
    return max(1, (cycles - before) * cycle.updates)


def _warm(pipeline: Pipeline) -> None:
    """Run every kernel and program once on scratch of the same types, so that none is compiled or first touched
    during the run. The run's own state is left as it was."""
    config, spec, learner = pipeline.config, pipeline.spec, pipeline.learner
    block = new_block(spec, 2, 1)
    if config.world().native:
        env = config.world().make(1)
        scratch = Inline(
            env, pipeline.forward, replace(config.explore, start=0.5, end=0.5), steps=2, seed=0, trace=Trace(16),
            noise=learner.noise,
        )  # fmt: skip
        scratch.publish(learner.params)
        block = scratch.next_block()
        env.close()
    else:
        for array in (*block.obs.values(), *block.final_obs.values(), block.action, block.reward):
            array.fill(0)
        for flags in (block.terminated, block.truncated):
            flags.fill(False)
        if block.mask is not None:
            block.mask.fill(True)
    pipeline.collector.warm(learner.params)
    scratch_store = Store(spec, replace(config.replay, capacity=64 + 4 * config.replay.n_step), 1, config.learner.gamma)
    sampler, slots = _sampler(config, scratch_store), pipeline._slots
    for _ in range(16 + config.replay.n_step):
        scratch_store.write(block)
    sampler.written(scratch_store.window())
    sampler.choose(scratch_store.window(), 0, 0, slots, learner.batch.weight)
    scratch_store.gather(slots, learner.batch)
    if scratch_returns := _returns(config, scratch_store, spec):
        scratch_returns.fill(slots, pipeline._values(), learner.batch)
    before = learner.state()
    try:
        _, priority = learner.update()
        sampler.learned(slots, priority)
    finally:
        learner.set_state(before)


class _timed:
    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self.seconds, self.name = seconds, name

    def __enter__(self) -> None:
        self.started = time.perf_counter()

    def __exit__(self, *error: Any) -> None:
        self.seconds[self.name] = time.perf_counter() - self.started
