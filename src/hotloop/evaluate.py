"""Plays whole episodes with a policy and says how good they were. Every lane plays the same number of episodes, so
that short ones are not counted more often than long ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hotloop.collect.episodes import Episodes
from hotloop.collect.seen import Seen
from hotloop.core import random
from hotloop.core.schema import new_block, steps_of
from hotloop.core.types import Arrays, BatchedEnv, Policy
from hotloop.envs._world import World

MOST_LANES = 128
LONGEST_EPISODE = 30_000  # batched steps after which what is still running is counted as it stands


@dataclass(frozen=True)
class Played:
    """E episodes, ordered by lane, then time."""

    returns: np.ndarray  # [E] float64
    lengths: np.ndarray  # [E] int64
    measures: dict[str, np.ndarray]  # name -> [E]
    unfinished: int = 0  # of the E: cut after the longest that was allowed, counted with what they had

    @property
    def episodes(self) -> int:
        return len(self.returns)


def evaluation_seed(seed: int, number: int = 0) -> int:
    """Held-out: no training run steps an environment with it."""
    return int(random.stream_key(seed, random.EVALUATE, number)) >> 1


def play(
    world: World,
    policy: Callable[[BatchedEnv], Policy],
    episodes: int,
    seed: int,
    lanes: int = 0,
    show: Callable[[BatchedEnv], None] | None = None,
    longest: int = LONGEST_EPISODE,
) -> Played:
    """At least `episodes` episodes, rounded up to the same number in every lane, played by the policy that `policy`
    gives for the environment. `lanes` 0: chosen. longest: batched steps per episode after which it is counted as it
    stands."""
    lanes = lanes or min(episodes, MOST_LANES)
    env = world.judged().make(lanes)
    try:
        return _play(env, policy(env), -(-episodes // lanes), seed, show, longest)
    finally:
        env.close()


def _play(
    env: BatchedEnv, policy: Policy, each: int, seed: int, show: Callable | None, longest: int
) -> Played:  # fmt: skip
    block, seen, sums = new_block(env.spec, 1, env.lanes), Seen(env.spec, env.lanes), Episodes(env.lanes)
    first, steps = steps_of(block, -1), steps_of(block, 0)
    env.reset(seed, first)
    seen.start(first.obs)
    rows: list[list[tuple[float, int, np.ndarray]]] = [[] for _ in range(env.lanes)]
    obs, mask = _inputs(first.obs, seen), first.mask
    for _ in range(longest * each):
        if show:
            show(env)
        block.action[0] = policy(obs, mask)
        env.step(block.action[0], steps)
        seen.push(steps.obs, steps.terminated, steps.truncated)
        obs, mask = _inputs(steps.obs, seen), steps.mask
        done = sums.add(block)
        for i, lane in enumerate(done.lanes):
            rows[lane].append((done.returns[i], int(done.lengths[i]), done.measures[i]))
        if len(done.lanes) and all(len(r) >= each for r in rows):
            break
    unfinished = 0
    for lane, row in enumerate(rows):
        if len(row) < each:
            unfinished += 1
            row.append(
                (sums.returns[lane], int(sums.lengths[lane]), np.full(len(env.spec.measures), np.nan, np.float32))
            )
    kept = [r for row in rows for r in row[:each]]
    measures = np.array([m for _, _, m in kept]).reshape(len(kept), -1)
    return Played(
        np.array([r for r, _, _ in kept]),
        np.array([n for _, n, _ in kept]),
        {name: measures[:, k] for k, name in enumerate(env.spec.measures)},
        unfinished,
    )


def _inputs(obs: Arrays, seen: Seen) -> Arrays:
    return {**obs, **seen.stacks}


def interval(values: np.ndarray, seed: int = 0, level: float = 0.95, resamples: int = 2_000) -> tuple[float, float]:
    """Percentile bootstrap of the mean (Efron 1979, doi 10.1214/aos/1176344552)."""
    if len(values) < 2:
        return (float(values.mean()), float(values.mean())) if len(values) else (float("nan"), float("nan"))
    generator = np.random.default_rng(seed)
    # One resample at a time: all at once would take 16 kB per episode.
    means = [values[generator.integers(0, len(values), len(values))].mean() for _ in range(resamples)]
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
