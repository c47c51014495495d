"""Small real Gymnasium environments for the tests: one per observation space, one with masks, one that is cut, and one
that misbehaves on demand. Importing this module registers those that tests reach by id."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space

from hotloop.envs.gymnasium import Options

HERE = __name__


def factory(name: str, **kwargs: Any) -> Options:
    """Options for one of the environments below; what is no option goes to its constructor."""
    own = {k: kwargs.pop(k) for k in list(kwargs) if k in Options.__dataclass_fields__}
    return Options(factory=f"{HERE}:{name}", kwargs=kwargs, **own)


def sync(env: str, autoreset: str = "DISABLED", **kwargs: Any) -> Options:
    """The same environment, as Gymnasium's own vector form in one of its autoreset modes."""
    return factory("sync_factory", vector="gymnasium", env=env, autoreset=autoreset, **kwargs)


def box(low: float, high: float, shape: tuple[int, ...], dtype: Any = np.float32) -> spaces.Box:
    return spaces.Box(low, high, shape, dtype)


SPACES = {
    "float32": box(-1, 1, (4,)),
    "float64": box(-np.inf, np.inf, (2, 3), np.float64),
    "scalar": box(0, 1, ()),
    "bytes": box(0, 3, (5,), np.uint8),
    "flags": box(0, 1, (3,), np.bool_),
    "int8": box(-128, 127, (3,), np.int8),
    "int64": box(-100, 100, (2, 2), np.int64),
    "large": box(-(2**30), 2**30, (2,), np.int64),
    "grey": box(0, 255, (6, 5), np.uint8),
    "rgb": box(0, 255, (6, 5, 3), np.uint8),
    "chw": box(0, 255, (2, 6, 5), np.uint8),
    "discrete": spaces.Discrete(5),
    "discrete_from_3": spaces.Discrete(4, start=3),
    "multibinary": spaces.MultiBinary((2, 3)),
    "multidiscrete": spaces.MultiDiscrete([3, 1, 4], start=[0, 5, -2]),
    "tuple": spaces.Tuple((spaces.Discrete(3), box(-1, 1, (2,)))),
    "dict": spaces.Dict({"image": box(0, 255, (4, 4, 1), np.uint8), "speed": box(-1, 1, (2,))}),
    "nested": spaces.Dict(
        {"a": spaces.Dict({"b": spaces.Discrete(2), "c": spaces.Tuple((box(0, 1, (1,)), spaces.MultiBinary(2)))})}
    ),
}


class Sampled(gymnasium.Env):
    """Observations drawn from a space; episodes of 1 to 6 steps, of which some end by the rules and some are cut."""

    def __init__(self, space: str = "float32") -> None:
        self.observation_space = SPACES[space]
        self.action_space = spaces.Discrete(3)

    def draw(self) -> Any:
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        return self.observation_space.sample()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(1, 7))
        return self.draw(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        ended, kind = self.left == 0, int(self.np_random.integers(2))
        return self.draw(), float(action) + 0.1, ended and kind == 0, ended and kind == 1, {}


class Corridor(gymnasium.Env):
    """Counts its steps; ends by the rules after `length`. The observation names the episode and the step."""

    def __init__(self, length: int = 5) -> None:
        self.observation_space = box(-np.inf, np.inf, (2,))
        self.action_space = spaces.Discrete(2)
        self.length, self.episode, self.at = length, 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode = 1 if seed is not None else self.episode + 1
        self.at = 0
        return np.array([self.episode, 0], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at += 1
        return np.array([self.episode, self.at], np.float32), 1.0, self.at >= self.length, False, {}


class Masked(gymnasium.Env):
    """At step k every action but k mod 4 is legal; choosing it raises. Every second episode is cut, the others end by
    the rules, and then, as with many games, nothing is legal any more."""

    def __init__(self, fault: str = "") -> None:
        self.observation_space = spaces.Discrete(8)
        self.action_space = spaces.Discrete(4)
        self.fault, self.at, self.episode, self.stepped = fault, 0, 0, False

    def info(self, over: bool = False) -> dict[str, Any]:
        mask = np.ones(4, np.int8)
        mask[self.at % 4] = 0
        if over or (self.fault == "nothing legal" and self.at == 2):
            mask[:] = 0
        if self.at == 2 and self.fault in ("absent", "shape"):
            return {} if self.fault == "absent" else {"action_mask": np.ones(3, np.int8)}
        if self.fault == "late":
            return {"action_mask": mask} if self.stepped else {}
        return {"action_mask": mask.tolist() if self.fault == "list" else mask}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at, self.episode = int(self.np_random.integers(2)), 0 if seed is not None else self.episode + 1
        return self.at, self.info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if action == self.at % 4:
            raise RuntimeError(f"illegal {action}")
        self.stepped = True
        self.at += 1
        over, rules = self.at == 5, self.episode % 2 == 0
        if self.fault == "nothing legal when cut" and over:
            return self.at, 0.5, False, True, self.info(over=True)
        return self.at, 0.5, over and rules, over and not rules, self.info(over and rules)


class Echo(gymnasium.Env):
    """The observation is the action it was given, which it then spoils."""

    def __init__(self, kind: str = "multidiscrete") -> None:
        self.action_space: Any = {
            "discrete": spaces.Discrete(3, start=-1),
            "multidiscrete": spaces.MultiDiscrete([2, 3, 2], start=[0, 1, -5]),
            "grid": spaces.MultiDiscrete([[2, 2], [3, 1]]),
            "multibinary": spaces.MultiBinary(3),
            "large": spaces.MultiDiscrete([64, 65]),
            "continuous": box(-1, 1, (1,)),
            "text": spaces.Text(3),
        }[kind]
        self.observation_space = box(-10, 10, self.action_space.shape or (1,), np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(self.observation_space.shape), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        obs = np.array(action, np.float64).reshape(self.observation_space.shape)
        if isinstance(action, np.ndarray):
            action[...] = 0
        return obs, 0.0, False, False, {}


class Hostile(gymnasium.Env):
    """Behaves for two steps, then breaks the rule it is asked to break."""

    def __init__(self, fault: str = "", image: bool = False) -> None:
        self.observation_space = box(0, 255, (2, 2), np.uint8) if image else box(-np.inf, np.inf, (3,))
        self.action_space = spaces.Discrete(2)
        self.fault, self.at = fault, 0
        self.buffer = np.zeros(self.observation_space.shape, self.observation_space.dtype)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.at = 0
        if self.fault == "reset raises" and seed is None:
            raise LookupError("no level left")
        if self.fault == "reset returns one" and seed is None:
            return self.buffer
        return self.look(), {}

    def look(self) -> np.ndarray:
        if self.fault == "reused":
            self.buffer[...] = self.at
            return self.buffer
        return np.full_like(self.buffer, self.at)

    def step(self, action: Any) -> Any:
        self.at += 1
        obs: Any = self.look()
        if self.at < 3:
            return obs, 1.0, False, False, {}
        bad = {
            "shape": obs[:1],
            "scalar": 1.0,
            "text": np.array(["a", "b", "c"]),
            "ragged": [[1], [1, 2], 3],
            "nan": obs * np.nan if obs.dtype.kind == "f" else np.full(obs.shape, np.nan),
            "list": [3.0, 3.0, 3.0],
            "above": np.full(obs.shape, 256),
            "below": np.full(obs.shape, -1),
            "fraction": np.full(obs.shape, 0.5),
            "whole": np.full(obs.shape, 200.0),
        }.get(self.fault, obs)
        if self.fault == "raises":
            return self.deep(action)
        if self.fault == "four":
            return obs, 1.0, True, {}
        if self.fault == "no info":
            return obs, 1.0, True, False, None
        reward: Any = {"reward none": None, "reward text": "1", "reward nan": np.nan}.get(self.fault, 1.0)
        return bad, reward, self.fault in ("reused", "reset raises", "reset returns one"), False, {}

    def deep(self, action: Any) -> Any:
        raise ZeroDivisionError(f"no way to go {action}")


class NativeCorridor(VectorEnv):
    """Corridor as a native vector environment whose lane i is i + 2 long. It resets in the same step and gives the
    last observations as one batch, of which only the rows of ended lanes mean anything."""

    def __init__(self, num_envs: int = 1, autoreset_mode: Any = AutoresetMode.NEXT_STEP, masks: bool = False) -> None:
        self.metadata = {"autoreset_mode": autoreset_mode}
        self.num_envs, self.masks = num_envs, masks
        self.single_observation_space = spaces.Dict({"at": box(0, 100, (1,))})
        self.single_action_space = spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def mask(self) -> np.ndarray:
        """Action 1 is legal, action 0 on even steps only."""
        return np.stack([self.at % 2 == 0, self.at >= 0], axis=1)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        assert isinstance(seed, int)  # as most native forms, it has one generator for all lanes
        super().reset(seed=seed)
        self.at = np.zeros(self.num_envs, np.int64)
        return {"at": self.at[:, None].astype(np.float32)}, {"action_mask": self.mask()} if self.masks else {}

    def step(self, actions: Any) -> Any:
        self.at += 1
        ended = self.at >= np.arange(self.num_envs) + 2
        cut = ended & (np.arange(self.num_envs) % 2 == 1)
        final = {"at": np.where(ended, self.at, 99)[:, None].astype(np.float32)}
        info: dict[str, Any] = {"final_obs": final} if ended.any() else {}
        if ended.any() and self.masks:
            info["final_info"] = {"action_mask": self.mask()}
        self.at[ended] = 0
        if self.masks:
            info["action_mask"] = self.mask()
        obs = {"at": self.at[:, None].astype(np.float32)}
        return obs, np.full(self.num_envs, 0.25), ended & ~cut, cut, info


def sync_factory(num_envs: int, env: str, autoreset: str, **kwargs: Any) -> SyncVectorEnv:
    """A vector environment as a user's factory would give it, in any of the autoreset modes."""
    single = globals()[env]
    return SyncVectorEnv([lambda: single(**kwargs)] * num_envs, autoreset_mode=AutoresetMode[autoreset])


def collision() -> gymnasium.Env:
    """Two parts that would get one name."""
    env = Sampled()
    env.observation_space = spaces.Dict(
        {"a.b": spaces.Discrete(2), "a": spaces.Dict({"b": spaces.Discrete(2)})},
    )
    return env


def observing(space: Any) -> gymnasium.Env:
    """An environment with any observation space, for those that are refused."""
    env = Sampled()
    refused: Any = {
        "empty box": box(0, 1, (2, 0)),
        "empty dict": spaces.Dict(),
        "empty tuple": spaces.Dict({"a": spaces.Tuple(())}),
        "sequence": spaces.Dict({"words": spaces.Sequence(spaces.Discrete(2))}),
        "text": spaces.Text(3),
        "graph": spaces.Graph(box(0, 1, (1,)), None),
    }
    env.observation_space = refused[space]
    return env


def uneven() -> gymnasium.Env:
    """Lanes that do not agree on what they see."""
    uneven.made += 1  # type: ignore[attr-defined]
    return Sampled(["float32", "discrete"][uneven.made % 2])  # type: ignore[attr-defined]


uneven.made = 0  # type: ignore[attr-defined]


def nothing() -> None:
    """A factory that forgets its return."""


class Negated(gymnasium.ObservationWrapper):
    """A wrapper that needs only the environment."""

    def observation(self, observation: Any) -> Any:
        return -observation


gymnasium.register("HotloopHostile-v0", f"{HERE}:Hostile")
gymnasium.register("HotloopMasked-v0", f"{HERE}:Masked", max_episode_steps=4)
gymnasium.register("HotloopCorridor-v0", f"{HERE}:Corridor")  # out of date, and still what was asked for
gymnasium.register("HotloopCorridor-v1", f"{HERE}:Corridor")
gymnasium.register("HotloopNative-v0", vector_entry_point=f"{HERE}:NativeCorridor")
