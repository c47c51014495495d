"""The nouns that cross stages, with shape and meaning where each field is declared.

Letters in shapes: T batched steps, N lanes, A actions, K measures, U updates, B batch, P parameters, M any number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Field:
    """One part of an observation, as an environment writes it and the replay stores it."""

    name: str
    shape: tuple[int, ...]  # of one entry; of one frame where frames are stacked
    dtype: str  # NumPy name: float32, uint8, …
    stack: int = 1  # frames the network sees; above 1 it is given (stack, *shape)
    scale: float = 1.0  # the network computes on float32(value) * scale

    @property
    def seen(self) -> tuple[int, ...]:
        """Shape of this part as a network sees it, without batch dimensions."""
        return (self.stack, *self.shape) if self.stack > 1 else self.shape

    @property
    def entry_bytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class EnvSpec:
    """What every stage may know of an environment."""

    name: str
    observation: tuple[Field, ...]  # a plain observation is one part named "obs"
    num_actions: int  # A; actions are 0 … A-1
    masked: bool = False  # whether a mask of legal actions comes with each observation
    measures: tuple[str, ...] = ()  # K names of what an episode is judged by, the first one foremost
    exact: bool = True  # whether its whole state can be read and written, and so resumed bit for bit


@dataclass(frozen=True)
class Goal:
    """What a world with goals says of them: what reaching one is worth, for many pairs at once. Both kinds are parts of
    its observation and of one shape, as Gymnasium-Robotics has it. Hindsight replay asks."""

    reward: Callable[[np.ndarray, np.ndarray], np.ndarray]  # achieved, desired [M, *shape] -> [M]
    terminated: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None  # the same -> [M] bool; None: never by it
    achieved: str = "achieved_goal"
    desired: str = "desired_goal"


@dataclass
class Steps:
    """Where an environment writes one batched step. Same-step autoreset: where an episode ended, `obs` and
    `mask` are already those of the next episode, and the true last ones stand in `final_obs` and `final_mask`."""

    obs: Arrays  # part -> [N, *shape]
    reward: np.ndarray  # [N] float32
    terminated: np.ndarray  # [N] bool: the episode ended by the rules, nothing follows
    truncated: np.ndarray  # [N] bool: the episode was cut; its value goes on from final_obs
    final_obs: Arrays  # part -> [N, *shape]; meaningful only in lanes that ended
    measures: np.ndarray  # [N, K] float32; meaningful only in lanes that ended
    mask: np.ndarray | None = None  # [N, A] bool, True = legal; None where the spec is not masked
    final_mask: np.ndarray | None = None  # [N, A] bool; meaningful only in lanes that ended


@dataclass
class Block:
    """T batched steps of N lanes, what a collector hands to the replay. Valid until the next block is collected."""

    obs: Arrays  # part -> [T+1, N, *shape]; row T is where the next block begins
    action: np.ndarray  # [T, N] int32
    reward: np.ndarray  # [T, N] float32
    terminated: np.ndarray  # [T, N] bool
    truncated: np.ndarray  # [T, N] bool
    final_obs: Arrays  # part -> [T, N, *shape]; meaningful only where ended
    measures: np.ndarray  # [T, N, K] float32; meaningful only where ended
    mask: np.ndarray | None  # [T+1, N, A] bool
    final_mask: np.ndarray | None  # [T, N, A] bool; meaningful only where ended
    anew: np.ndarray | None = None  # [N] bool: lanes whose row 0 does not continue the block before; None: no lane

    @property
    def steps(self) -> int:
        """T"""
        return self.reward.shape[0]

    @property
    def lanes(self) -> int:
        """N"""
        return self.reward.shape[1]


@dataclass
class Batch:
    """U batches of B transitions, what the replay hands to the learner."""

    obs: Arrays  # part -> [U, B, *seen]
    action: np.ndarray  # [U, B] int64
    reward: np.ndarray  # [U, B] float32: n-step return
    discount: np.ndarray  # [U, B] float32: gamma^n, kept where truncated, 0 where terminated
    next_obs: Arrays  # part -> [U, B, *seen]; zeros where terminated, since nothing may depend on them
    next_mask: np.ndarray | None  # [U, B, A] bool; all True where terminated
    weight: np.ndarray  # [U, B] float32: importance weight, 1 for uniform sampling
    mask: np.ndarray | None = None  # [U, B, A] bool, that of obs; None unless the variant looks at it


class BatchedEnv(Protocol):
    """N lanes of one environment. Writes into the arrays it is given and keeps none of them."""

    spec: EnvSpec
    lanes: int

    def reset(self, seed: int, out: Steps) -> None:
        """Start every lane anew: writes obs and mask only. Lane i plays the same game for the same seed,
        whatever the number of lanes."""
        ...

    def step(self, actions: np.ndarray, out: Steps) -> None:
        """One batched step. actions: [N] int32, each legal."""
        ...

    def state(self) -> Arrays:
        """Everything a later step depends on, as arrays; empty where `spec.exact` is False."""
        ...

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from what `state` gave, bit for bit."""
        ...

    def render(self, lane: int = 0) -> str:
        """One lane as text."""
        ...

    def close(self) -> None: ...


class Policy(Protocol):
    """A reference policy: random, a heuristic, or a trained network."""

    def __call__(self, obs: Arrays, mask: np.ndarray | None) -> np.ndarray:
        """part -> [N, *seen], [N, A] -> actions [N] int32"""
        ...
