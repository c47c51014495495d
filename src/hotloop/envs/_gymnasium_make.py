"""A registered id or a factory → a Gymnasium environment, single or vector, or one line that says what is missing.
Owns registration, extras, wrappers and the choice of autoreset; knows nothing of lanes, observations or steps."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.error import DependencyNotInstalled
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from hotloop.core import discover
from hotloop.core.errors import MissingExtra, UserError, unknown

if TYPE_CHECKING:
    from hotloop.envs.gymnasium import Options


def single(options: Options) -> gymnasium.Env:
    """One environment with its time limit and wrappers."""
    env = _from_id(options) if options.id else _from_factory(options)
    for path in options.wrappers:
        try:
            env = discover.by_path(path)(env)
        except TypeError as error:
            raise UserError(f"wrapper {path!r} cannot be made from the environment alone: {error}") from error
    return env


def vector(options: Options, lanes: int) -> VectorEnv:
    """One vector environment of that many lanes, asked to reset in the same step or by mask where it has the choice."""
    if options.factory:
        for key in ("wrappers", "max_episode_steps"):
            if getattr(options, key):
                raise UserError(f"env.{key} cannot be applied to the vector environment of a factory; do it inside it")
        env = discover.by_path(options.factory)(num_envs=lanes, **options.kwargs)
        if not isinstance(env, VectorEnv):
            raise UserError(
                f"{options.factory} gave {type(env).__name__}, no VectorEnv; set env.vector = 'own' for a single one"
            )
        return env
    known = registered(options.id)
    kwargs = dict(options.kwargs)
    mode = kwargs.pop("vectorization_mode", "vector_entry_point" if known.vector_entry_point else "sync")
    if options.max_episode_steps:
        kwargs["max_episode_steps"] = options.max_episode_steps
    if mode == "vector_entry_point":
        if options.wrappers:
            raise UserError(
                f"env.wrappers cannot be applied inside the native vector form of {options.id}; "
                "set env.kwargs.vectorization_mode = 'sync' or env.vector = 'own'"
            )
        if _accepts(_creator(known, known.vector_entry_point), "autoreset_mode"):
            kwargs.setdefault("autoreset_mode", AutoresetMode.SAME_STEP)
    else:
        # Not SAME_STEP: Gymnasium's own forms would keep the last observation by reference over the reset, and an
        # environment that reuses its array would then have overwritten it.
        chosen = {"autoreset_mode": AutoresetMode.DISABLED, **kwargs.pop("vector_kwargs", {})}
        kwargs.update(vector_kwargs=chosen, disable_env_checker=True)
        kwargs["wrappers"] = [discover.by_path(path) for path in options.wrappers]
        _creator(known, known.entry_point)
    return _call(gymnasium.make_vec, known, options, num_envs=lanes, vectorization_mode=mode, **kwargs)


def resets_itself(env: VectorEnv, name: str) -> bool:
    """Whether a vector environment resets ended lanes in the same step; if not, `reset_mask` does."""
    mode = env.metadata.get("autoreset_mode")
    if mode == AutoresetMode.SAME_STEP:
        return True
    if mode == AutoresetMode.DISABLED or (mode == AutoresetMode.NEXT_STEP and isinstance(env.unwrapped, SyncVectorEnv)):
        return False
    env.close()
    raise UserError(
        f"the vector form of {name} has autoreset {getattr(mode, 'value', mode)}, which swallows an action after every "
        "episode; set env.kwargs.vectorization_mode = 'sync' or env.vector = 'own'"
    )


def registered(env_id: str) -> EnvSpec:
    """The registry's entry for an id, after the package that registers it was imported."""
    module, _, name = env_id.rpartition(":")
    if module:
        discover.by_path(f"{module}:__name__")  # importing is what registers
    if name.startswith("ALE/") and name not in gymnasium.registry:
        try:
            import ale_py  # type: ignore[import-not-found]
        except ImportError:
            raise MissingExtra("atari", name) from None
        gymnasium.register_envs(ale_py)
    if name not in gymnasium.registry:
        raise unknown("Gymnasium id", name, gymnasium.registry)
    return gymnasium.registry[name]


def _from_id(options: Options) -> gymnasium.Env:
    known = registered(options.id)
    if known.entry_point is None:
        raise UserError(f"{options.id} exists only as a vector environment; set env.vector = 'gymnasium'")
    creator = _creator(known, known.entry_point)
    kwargs = dict(options.kwargs)
    modes = getattr(creator, "metadata", {})
    if isinstance(modes, dict) and "ansi" in modes.get("render_modes", ()) and _accepts(creator, "render_mode"):
        kwargs.setdefault("render_mode", known.kwargs.get("render_mode", "ansi"))
    limit = options.max_episode_steps or None
    return _call(gymnasium.make, known, options, max_episode_steps=limit, disable_env_checker=True, **kwargs)


def _from_factory(options: Options) -> gymnasium.Env:
    env = discover.by_path(options.factory)(**options.kwargs)
    if not isinstance(env, gymnasium.Env):
        hint = "; set env.vector = 'gymnasium'" if isinstance(env, VectorEnv) else ""
        raise UserError(f"{options.factory} gave {type(env).__name__}, which is no gymnasium.Env{hint}")
    return gymnasium.wrappers.TimeLimit(env, options.max_episode_steps) if options.max_episode_steps else env


def _creator(known: EnvSpec, entry_point: Any) -> Callable:
    """What an entry point names. Loading it is where packages turn out to be missing."""
    try:
        return load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
    except DependencyNotInstalled as error:
        raise _missing(known, error) from error
    except ModuleNotFoundError as error:
        raise UserError(f"{known.id} needs the module {error.name!r}: pip install {error.name}") from error


def _call(make: Callable, known: EnvSpec, options: Options, **arguments: Any) -> Any:
    """gymnasium.make or make_vec. The order of calls is ours to keep, so the wrapper that checks it is left out; an
    entry instead of an id keeps Gymnasium from warning about versions, since the one that was asked for is meant."""
    try:
        return make(replace(known, order_enforce=False), **arguments)
    except DependencyNotInstalled as error:
        raise _missing(known, error) from error
    except TypeError as error:
        if not options.kwargs or "argument" not in str(error):
            raise
        raise UserError(f"{known.id} cannot be made with env.kwargs = {options.kwargs}: {error}") from error


def _missing(known: EnvSpec, error: DependencyNotInstalled) -> UserError:
    if str(known.entry_point).startswith("gymnasium.envs.box2d"):
        return MissingExtra("box2d", known.id)
    return UserError(f"{known.id}: {' '.join(str(error).split())}")


def _accepts(creator: Callable, key: str) -> bool:
    try:
        return key in inspect.signature(creator).parameters
    except (TypeError, ValueError):  # a builtin has no signature to read
        return False
