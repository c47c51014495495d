"""Any Gymnasium environment as lanes: N single environments stepped in this process, or one vector environment.
Owns seeding, same-step autoreset, masks and saying where an environment misbehaved; making and copying are apart.
The state inside such an environment cannot be read, so no run with it is resumed bit for bit."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from hotloop.core import random
from hotloop.core.errors import UserError
from hotloop.core.options import option
from hotloop.core.types import Arrays, BatchedEnv, EnvSpec, Goal, Steps
from hotloop.envs import _gymnasium_checks as checks
from hotloop.envs import _gymnasium_goals, _gymnasium_make, _spaces
from hotloop.envs._spaces import Actions, Layout


@dataclass(frozen=True)
class Options:
    """Which environment, and in which form its lanes are stepped."""

    id: str = option("", "a registered Gymnasium id, such as CartPole-v1 or package:Name-v0")
    factory: str = option("", "module:name of a callable that returns a gymnasium.Env, instead of an id")
    kwargs: dict[str, Any] = field(
        default_factory=dict, metadata={"help": "passed on when it is made", "ge": None, "gt": None, "le": None}
    )
    wrappers: tuple[str, ...] = option((), "module:Class of wrappers that need only the environment, innermost first")
    frame_stack: int = option(1, "frames a network sees of each image", ge=1)
    max_episode_steps: int = option(0, "steps after which an episode is cut; 0: the environment's own limit", ge=0)
    vector: Literal["own", "gymnasium"] = option(
        "own", "own: a lean loop over single environments; gymnasium: make_vec, for those with a native vector form"
    )


def spec(options: Options) -> EnvSpec:
    """Make one lane, read what it is, close it."""
    env = make(options, 1)
    env.close()
    return env.spec


def make(options: Options, lanes: int, first_lane: int = 0) -> BatchedEnv:
    """Lanes first_lane … first_lane + lanes - 1."""
    if bool(options.id) == bool(options.factory):
        raise UserError("set either env.id to a Gymnasium id such as 'CartPole-v1' or env.factory to 'module:name'")
    if options.vector == "gymnasium":
        return VectorLanes(options, lanes, first_lane)
    return Lanes(options, lanes, first_lane)


def words(options: Options) -> tuple[Callable[[Any], Arrays | None], Callable[[int], Any]]:
    """Between the environment's own words and ours: (one observation -> its parts, or None if it is not one of the
    space's own; action 0 … A-1 -> what `step` takes)."""
    env = _gymnasium_make.single(options)
    space = env.observation_space
    layout, actions = _read(_name(options), *_spaces_of(env), options.frame_stack)
    env.close()

    def parts(obs: Any) -> Arrays | None:
        if any(f.stack > 1 for f in layout.fields) or not space.contains(obs):
            return None
        arrays = [np.zeros((1, *f.shape), f.dtype) for f in layout.fields]
        layout.write(obs, arrays, 0)
        return {f.name: array[0] for f, array in zip(layout.fields, arrays, strict=True)}

    return parts, actions.one


def goal(options: Options) -> Goal | None:
    """What the environment's goals are worth; None where it has none."""
    if options.factory and options.vector == "gymnasium":
        raise UserError(
            f"{options.factory}: the goals of a vector environment cannot be asked for; set env.vector = 'own' or "
            "--replay.hindsight 0"
        )
    return _gymnasium_goals.goal(_gymnasium_make.single(options), _name(options))


def lane_seed(seed: int, lane: int) -> int:
    """The 31-bit seed of a lane's first reset. Later resets are unseeded, as is Gymnasium's custom."""
    with np.errstate(over="ignore"):  # without the compiler, NumPy's scalars warn of the wrap-around that is meant
        key = np.uint64(random.stream_key(seed, random.ENV, lane))  # compiled, it comes back as int and is no int64
        return int(random.bits(key, 0, 0)) >> 33


# --- N single environments -------------------------------------------------------------------------------------------


class Lanes:
    """N single environments, stepped one after the other."""

    def __init__(self, options: Options, lanes: int, first_lane: int) -> None:
        name = _name(options)
        self.lanes = lanes
        self._first_lane = first_lane
        self._envs = [_gymnasium_make.single(options) for _ in range(lanes)]
        first = self._envs[0]
        self._layout, self._actions = _read(name, *_spaces_of(first), options.frame_stack)
        if any(_spaces_of(env) != _spaces_of(first) for env in self._envs[1:]):
            raise UserError(f"{name} gave lanes with different spaces; hotloop needs the same ones in each")
        self.spec = _spec(name, self._layout, self._actions, "action_mask" in _first_info(name, first))
        self._steps_of = [env.step for env in self._envs]
        self._seeds = [0] * lanes
        self._rewards: list[Any] = [0.0] * lanes
        self._last: list[Any] = [None] * lanes  # the observation now standing in each lane, for render
        self._count = -1  # batched steps since reset

    def reset(self, seed: int, out: Steps) -> None:
        """Start every lane anew, from a seed of its own."""
        self._count = 0
        arrays = _arrays(self.spec, out.obs)
        lane = 0
        try:
            for lane in range(self.lanes):
                self._seeds[lane] = lane_seed(seed, self._first_lane + lane)
                self._begin(lane, self._seeds[lane], arrays, out.mask)
        except Exception as error:
            if (wrong := checks.blame(error, self.spec.name, self._where(lane))) is error:
                raise
            raise wrong from None
        self._check_masks(out.mask)

    def step(self, actions: np.ndarray, out: Steps) -> None:
        """One step of each environment; where an episode ended, the next one begins at once."""
        if self._count < 0:
            raise UserError(f"{self.spec.name} was stepped before its first reset")
        self._count += 1
        arrays, masks = _arrays(self.spec, out.obs), out.mask
        action_of, write, write_mask = self._actions.one, self._layout.write, checks.write_mask
        rewards, last = self._rewards, self._last
        out.terminated.fill(False)
        out.truncated.fill(False)
        lane, action = 0, None
        try:
            for lane, (step, number) in enumerate(zip(self._steps_of, actions.tolist(), strict=True)):
                action = action_of(number)
                obs, rewards[lane], terminated, truncated, info = step(action)
                if terminated or truncated:
                    self._end(lane, obs, info, bool(terminated), out)
                    self._begin(lane, None, arrays, masks)
                    continue
                last[lane] = obs
                write(obs, arrays, lane)  # copied now: an environment may reuse its array, even between lanes
                if masks is not None:
                    write_mask(info, masks, lane)
        except Exception as error:
            if (wrong := checks.blame(error, self.spec.name, f"{self._where(lane)}, action {action}")) is error:
                raise
            raise wrong from None
        self._write_rewards(out.reward)
        self._check_masks(masks)

    def _begin(self, lane: int, seed: int | None, arrays: Sequence[np.ndarray], masks: np.ndarray | None) -> None:
        """Reset one lane and write where it stands."""
        obs, info = self._envs[lane].reset(seed=seed)
        self._last[lane] = obs
        self._layout.write(obs, arrays, lane)
        if masks is not None:
            checks.write_mask(info, masks, lane)

    def _end(self, lane: int, obs: Any, info: dict[str, Any], terminated: bool, out: Steps) -> None:
        """Write the true last observation. An episode that ended by the rules was not cut, whatever a limit says."""
        out.terminated[lane] = terminated
        out.truncated[lane] = not terminated
        self._layout.write(obs, _arrays(self.spec, out.final_obs), lane)
        if out.final_mask is not None:
            checks.write_final_mask(None if terminated else info, out.final_mask, lane)
        elif "action_mask" in info:
            raise UserError(checks.LATE_MASK)

    def _write_rewards(self, reward: np.ndarray) -> None:
        try:
            reward[:] = array("d", self._rewards)  # refuses None and text, which NumPy would turn into numbers
        except TypeError:
            lane = next(i for i, value in enumerate(self._rewards) if not checks.is_number(value))
            wrong = UserError(f"reward {checks.one_line(self._rewards[lane])} is not a number")
            raise checks.blame(wrong, self.spec.name, self._where(lane)) from None

    def _check_masks(self, masks: np.ndarray | None) -> None:
        if masks is not None and not masks.any(axis=1).all():
            lane = int(masks.any(axis=1).argmin())
            raise checks.blame(UserError(checks.NOTHING_LEGAL), self.spec.name, self._where(lane))

    def _where(self, lane: int) -> str:
        return f"lane {self._first_lane + lane}, step {self._count}, seed {self._seeds[lane]}"

    def state(self) -> Arrays:
        """Nothing: the inside of a Gymnasium environment is its own."""
        return {}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Accepts the nothing that `state` gives; a reset has to follow."""
        _refuse_state(self.spec.name, state)

    def render(self, lane: int = 0) -> str:
        """The environment's own text where it has one, else its observation."""
        env = self._envs[lane]
        if env.render_mode == "ansi" and self._count >= 0:
            return str(env.render())
        return f"{self.spec.name} lane {self._first_lane + lane}: {checks.one_line(self._last[lane])}"

    def close(self) -> None:
        """Close every environment."""
        for env in self._envs:
            env.close()


# --- one vector environment ------------------------------------------------------------------------------------------


class VectorLanes:
    """A Gymnasium vector environment. Ended lanes are reset in the same step, by the environment itself or by
    `reset_mask`, the partial reset of Gymnasium; a form that can only reset in the next step is refused."""

    def __init__(self, options: Options, lanes: int, first_lane: int) -> None:
        name = _name(options)
        self.lanes = lanes
        self._first_lane = first_lane
        self._env = _gymnasium_make.vector(options, lanes)
        if self._env.num_envs != lanes:
            raise UserError(f"{name} made {self._env.num_envs} environments where {lanes} lanes were asked for")
        self._resets_itself = _gymnasium_make.resets_itself(self._env, name)
        # Gymnasium's own forms seed each lane; a native one draws all lanes from one generator.
        self._seeds_lanes = isinstance(self._env.unwrapped, SyncVectorEnv | AsyncVectorEnv)
        observation, action = self._env.single_observation_space, self._env.single_action_space
        self._layout, self._actions = _read(name, observation, action, options.frame_stack)
        self.spec = _spec(name, self._layout, self._actions, "action_mask" in self._reset(0)[1])
        self._seed = 0
        self._last: Any = None
        self._count = -1

    def _reset(self, seed: int) -> tuple[Any, dict[str, Any]]:
        seeds = [lane_seed(seed, self._first_lane + lane) for lane in range(self.lanes)]
        return self._env.reset(seed=seeds if self._seeds_lanes else seeds[0])  # type: ignore[arg-type]

    def reset(self, seed: int, out: Steps) -> None:
        """Start every lane anew."""
        self._seed, self._count = seed, 0
        try:
            obs, info = self._reset(seed)
            self._write(obs, info, out.obs, out.mask, slice(None))
        except Exception as error:
            if (wrong := checks.blame(error, self.spec.name, self._where())) is error:
                raise
            raise wrong from None
        self._check_masks(out.mask, np.ones(self.lanes, bool))

    def step(self, actions: np.ndarray, out: Steps) -> None:
        """One step of the vector environment; where an episode ended, the next one begins at once."""
        if self._count < 0:
            raise UserError(f"{self.spec.name} was stepped before its first reset")
        self._count += 1
        try:
            obs, reward, terminated, truncated, info = self._env.step(self._actions.many(actions))
            out.reward[:] = checks.flat(reward, self.lanes, "reward", "biuf")
            out.terminated[:] = checks.flat(terminated, self.lanes, "terminated", "b")
            out.truncated[:] = checks.flat(truncated, self.lanes, "truncated", "b") & ~out.terminated
            ended = out.terminated | out.truncated
            if self._resets_itself or not ended.any():
                self._write(obs, info, out.obs, out.mask, slice(None))
                if ended.any():
                    self._write_finals(info, ended, out)
            else:
                self._write(obs, info, out.obs, out.mask, ~ended)
                self._write(obs, info, out.final_obs, None, ended)
                self._write_final_masks(info, ended, out)
                obs, info = self._env.reset(options={"reset_mask": ended.copy()})
                self._write(obs, info, out.obs, out.mask, ended)
        except Exception as error:
            if (wrong := checks.blame(error, self.spec.name, f"{self._where()}, actions {actions.tolist()}")) is error:
                raise
            raise wrong from None
        self._check_masks(out.mask, np.ones(self.lanes, bool))

    def _write(self, obs: Any, info: dict[str, Any], to: Arrays, masks: np.ndarray | None, rows: Any) -> None:
        self._last = obs
        self._layout.write_rows(obs, _arrays(self.spec, to), rows)
        if masks is not None:
            masks[rows] = checks.masks_of(info, masks.shape, np.arange(self.lanes)[rows])

    def _write_finals(self, info: dict[str, Any], ended: np.ndarray, out: Steps) -> None:
        """Last observations of an environment that has already begun the next episodes."""
        arrays = _arrays(self.spec, out.final_obs)
        final = info.get("final_obs")
        if final is None:
            raise UserError("an episode ended but info has no 'final_obs', which same-step autoreset owes")
        if isinstance(final, np.ndarray) and final.dtype == object:  # one observation per lane that ended
            for lane in np.flatnonzero(ended):
                self._layout.write(final[lane], arrays, int(lane))
        else:
            self._layout.write_rows(final, arrays, ended)
        self._write_final_masks(info.get("final_info", {}), ended, out)

    def _write_final_masks(self, info: dict[str, Any], ended: np.ndarray, out: Steps) -> None:
        if out.final_mask is not None:
            cut = ended & ~out.terminated
            out.final_mask[ended] = True  # as for single environments: after the rules' end nothing follows
            if cut.any():
                out.final_mask[cut] = checks.masks_of(info, out.final_mask.shape, np.flatnonzero(cut))
                self._check_masks(out.final_mask, cut)
        elif "action_mask" in info:
            raise UserError(checks.LATE_MASK)

    def _check_masks(self, masks: np.ndarray | None, rows: np.ndarray) -> None:
        if masks is not None and not masks[rows].any(axis=1).all():
            lane = int(np.flatnonzero(rows)[masks[rows].any(axis=1).argmin()])
            raise UserError(
                f"{self.spec.name}: {checks.NOTHING_LEGAL} (lane {self._first_lane + lane}, {self._where()})"
            )

    def _where(self) -> str:
        lanes = f"lanes {self._first_lane} … {self._first_lane + self.lanes - 1}"
        return f"one of {lanes}, step {self._count}, run seed {self._seed}"

    def state(self) -> Arrays:
        """Nothing: the inside of a Gymnasium environment is its own."""
        return {}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Accepts the nothing that `state` gives; a reset has to follow."""
        _refuse_state(self.spec.name, state)

    def render(self, lane: int = 0) -> str:
        """The observation of one lane: vector environments have no text of their own."""
        return f"{self.spec.name} lane {self._first_lane + lane}: {checks.one_line(_row(self._last, lane))}"

    def close(self) -> None:
        """Close the vector environment."""
        self._env.close()


# --- both forms ------------------------------------------------------------------------------------------------------


def _name(options: Options) -> str:
    return options.id or options.factory


def _spaces_of(env: gymnasium.Env) -> tuple[Any, Any]:
    return getattr(env, "observation_space", None), getattr(env, "action_space", None)


def _read(name: str, observation: Any, action: Any, frame_stack: int) -> tuple[Layout, Actions]:
    actions = _spaces.actions(action, name)
    try:
        return _spaces.layout(observation, frame_stack), actions
    except UserError as error:
        raise UserError(f"{name}: {error}") from None


def _spec(name: str, layout: Layout, actions: Actions, masked: bool) -> EnvSpec:
    return EnvSpec(name, layout.fields, actions.count, masked=masked, exact=False)


def _first_info(name: str, env: gymnasium.Env) -> dict[str, Any]:
    """The info of a reset, which shows whether masks are given."""
    try:
        _, info = env.reset(seed=0)
        return info
    except Exception as error:
        if (wrong := checks.blame(error, name, "first reset, seed 0")) is error:
            raise
        raise wrong from None


def _arrays(spec: EnvSpec, parts: Arrays) -> list[np.ndarray]:
    return [parts[f.name] for f in spec.observation]


def _refuse_state(name: str, state: Mapping[str, np.ndarray]) -> None:
    if state:
        raise UserError(f"{name} cannot take a state: the inside of a Gymnasium environment is its own; reset it")


def _row(value: Any, lane: int) -> Any:
    """One lane's part of a batched observation."""
    if isinstance(value, dict):
        return {key: _row(part, lane) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(_row(part, lane) for part in value)
    return None if value is None else value[lane]
