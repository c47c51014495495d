"""Which action each lane takes. Every lane tosses its own coin; illegal actions are never chosen, explored or
exploited. Draws are keyed by (seed, lane, batched step)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hotloop.core import random
from hotloop.core.jit import kernel
from hotloop.core.options import option


@dataclass(frozen=True)
class Options:
    schedule: Literal["linear", "exponential"] = option("linear", "how epsilon falls from start to end")
    start: float = option(1.0, "epsilon at the first env step", ge=0, le=1)
    end: float = option(0.05, "epsilon once it has fallen", ge=0, le=1)
    decay_env_steps: int = option(10_000, "env steps over which it falls (exponential: to within 1 % of end)", ge=1)


def epsilon(options: Options, env_steps: int) -> float:
    """Share of random actions after so many env steps."""
    done = min(env_steps / options.decay_env_steps, 1.0)
    left = (
        1.0 - done if options.schedule == "linear" else math.exp(math.log(0.01) * env_steps / options.decay_env_steps)
    )
    return options.end + (options.start - options.end) * left


def lane_keys(seed: int, stream: int, lanes: int, first_lane: int = 0) -> np.ndarray:
    """[N] uint64, the key of each lane's draws."""
    keys = [random.stream_key(np.int64(seed), np.int64(stream), np.int64(first_lane + i)) for i in range(lanes)]
    return np.array(keys, np.uint64)


@kernel
def epsilon_greedy(q, mask, masked, epsilon, keys, step, out):
    """q [N, A] float32, mask [N, A] bool (read only if masked), keys [N], out [N] int32."""
    lanes, actions = q.shape
    for lane in range(lanes):
        if random.uniform(keys[lane], step, 0) < epsilon:
            out[lane] = _random_legal(mask, masked, lane, actions, keys[lane], step)
        else:
            best = -1
            for a in range(actions):
                if masked and not mask[lane, a]:
                    continue
                if best < 0 or q[lane, a] > q[lane, best]:
                    best = a
            out[lane] = best


@kernel
def random_legal(mask, masked, actions, keys, step, out):
    """Uniform over the legal actions of each lane, without any Q-values. The draws are those of epsilon_greedy."""
    for lane in range(out.shape[0]):
        out[lane] = _random_legal(mask, masked, lane, actions, keys[lane], step)


@kernel
def _random_legal(mask, masked, lane, actions, key, step):
    if not masked:
        return np.int32(random.below(key, step, 1, actions))
    legal = 0
    for a in range(actions):
        legal += mask[lane, a]
    pick = random.below(key, step, 1, legal)
    for a in range(actions):
        if mask[lane, a]:
            if pick == 0:
                return np.int32(a)
            pick -= 1
    return np.int32(-1)
