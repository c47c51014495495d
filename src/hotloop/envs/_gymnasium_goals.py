"""The goals of a Gymnasium environment, as Gymnasium-Robotics defines them: a Dict with achieved_goal and desired_goal,
and methods that say what reaching one is worth. Owns calling these for many pairs at once; knows no lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from hotloop.core.errors import UserError
from hotloop.core.types import Goal

ACHIEVED, DESIRED = "achieved_goal", "desired_goal"
Worth = Callable[[np.ndarray, np.ndarray], np.ndarray]


def goal(env: gymnasium.Env, name: str) -> Goal | None:
    """None where the environment has no goals. `env` is asked from then on, and so is kept open."""
    space = env.observation_space
    if not env.has_wrapper_attr("compute_reward") or not isinstance(space, spaces.Dict):
        return None
    if not {ACHIEVED, DESIRED} <= set(space.spaces):
        return None
    kind = space[DESIRED]
    if not isinstance(kind, spaces.Box | spaces.MultiBinary) or len(kind.shape) > 1 or space[ACHIEVED] != kind:
        raise UserError(
            f"{name}: {ACHIEVED} is {space[ACHIEVED]} and {DESIRED} {kind}; hindsight takes goals that are one Box or "
            "MultiBinary of one axis, the same for both; set --replay.hindsight 0"
        )
    obs, _ = env.reset(seed=0)
    pair = np.asarray(obs[ACHIEVED]), np.asarray(obs[DESIRED])
    ends = _many(env, "compute_terminated", name, kind, pair) if env.has_wrapper_attr("compute_terminated") else None
    return Goal(reward=_many(env, "compute_reward", name, kind, pair), terminated=ends)


def _many(env: gymnasium.Env, method: str, name: str, kind: Any, pair: tuple[np.ndarray, np.ndarray]) -> Worth:
    """A method of the environment for M pairs at once, if it answers them as it does one by one; else pair by pair.
    Its `info` is empty: what an environment says beside its observations is not stored."""
    ask = env.get_wrapper_attr(method)
    made = bool if method == "compute_terminated" else float

    def one_by_one(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        achieved, desired = _in(kind, achieved), _in(kind, desired)
        return np.array([made(ask(a, d, {})) for a, d in zip(achieved, desired, strict=True)])

    def at_once(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        return np.asarray(ask(_in(kind, achieved), _in(kind, desired), {}), made)

    achieved, desired = (np.stack([pair[i] for i in rows]) for rows in ((0, 0, 1), (1, 0, 0)))
    try:
        wanted = one_by_one(achieved, desired)
    except Exception as error:
        raise UserError(
            f"{name}: {method}(achieved, desired, {{}}) fails: {type(error).__name__}: {' '.join(str(error).split())}; "
            "set --replay.hindsight 0"
        ) from error
    try:
        same = np.array_equal(at_once(achieved, desired), wanted)
    except Exception:  # whatever it raises at three pairs, it answers one
        same = False
    return at_once if same else one_by_one


def _in(kind: Any, stored: np.ndarray) -> np.ndarray:
    """Goals as the environment has them: [M, *shape] in its own dtype."""
    return stored.reshape(len(stored), *kind.shape).astype(kind.dtype)
