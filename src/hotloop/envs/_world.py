"""A workload's name → the world it means: a file of this folder, a Gymnasium id, or `module:factory`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from hotloop.core import discover
from hotloop.core.errors import UserError, unknown
from hotloop.core.options import from_dict
from hotloop.core.types import Arrays, BatchedEnv, EnvSpec, Goal, Policy

PACKAGE = "hotloop.envs"
ADAPTER = "gymnasium"  # the one file here that is not a world but a door to all others
FOREIGN = frozenset({ADAPTER, "atari", "mario"})  # worlds whose rules are in other people's code


@dataclass(frozen=True)
class World:
    """A module of this folder with its options bound."""

    workload: str
    module: ModuleType
    options: Any  # of module.Options
    processes: int = 0  # that step the lanes, each some of them; 0: as the world does it by itself

    @property
    def native(self) -> bool:
        """Whether its lanes are kernels of this package."""
        return self.module.__name__.rpartition(".")[2] not in FOREIGN

    def spec(self) -> EnvSpec:
        return self.module.spec(self.options)

    def make(self, lanes: int, first_lane: int = 0) -> BatchedEnv:
        if not self.processes:
            return self.module.make(self.options, lanes, first_lane)
        from hotloop.envs._processes import Spread  # here: listing worlds must not import the compiler

        return Spread(self.module.__name__, self.options, lanes, first_lane, min(self.processes, lanes))

    def alone(self) -> World:
        """The world as one of several processes steps it: with one thread, and no processes of its own."""
        once = {name: 1 for name in ("processes", "threads") if hasattr(self.options, name)}
        return replace(self, options=replace(self.options, **once))

    def apart(self, processes: int) -> World:
        """The world with its lanes in so many other processes."""
        return replace(self.alone(), processes=processes)

    def judged(self) -> World:
        """The world as an evaluation plays it."""
        if not hasattr(self.module, "judged"):
            return self
        return replace(self, options=self.module.judged(self.options))

    def words(self) -> tuple[Callable[[Any], Arrays | None], Callable[[int], Any]]:
        """(one observation in the environment's own words -> its parts, or None where it is none; action -> what its
        `step` takes)"""
        return self.module.words(self.options) if hasattr(self.module, "words") else (lambda obs: None, int)

    def goal(self) -> Goal | None:
        """What its goals are worth; None where it has none."""
        return self.module.goal(self.options) if hasattr(self.module, "goal") else None

    def heuristic(self, env: BatchedEnv) -> Policy:
        """The best simple policy that ships with the world, for the lanes of `env`, which it may look into."""
        if not hasattr(self.module, "heuristic"):
            raise UserError(f"{self.workload} ships no heuristic policy; use --policy random or a run")
        return self.module.heuristic(self.options, env)


def own_names() -> tuple[str, ...]:
    """The worlds that ship, emulators among them."""
    return tuple(n for n in discover.names(PACKAGE) if n not in (ADAPTER, "registration"))


def world(workload: str, options: Mapping[str, Any]) -> World:
    """Find the world and check its options. Constructs no environment. A world of many games, which names the option
    that chooses one in `ARGUMENT`, takes it after a slash: atari/pong."""
    name, slash, argument = workload.partition("/")
    if name in own_names():
        module = discover.load(PACKAGE, name)
        if slash:
            if not hasattr(module, "ARGUMENT"):
                raise UserError(f"unknown workload {workload!r}: {name} is one world, so nothing follows it")
            options = {**options, module.ARGUMENT: argument}
        return World(workload, module, from_dict(module.Options, options, "env."))
    module = discover.load(PACKAGE, ADAPTER)
    given = (
        {"factory": workload} if ":" in workload and "/" not in workload and not _is_id(workload) else {"id": workload}
    )
    if "id" in given and not _is_id(workload):
        _refuse(workload)
    return World(workload, module, from_dict(module.Options, {**options, **given}, "env."))


def _is_id(workload: str) -> bool:
    """Whether Gymnasium can know the name: it is registered, belongs to a namespace, or names its module."""
    import gymnasium

    if workload in gymnasium.registry or workload.startswith("ALE/"):
        return True
    module, colon, name = workload.partition(":")
    return bool(colon) and "-v" in name and bool(module)


def _refuse(workload: str) -> None:
    import gymnasium

    raise unknown("workload", workload, [*own_names(), *gymnasium.registry])
