"""`hotloop eval` and `hotloop play`: episodes with a policy, shown and summed up."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hotloop.collect.policies import Random
from hotloop.core.errors import UserError
from hotloop.core.types import BatchedEnv
from hotloop.envs._world import World, world
from hotloop.evaluate import Played, evaluation_seed, interval, play

FRAME_S = 0.08  # between two frames on a terminal


def evaluate_run(path: str, episodes: int, seed: int, render: bool, as_json: bool) -> int:
    from hotloop import api

    agent = api.load(path)
    played = _played(agent.world, agent.policy, episodes, seed, render)
    _show(f"{agent.config.workload}, greedy, weights of {path}", played, as_json)
    return 0


def play_workload(
    workload: str, env: Mapping[str, Any], policy: str, episodes: int, seed: int, render: bool, as_json: bool
) -> int:
    if policy in ("random", "heuristic"):
        found = world(workload, env)
        chosen = (lambda env: Random(env.spec, env.lanes, seed)) if policy == "random" else found.heuristic
    else:
        from hotloop import api

        agent = api.load(policy)
        if agent.config.workload != workload:
            raise UserError(f"{policy} is a run of {agent.config.workload}, not of {workload}")
        found, chosen = (world(workload, {**agent.config.env, **env}) if env else agent.world), agent.policy
        if found.spec().observation != agent.spec.observation:
            raise UserError(f"{policy} was trained on other observations than these --env options give")
    _show(f"{workload}, policy {policy}", _played(found, chosen, episodes, seed, render), as_json)
    return 0


def _played(found: World, policy: Any, episodes: int, seed: int, render: bool) -> Played:
    return play(
        found, policy, episodes, evaluation_seed(seed), lanes=1 if render else 0, show=_screen() if render else None
    )


def _screen() -> Callable[[BatchedEnv], None]:
    """Draws lane 0: in place on a terminal, one frame after another elsewhere."""
    terminal = sys.stdout.isatty()

    def show(env: BatchedEnv) -> None:
        frame = env.render(0)
        sys.stdout.write(f"\x1b[H\x1b[2J{frame}\n" if terminal else f"{frame}\n\n")
        sys.stdout.flush()
        if terminal:
            time.sleep(FRAME_S)

    return show


def _show(title: str, played: Played, as_json: bool) -> None:
    """Mean and 95 % interval of return, length and each measure."""
    rows = {"return": played.returns, "length": played.lengths.astype(float), **played.measures}
    figures = {}
    for name, values in rows.items():
        known = values[np.isfinite(values)]
        if len(known):
            figures[name] = [float(known.mean()), *interval(known), float(known.max())]
    if as_json:
        print(json.dumps({"title": title, "episodes": played.episodes, "unfinished": played.unfinished, **figures}))
        return
    print(f"{title}: {played.episodes} episodes")
    for name, (mean, low, high, best) in figures.items():
        digits = 0 if mean == 0 else max(0, 3 - math.floor(math.log10(abs(mean))))
        print(f"  {name:<18} {mean:.{digits}f}  [{low:.{digits}f}, {high:.{digits}f}]  best {best:.{digits}f}")
    if played.unfinished:
        print(f"  {played.unfinished} episodes did not end and are counted as they stood")
