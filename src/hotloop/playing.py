"""`hotloop eval` and `hotloop play`: episodes with a policy, shown and summed up."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hotloop.collect.policies import Random
from hotloop.core.errors import MissingExtra, UserError
from hotloop.core.types import BatchedEnv
from hotloop.envs._world import World, world
from hotloop.evaluate import Played, evaluation_seed, interval, play

FRAME_S = 0.08  # between two frames on a terminal, and of a film
LONGEST_FILM = 2_000  # frames


def evaluate_run(path: str, episodes: int, seed: int, render: bool, as_json: bool) -> int:
    from hotloop import api

    agent = api.load(path)
    played = _played(agent.world, agent.policy, episodes, seed, render)
    _show(f"{agent.config.workload}, greedy, weights of {path}", played, as_json)
    return 0


def play_workload(
    workload: str, env: Mapping[str, Any], policy: str, episodes: int, seed: int, render: bool, gif: str | None,
    as_json: bool,
) -> int:  # fmt: skip
    film = Film(gif) if gif else None
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
    _show(f"{workload}, policy {policy}", _played(found, chosen, episodes, seed, render, film), as_json)
    if film:
        film.write()
    return 0


def _played(found: World, policy: Any, episodes: int, seed: int, render: bool, film: Film | None = None) -> Played:
    show = film.take if film else _screen() if render else None
    return play(found, policy, episodes, evaluation_seed(seed), lanes=1 if show else 0, show=show)


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


class Film:
    """Pictures of lane 0, from the first one on, as an animated GIF."""

    def __init__(self, path: str) -> None:
        try:
            from PIL import Image
        except ImportError:
            raise MissingExtra("gif", "--gif") from None
        if not path.lower().endswith(".gif"):
            raise UserError(f"--gif {path}: the name has to end in .gif")
        if not (folder := Path(path).parent).is_dir():
            raise UserError(f"--gif {path}: no folder {folder}")
        self._path, self._image, self._frames = path, Image, []

    def take(self, env: BatchedEnv) -> None:
        if not hasattr(env, "picture"):
            raise UserError(f"{env.spec.name} shows itself as text only; use --render in place of --gif")
        if len(self._frames) < LONGEST_FILM:
            # 64 colours of its own per frame: no world has more that matter, and a film is kept in memory.
            self._frames.append(self._image.fromarray(env.picture(0)).quantize(64))

    def write(self) -> None:
        first, *rest = self._frames
        first.save(self._path, save_all=True, append_images=rest, duration=round(1000 * FRAME_S), loop=0)
        print(f"{self._path}: {len(self._frames)} frames", file=sys.stderr)


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
