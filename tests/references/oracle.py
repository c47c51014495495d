"""A world that can be asked whether what came of it is true: an observation says which lane it is of, in which start of
the process, which episode and which step of it; a reward is a hash of that and of the action. Any transition can be
judged alone: torn, doubled, crossed or misplaced ones give themselves away."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hotloop.aot import Program
from hotloop.collect import act
from hotloop.collect.inline import Inline, Share
from hotloop.core.options import option
from hotloop.core.types import Arrays, Block, EnvSpec, Field, Steps
from hotloop.trace import Trace

LANE, START, EPISODE, T, CHECK = range(5)  # columns of an observation, all of them exact in float32
ACTIONS = 5
ALWAYS = act.Options(start=1.0, end=1.0)
NO_NETWORK = Program("none", lambda tensors: tensors[:1], "eager", 0.0)
WIDTH = 24  # the rest repeats CHECK, so that half a copy is seen


@dataclass(frozen=True)
class Options:
    longest: int = option(17, "steps of the longest episode")


def spec(options: Options) -> EnvSpec:
    return EnvSpec("oracle", (Field("obs", (WIDTH,), "float32"),), ACTIONS, measures=("episode",), exact=False)


def make_env(options: Options, lanes: int, first_lane: int = 0) -> _Oracle:
    return _Oracle(options, lanes, first_lane)


def check(lane: np.ndarray, start: np.ndarray, episode: np.ndarray, t: np.ndarray) -> np.ndarray:
    """A hash below 2^20."""
    mixed = lane * 73856093 ^ start * 19349663 ^ episode * 83492791 ^ t * 15485863
    return (mixed ^ mixed >> 13) & 0xFFFFF


def reward(checks: np.ndarray, action: np.ndarray) -> np.ndarray:
    return ((checks * 31 + action * 7919) & 0xFFFF).astype(np.float32)


def length(lane: np.ndarray, episode: np.ndarray, longest: int) -> np.ndarray:
    return 2 + (lane * 5 + episode * 3) % (longest - 1)


class _Oracle:
    """Lanes whose episodes have lengths of their own; odd ones are cut, even ones end by the rules."""

    def __init__(self, options: Options, lanes: int, first_lane: int) -> None:
        self.spec, self.lanes, self._longest = spec(options), lanes, options.longest
        self._lane = np.arange(first_lane, first_lane + lanes, dtype=np.int64)
        self._start = np.full(lanes, os.getpid() & 0xFFFFF, np.int64)
        self._episode, self._t = np.zeros(lanes, np.int64), np.zeros(lanes, np.int64)

    def _write(self, obs: np.ndarray) -> np.ndarray:
        checks = check(self._lane, self._start, self._episode, self._t)
        columns = (self._lane, self._start, self._episode, self._t)
        for k, column in enumerate(columns):
            obs[:, k] = column
        obs[:, CHECK:] = checks[:, None]
        return checks

    def reset(self, seed: int, out: Steps) -> None:
        self._episode[:] = zlib.crc32(str(seed).encode()) & 0xFFFF
        self._t[:] = 0
        self._write(out.obs["obs"])

    def step(self, actions: np.ndarray, out: Steps) -> None:
        checks = check(self._lane, self._start, self._episode, self._t)
        out.reward[:] = reward(checks, actions)
        self._t += 1
        ended = self._t >= length(self._lane, self._episode, self._longest)
        out.terminated[:] = ended & (self._episode % 2 == 0)
        out.truncated[:] = ended & (self._episode % 2 == 1)
        self._write(out.final_obs["obs"])
        out.measures[:, 0] = self._episode
        self._episode[ended] += 1
        self._t[ended] = 0
        self._write(out.obs["obs"])

    def state(self) -> Arrays:
        return {}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None: ...

    def render(self, lane: int = 0) -> str:
        return str(lane)

    def close(self) -> None: ...


# --- what a worker process makes of it -------------------------------------------------------------------------------


def acting(spec: EnvSpec, of: Mapping[str, int]):
    """Random actions, so that no network is asked."""

    def make(lanes: int, share: Share, trace: Trace) -> Inline:
        env = make_env(Options(), lanes, share.first_lane)
        return Inline(env, NO_NETWORK, ALWAYS, steps=of["steps"], seed=of["seed"], trace=trace, share=share)

    make(1, Share(0, 1, 0), Trace(16)).next_block()  # loads the kernels
    return make


# --- what is true of a block -----------------------------------------------------------------------------------------


class Judge:
    """Sees every block in turn and counts what is wrong with it."""

    def __init__(self, lanes: int, longest: int = Options.longest) -> None:
        self.torn = self.crossed = self.misplaced = self.cuts = 0
        self.keys: list[np.ndarray] = []
        self._lanes, self._longest = lanes, longest
        self._before: np.ndarray | None = None

    def block(self, block: Block) -> None:
        obs = block.obs["obs"].astype(np.int64)
        lane, start, episode, t = (obs[..., k] for k in range(CHECK))
        self.torn += int((obs[..., CHECK:] != check(lane, start, episode, t)[..., None]).any(-1).sum())
        self.torn += int((block.reward != reward(obs[:-1, :, CHECK], block.action)).sum())
        ended = block.terminated | block.truncated
        due = t[:-1] + 1 >= length(lane[:-1], episode[:-1], self._longest)
        self.torn += int((ended != due).sum())
        same = (lane[1:] == lane[:-1]) & (start[1:] == start[:-1])
        goes_on = same & (episode[1:] == episode[:-1]) & (t[1:] == t[:-1] + 1)
        begins = same & (episode[1:] == episode[:-1] + 1) & (t[1:] == 0)
        self.crossed += int((~np.where(ended, begins, goes_on)).sum())
        final = block.final_obs["obs"][ended].astype(np.int64)
        at = [column[:-1][ended] for column in (lane, start, episode, t)]
        at[3] = at[3] + 1
        wrong = np.stack(at, -1) != final[:, :CHECK]
        self.misplaced += int(wrong.any()) + int((final[:, CHECK:] != check(*at)[:, None]).any())
        anew = np.zeros(self._lanes, bool) if block.anew is None else block.anew
        self.cuts += int(anew.sum())
        if self._before is not None:
            self.crossed += int(((self._before != obs[0]).any(-1) & ~anew).sum())
        self._before = obs[-1].copy()
        self.keys.append(((start[:-1] << 43) | (lane[:-1] << 33) | (episode[:-1] << 8) | t[:-1]).ravel())

    @property
    def transitions(self) -> int:
        return sum(len(k) for k in self.keys)

    @property
    def doubled(self) -> int:
        return self.transitions - len(np.unique(np.concatenate(self.keys)))

    @property
    def wrong(self) -> dict[str, int]:
        found = {"torn": self.torn, "crossed": self.crossed, "misplaced": self.misplaced, "doubled": self.doubled}
        return {name: n for name, n in found.items() if n}
