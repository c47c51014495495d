"""Small Gymnasium environments with goals, as Gymnasium-Robotics has them, and some that are not quite."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Walk(gymnasium.Env):
    """A point on a plane goes one step along an axis; the goal is another point. Cut after 12 steps."""

    def __init__(self, **parts: Any) -> None:
        goal = spaces.Box(-20, 20, (2,), np.float64)
        own = {"observation": spaces.Box(-1, 1, (1,)), "achieved_goal": goal, "desired_goal": goal}
        self.observation_space = spaces.Dict({**own, **parts})
        self.action_space = spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.at, self.age = np.zeros(2), 0
        self.goal = self.np_random.integers(1, 4, 2).astype(np.float64)
        return self.seen(), {}

    def step(self, action: int):
        self.at[action // 2] += 1 - 2 * (action % 2)
        self.age += 1
        reward = float(np.asarray(self.compute_reward(self.at, self.goal, {})))
        return self.seen(), reward, reward == 0.0, self.age == 12, {}

    def seen(self) -> dict[str, np.ndarray]:
        now = np.zeros(1, np.float32)
        return {"observation": now, "achieved_goal": self.at.copy(), "desired_goal": self.goal.copy()}

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -(np.linalg.norm(achieved - desired, axis=-1) > 0.5).astype(np.float64)

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        return np.linalg.norm(achieved - desired, axis=-1) <= 0.5


class OneByOne(Walk):
    """Answers one pair; of many it makes one number, or an error."""

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -float(np.linalg.norm(achieved - desired) > 0.5)

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        return bool((achieved == desired)[0] and (achieved == desired)[1])


class Endless(Walk):
    """Says nothing of ends."""

    compute_terminated = property()  # type: ignore[assignment]


class NeedsInfo(Walk):
    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return super().compute_reward(achieved, desired, info) - info["energy"]

    def step(self, action: int):
        return (*super().step(action)[:4], {"energy": 0.0})


def uneven() -> Walk:
    return Walk(desired_goal=spaces.Box(-20, 20, (3,), np.float64))


def pictures() -> Walk:
    picture = spaces.Box(0, 255, (4, 4, 3), np.uint8)
    return Walk(desired_goal=picture, achieved_goal=picture)


def goalless() -> gymnasium.Env:
    env = Walk()
    env.observation_space = spaces.Dict({k: v for k, v in env.observation_space.items() if k != "desired_goal"})
    return env
