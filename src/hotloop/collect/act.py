"""Which action each lane takes. Every lane tosses its own coin; illegal actions are never chosen, explored or
exploited. Draws are keyed by (seed, lane, batched step), so they do not depend on which process asks.

What explores by itself, as noisy layers do, goes with an epsilon that starts and ends at 0."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hotloop.core import random
from hotloop.core.jit import kernel
from hotloop.core.options import option


@dataclass(frozen=True)
class Options:
    kind: Literal["epsilon", "boltzmann"] = option(
        "epsilon", "epsilon: a share of random actions; boltzmann: each action with probability ∝ exp(Q / temperature)"
    )
    schedule: Literal["linear", "exponential"] = option("linear", "how epsilon or temperature falls from start to end")
    start: float = option(1.0, "epsilon at the first env step", ge=0, le=1)
    end: float = option(0.05, "epsilon once it has fallen", ge=0, le=1)
    decay_env_steps: int = option(10_000, "env steps over which it falls (exponential: to within 1 % of end)", ge=1)
    lane_power: float = option(
        0.0, "lane i of N explores with epsilon^(1 + i/(N−1) × this), as Ape-X does by 7; 0: all lanes alike", ge=0
    )
    temperature_start: float = option(1.0, "temperature at the first env step (boltzmann), in units of Q", ge=0)
    temperature_end: float = option(0.1, "temperature once it has fallen (boltzmann); 0 is greedy", ge=0)


def epsilon(options: Options, env_steps: int) -> float:
    """Share of random actions after so many env steps, of the lane that explores most."""
    return options.end + (options.start - options.end) * _left(options, env_steps)


def temperature(options: Options, env_steps: int) -> float:
    start, end = options.temperature_start, options.temperature_end
    return end + (start - end) * _left(options, env_steps)


def _left(options: Options, env_steps: int) -> float:
    """Share of the way from start to end that is still to go."""
    if options.schedule == "linear":
        return 1.0 - min(env_steps / options.decay_env_steps, 1.0)
    return math.exp(math.log(0.01) * env_steps / options.decay_env_steps)


def gauges(options: Options, env_steps: int, lanes: int) -> dict[str, float]:
    """What a row of metrics says of exploration. Where lanes differ, the mean over them, the least and the most."""
    if options.kind == "boltzmann":
        return {"temperature": temperature(options, env_steps)}
    most = epsilon(options, env_steps)
    if not options.lane_power:
        return {"epsilon": most}
    each = most ** lane_powers(options, lanes, lanes)
    return {"epsilon": float(each.mean()), "epsilon_least": float(each[-1]), "epsilon_most": most}


def lane_powers(options: Options, lanes: int, of_lanes: int, first_lane: int = 0) -> np.ndarray:
    """[N] float64: the lanes from first_lane on, of all lanes of the run, explore with epsilon to these powers.
    Horgan et al. 2018, arXiv 1803.00933, section 4.1."""
    number = np.arange(first_lane, first_lane + lanes, dtype=np.float64)
    return 1.0 + number / max(of_lanes - 1, 1) * options.lane_power


def lane_keys(seed: int, stream: int, lanes: int, first_lane: int = 0) -> np.ndarray:
    """[N] uint64, the key of each lane's draws."""
    keys = [random.stream_key(np.int64(seed), np.int64(stream), np.int64(first_lane + i)) for i in range(lanes)]
    return np.array(keys, np.uint64)


def choose(
    options: Options,
    powers: np.ndarray,
    keys: np.ndarray,
    env_steps: int,
    step: int,
    values: Callable[[], np.ndarray],
    mask: np.ndarray,
    masked: bool,
    actions: int,
    out: np.ndarray,
) -> None:
    """One action for each lane. values: gives the Q-values [N, A], and is not asked where they would not be looked
    at; powers, keys: of these lanes; step: batched steps before this one; the rest as below."""
    if options.kind == "boltzmann":
        boltzmann(values(), mask, masked, temperature(options, env_steps), keys, step, out)
        return
    share = epsilon(options, env_steps)
    if share >= 1.0:  # so it is in every lane, whatever the power
        random_legal(mask, masked, actions, keys, step, out)
        return
    epsilon_greedy(values(), mask, masked, share, powers, keys, step, out)


@kernel
def epsilon_greedy(q, mask, masked, epsilon, powers, keys, step, out):
    """q [N, A] float32, mask [N, A] bool (read only if masked), powers [N] float64, keys [N], out [N] int32."""
    lanes, actions = q.shape
    for lane in range(lanes):
        share = epsilon if powers[lane] == 1.0 else epsilon ** powers[lane]
        if random.uniform(keys[lane], step, 0) < share:
            out[lane] = _random_legal(mask, masked, lane, actions, keys[lane], step)
        else:
            out[lane] = _best_legal(q, mask, masked, lane, actions)


@kernel
def boltzmann(q, mask, masked, temperature, keys, step, out):
    """Each legal action with probability ∝ exp(Q / temperature)."""
    lanes, actions = q.shape
    for lane in range(lanes):
        best = _best_legal(q, mask, masked, lane, actions)
        total = 0.0
        for a in range(actions):
            total += _weight(q, mask, masked, lane, a, best, temperature)
        left = random.uniform(keys[lane], step, 0) * total
        chosen = best  # should rounding leave something over, or no value be a number
        for a in range(actions):
            weight = _weight(q, mask, masked, lane, a, best, temperature)
            if left < weight:
                chosen = a
                break
            left -= weight
        out[lane] = chosen


@kernel
def _weight(q, mask, masked, lane, a, best, temperature):
    """exp((Q − greatest Q) / temperature), in 0 … 1 whatever the values; 0 for an illegal action."""
    if masked and not mask[lane, a]:
        return 0.0
    value, greatest = np.float64(q[lane, a]), np.float64(q[lane, best])
    if value == greatest:  # both may be infinite
        return 1.0
    if temperature == 0.0 or not value < greatest:  # one of the two may not be a number
        return 0.0
    return math.exp((value - greatest) / temperature)


@kernel
def _best_legal(q, mask, masked, lane, actions):
    """The first of the greatest."""
    best = -1
    for a in range(actions):
        if masked and not mask[lane, a]:
            continue
        if best < 0 or q[lane, a] > q[lane, best]:
            best = a
    return np.int32(best)


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
