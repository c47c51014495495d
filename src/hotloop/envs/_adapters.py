"""A batch of native lanes as Gymnasium environments: one lane as an Env, many as a VectorEnv with same-step autoreset.
The only place where observations are copied: Gymnasium's users keep what they are given. Knows no world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from hotloop.core import discover
from hotloop.core.errors import UserError
from hotloop.core.options import from_dict
from hotloop.core.schema import new_steps
from hotloop.core.types import Arrays, BatchedEnv, Field

_MODES = (None, "ansi")


def _make(world: str, options: Mapping[str, Any], lanes: int, render_mode: str | None) -> tuple[BatchedEnv, Any]:
    """The lanes, and the space of one lane's observation."""
    if render_mode not in _MODES:
        raise UserError(f"render_mode = {render_mode!r}: choose 'ansi' or None")
    module = discover.load("hotloop.envs", world)
    chosen = from_dict(module.Options, options)
    env = module.make(chosen, lanes)
    limits = module.bounds(chosen) if hasattr(module, "bounds") else {}
    parts: dict[str, spaces.Space] = {f.name: _box(f, limits.get(f.name)) for f in env.spec.observation}
    return env, parts["obs"] if list(parts) == ["obs"] else spaces.Dict(parts)


def _box(field: Field, limits: tuple[Any, Any] | None) -> spaces.Box:
    kind = np.dtype(field.dtype)
    if limits is None:  # finite, as Gymnasium's checker asks
        if kind == np.bool_:
            limits = (0, 1)
        else:
            info = np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
            limits = (info.min, info.max)
    low, high = (np.broadcast_to(np.asarray(v, kind), field.shape) for v in limits)
    return spaces.Box(low, high, field.shape, kind.type)


def _seed(generator: np.random.Generator, seed: int | None) -> int:
    """The world's seed: the one given, so that lane 0 of a vector plays the single environment's game; else drawn."""
    return int(generator.integers(1 << 63)) if seed is None else seed


def _one(parts: Arrays, lane: int) -> Any:
    """A copy of one lane's observation, bare where it has only one part."""
    copies = {name: array[lane].copy() for name, array in parts.items()}
    return copies["obs"] if list(copies) == ["obs"] else copies


class SingleWorld(gymnasium.Env):
    """One lane. `info` holds the episode's measures where it ended, and `action_mask` where actions are masked."""

    metadata = {"render_modes": ["ansi"], "render_fps": 10}  # noqa: RUF012 — as Gymnasium declares it

    def __init__(self, world: str, render_mode: str | None = None, **options: Any) -> None:
        self.render_mode = render_mode
        self.lanes, self.observation_space = _make(world, options, 1, render_mode)
        self.action_space = spaces.Discrete(self.lanes.spec.num_actions)
        self._out = new_steps(self.lanes.spec, 1)
        self._action = np.zeros(1, np.int32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.lanes.reset(_seed(self.np_random, seed), self._out)
        return _one(self._out.obs, 0), self._mask_info(self._out.mask)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        out = self._out
        self._action[0] = action
        self.lanes.step(self._action, out)
        terminated, truncated = bool(out.terminated[0]), bool(out.truncated[0])
        if not (terminated or truncated):
            return _one(out.obs, 0), float(out.reward[0]), False, False, self._mask_info(out.mask)
        measures = zip(self.lanes.spec.measures, out.measures[0], strict=True)
        info = {name: float(value) for name, value in measures} | self._mask_info(out.final_mask)
        return _one(out.final_obs, 0), float(out.reward[0]), terminated, truncated, info

    def render(self) -> Any:
        return self.lanes.render(0) if self.render_mode == "ansi" else None

    def close(self) -> None:
        self.lanes.close()

    @staticmethod
    def _mask_info(mask: np.ndarray | None) -> dict[str, Any]:
        return {} if mask is None else {"action_mask": mask[0].astype(np.int8)}


class VectorWorld(gymnasium.vector.VectorEnv):
    """Many lanes. Where an episode ended, `info` holds `final_obs` and `final_info`, as Gymnasium's own do."""

    metadata = {  # noqa: RUF012 — as Gymnasium declares it
        "render_modes": ["ansi"],
        "render_fps": 10,
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    def __init__(self, world: str, num_envs: int = 1, render_mode: str | None = None, **options: Any) -> None:
        self.num_envs, self.render_mode = num_envs, render_mode
        self.lanes, self.single_observation_space = _make(world, options, num_envs, render_mode)
        self.single_action_space = spaces.Discrete(self.lanes.spec.num_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._out = new_steps(self.lanes.spec, num_envs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if options and "reset_mask" in options:
            raise UserError("reset_mask: lanes reset themselves in the step that ends their episode; reset all or none")
        super().reset(seed=seed)
        self.lanes.reset(_seed(self.np_random, seed), self._out)
        return self._obs(), self._mask_info(self._out.mask, np.ones(self.num_envs, bool))

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        out = self._out
        self.lanes.step(np.ascontiguousarray(actions, np.int32), out)
        info = self._mask_info(out.mask, np.ones(self.num_envs, bool))
        ended = out.terminated | out.truncated
        if ended.any():
            info |= self._final(ended)
        return self._obs(), out.reward.astype(np.float64), out.terminated.copy(), out.truncated.copy(), info

    def render(self) -> Any:
        return tuple(self.lanes.render(i) for i in range(self.num_envs)) if self.render_mode == "ansi" else None

    def close_extras(self, **kwargs: Any) -> None:
        self.lanes.close()

    def _obs(self) -> Any:
        copies = {name: array.copy() for name, array in self._out.obs.items()}
        return copies["obs"] if list(copies) == ["obs"] else copies

    def _final(self, ended: np.ndarray) -> dict[str, Any]:
        """What Gymnasium's vector environments add where an episode ended; a key's mask is its name with `_`."""
        obs = np.full(self.num_envs, None, object)
        for lane in np.flatnonzero(ended).tolist():
            obs[lane] = _one(self._out.final_obs, lane)
        final: dict[str, Any] = {}
        for k, name in enumerate(self.lanes.spec.measures):
            final[name] = np.where(ended, self._out.measures[:, k], 0.0).astype(np.float64)
            final[f"_{name}"] = ended.copy()
        final |= self._mask_info(self._out.final_mask, ended)
        return {"final_obs": obs, "_final_obs": ended.copy(), "final_info": final, "_final_info": ended.copy()}

    @staticmethod
    def _mask_info(mask: np.ndarray | None, lanes: np.ndarray) -> dict[str, Any]:
        if mask is None:
            return {}
        return {"action_mask": np.where(lanes[:, None], mask, 0).astype(np.int8), "_action_mask": lanes.copy()}
