"""A worker: some of a run's lanes, collected by an inline collector of their own and handed over through a ring. It
lives as long as its socket: when the trainer is gone, however it went, so is the worker."""

from __future__ import annotations

import json
import os
import random
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from time import perf_counter_ns
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from hotloop.collect import ring as rings
from hotloop.collect import weights
from hotloop.collect._worker_blocks import block_bytes, block_in, copy_block, first_fault
from hotloop.collect.inline import Share
from hotloop.collect.memory import attached
from hotloop.core.errors import UserError
from hotloop.core.packing import packed, unpacked
from hotloop.core.types import Arrays, BatchedEnv, Block, EnvSpec
from hotloop.trace import Trace

# What the trainer says, one byte and what belongs to it; and what a worker says.
GO, STATE, SET_STATE = b"g", b"s", b"p"  # blocks that the ring shall have seen in all, as text; nothing; arrays
READY, HERE, FAULT = b"r", b"h", b"f"  # nothing; what was asked for; JSON

# Words beside the ring. The worker writes the first two, the trainer ENV_STEPS.
BEAT, DOING, ENV_STEPS, ACTIONS = 0, 1, 16, 32  # int64 words; from ACTIONS on int32, those of the step under way
BUSY, RESTING = 0, 1  # RESTING: waits for the trainer, so it does not hang

FOREVER = 1 << 62  # blocks
_LOOK_S = 0.1  # how often a worker whose ring is full looks whether the trainer is still there

# Where a test may have a worker kill itself: (point, n), at the n-th pass.
POINTS = ("born", "ready", "told", "stepped", "filled", "claimed", "half copied", "copied", "published")


class Fills(Protocol):
    """What a worker collects with: an inline collector."""

    env: BatchedEnv
    env_steps: int

    def publish(self, weights: Tensor) -> None: ...
    def next_block(self) -> Block: ...
    def warm(self, weights: Tensor) -> None: ...
    def state(self) -> Arrays: ...
    def set_state(self, state: Arrays) -> bool: ...


Make = Callable[[int, Share, Trace], Fills]  # (lanes, which of the run's, trace)


def words_bytes(lanes: int) -> int:
    return 8 * ACTIONS + 4 * lanes


def sizes(spec: EnvSpec, steps: int, lanes: int, blocks: int) -> dict[str, int]:
    """Parts of the memory that a worker and the trainer share."""
    return {"ring": rings.bytes_for(block_bytes(spec, steps, lanes), blocks), "words": words_bytes(lanes)}


def rehearse() -> None:
    """Load every kernel of rings and weights, so that those who are forked from this process need not."""
    ring = rings.Ring(np.zeros(rings.bytes_for(64, 2), np.uint8), 64, 2)
    ring.take_over(0)
    ring.claim(0.0)
    ring.made(1)
    ring.publish(1, 0)
    box = weights.Weights(np.zeros(weights.bytes_for(1), np.uint8), 1)
    box.publish(np.zeros(1, np.float32), 0)
    box.read(np.zeros(1, np.float32))


def live(make: Make, spec: EnvSpec, told: dict[str, Any], descriptors: dict[str, int]) -> int:
    """From birth to end -> exit code. told: by the trainer, see workers.py. descriptors: control, memory, weights."""
    control = Connection(descriptors["control"])
    try:
        _reseed(told)
        worker = _Worker(make, spec, told, control, descriptors)
        control.send_bytes(READY)
        worker.at("ready")
        worker.serve()
    except (EOFError, ConnectionError):
        return 0  # nobody is there any more
    except UserError as why:
        return _say(control, {"text": str(why)})
    except BaseException as why:  # SystemExit of an environment, too
        return _say(control, {"what": f"{type(why).__name__}: {why}", "text": traceback.format_exc()})
    finally:
        control.close()
    return 0


def _say(control: Connection, fault: dict[str, Any]) -> int:
    try:
        control.send_bytes(FAULT + json.dumps(fault).encode())
    except OSError:
        return 0
    return 1


def _reseed(told: dict[str, Any]) -> None:
    """Generators that all of a process share begin alike in every child; environments that use them must not."""
    key = hash((told["games"], told["first_lane"], told["epoch"])) & 0xFFFFFFFF
    random.seed(key)
    np.random.set_state(np.random.RandomState(key).get_state())
    torch.default_generator.manual_seed(key)


class _Worker:
    def __init__(
        self, make: Make, spec: EnvSpec, told: dict[str, Any], control: Connection, descriptors: dict[str, int]
    ) -> None:
        self.control, self.spec, self.drops = control, spec, told["drops"]
        self.steps, self.lanes, self.wanted = told["steps"], told["lanes"], 0
        self._first_lane, self._games = told["first_lane"], told["games"]
        self._fault = told["fault"]
        self._passed = 0
        size = block_bytes(spec, self.steps, self.lanes)
        memory = attached(descriptors["memory"], sizes(spec, self.steps, self.lanes, told["blocks"])).parts
        self.words = memory["words"][: 8 * ACTIONS].view(np.int64)
        self._actions = memory["words"][8 * ACTIONS :].view(np.int32)
        self.ring = rings.Ring(memory["ring"], size, told["blocks"])
        self.ring.take_over(told["epoch"])
        self.words[DOING] = BUSY
        self.at("born")
        of_weights = attached(descriptors["weights"], {"weights": weights.bytes_for(told["params"])}).parts
        self.weights = weights.Weights(of_weights["weights"], told["params"])
        self.params, self.version = np.zeros(told["params"], np.float32), weights.NOTHING
        self.trace = Trace(16)
        self.trace.track("worker")
        share = Share(told["first_lane"], told["all_lanes"], told["games"], told["env_steps"], told["batched_steps"])
        self.collector = make(self.lanes, share, self.trace)
        self._refuse_other_spec()
        self._watch(self.collector.env)
        self._take_weights()
        acting = torch.from_numpy(self.params)  # always this tensor: what is newer is written into it
        self.collector.publish(acting)
        self.collector.warm(acting)
        self._slots: dict[int, Block] = {}

    def _refuse_other_spec(self) -> None:
        found = self.collector.env.spec
        if (found.observation, found.num_actions, found.masked) != (
            *(self.spec.observation, self.spec.num_actions),
            self.spec.masked,
        ):
            raise UserError(f"{self.spec.name} is not the same in a worker process: {found} instead of {self.spec}")

    def _watch(self, env: BatchedEnv) -> None:
        """Count every step where the trainer sees it, and leave word of what is being tried."""
        step, made, words, actions, lanes = env.step, self.ring.made, self.words, self._actions, env.lanes

        def watched(chosen: np.ndarray, out: Any) -> None:
            actions[:] = chosen
            step(chosen, out)
            made(lanes)
            words[BEAT] += 1
            self.at("stepped")

        env.step = watched  # type: ignore[method-assign]

    def at(self, point: str) -> None:
        """Where a test may end this process."""
        if self._fault and self._fault[0] == point:
            self._passed += 1
            if self._passed == self._fault[1]:
                os.kill(os.getpid(), signal.SIGKILL)

    def serve(self) -> None:
        while True:
            if self.ring.words[rings.WRITE] >= self.wanted:
                self.words[DOING] = RESTING
                self._hear(self.control.recv_bytes())
                continue
            while self.control.poll():
                self._hear(self.control.recv_bytes())
            self.words[DOING] = BUSY
            self._fill()

    def _hear(self, said: bytes) -> None:
        self.at("told")
        if said[:1] == GO:
            self.wanted = int(said[1:])
        elif said[:1] == STATE:
            self.control.send_bytes(HERE + packed(self.collector.state()))
        else:
            self.control.send_bytes(HERE + b"1" * self.collector.set_state(unpacked(said[1:])))

    def _take_weights(self) -> None:
        self.version = self.weights.read(self.params, self.version)

    def _fill(self) -> None:
        """One block into the ring."""
        self._take_weights()
        self.collector.env_steps = int(self.words[ENV_STEPS])
        began, before = perf_counter_ns(), self._spent()
        block = self.collector.next_block()
        ended, spent = perf_counter_ns(), self._spent()
        self.at("filled")
        self._refuse_fault(block)
        env_steps = self.steps * self.lanes
        slot = self.ring.claim(0.0)
        if slot is None and self.drops:
            self.ring.drop(env_steps)
            return
        self.words[DOING] = RESTING
        while slot is None:
            if self.control.poll():
                self._hear(self.control.recv_bytes())
            slot = self.ring.claim(_LOOK_S)
        self.words[DOING] = BUSY
        self.at("claimed")
        self._copy(block, slot)
        self.at("copied")
        staleness = self.weights.newest() - self.version
        notes = (began, ended, spent[0] - before[0], spent[1] - before[1])
        self.ring.publish(env_steps, self.version, staleness, notes)
        self.at("published")

    def _copy(self, block: Block, slot: np.ndarray) -> None:
        there = self._slots.get(id(slot))
        if there is None:
            there = self._slots[id(slot)] = block_in(slot, self.spec, self.steps, self.lanes)
        if self._fault and self._fault[0] == "half copied":
            there.obs[self.spec.observation[0].name][: self.steps // 2 + 1] = 0
            there.reward[:] = block.reward
            self.at("half copied")
        copy_block(block, there, slice(0, self.lanes))

    def _spent(self) -> tuple[int, int]:
        """ns spent acting and in the environment so far."""
        totals = {t.name: t.total_ns for t in self.trace.totals()}
        return totals.get("act", 0), totals.get("env", 0)

    def _refuse_fault(self, block: Block) -> None:
        if wrong := first_fault(block, self.spec):
            t, lane, what = wrong
            step = int(self.words[BEAT]) - self.steps + t + 1
            raise UserError(
                f"{self.spec.name}: {what}, which nothing can be learnt from (lane {self._first_lane + lane}, "
                f"step {step}, seed {self._games}, action {block.action[t, lane]})"
            )
