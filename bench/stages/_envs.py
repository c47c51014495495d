"""Environments alone: ours on one core against rivals on as many as they take, played at random."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from bench.measure import Row, interleaved, ratios
from bench.stages._rivals import Rivals, absent_row


def native(world: str, lanes: int, batched_steps: int, **options: Any) -> Callable[[], float]:
    """→ env steps/s of one of our worlds, with the drawing of actions."""
    import numpy as np

    from hotloop.collect.act import lane_keys, random_legal
    from hotloop.core import discover
    from hotloop.core.random import POLICY
    from hotloop.core.schema import new_steps

    module = discover.load("hotloop.envs", world)
    env = module.make(module.Options(**options), lanes)
    out, keys, no_mask = new_steps(env.spec, lanes), lane_keys(1, POLICY, lanes), np.ones((1, 1), np.bool_)
    actions = np.empty(lanes, np.int32)
    env.reset(1, out)

    def play() -> float:
        began = time.perf_counter()
        for t in range(batched_steps):
            random_legal(no_mask, False, env.spec.num_actions, keys, t, actions)
            env.step(actions, out)
        return batched_steps * lanes / (time.perf_counter() - began)

    play()  # compile
    return play


def compare(
    ours: Mapping[str, Callable[[], float]],
    theirs: Mapping[str, tuple[str, dict[str, Any]]],
    bounds: Mapping[str, tuple[float | None, float | None]],
    repeats: int,
) -> tuple[dict[str, Any], list[Row]]:
    """ours: label -> play. theirs: label -> (rival, what it is asked). bounds: rival -> what the ratio of each of ours
    to the faster of that rival's ways must and should be."""
    with Rivals(list(dict.fromkeys(rival for rival, _ in theirs.values()))) as rivals:
        sides: dict[str, Callable[[], Any]] = dict(ours)
        for label, (rival, request) in theirs.items():
            sides[label] = lambda rival=rival, request=request: rivals.ask(rival, "play", **request)
            sides[label]()  # compile, where it has to
        found = interleaved(sides, repeats)
    rows = []
    speeds = {label: tuple(found[label]) for label in ours}
    cores = {}
    for label, (rival, _) in theirs.items():
        if rival not in rivals.absent:
            speeds[label] = tuple(run["env_steps_per_s"] for run in found[label])
            cores[label] = sum(run["cores"] for run in found[label]) / len(found[label])
    for rival, bound in bounds.items():
        ways = [speeds[label] for label, (name, _) in theirs.items() if name == rival and label in speeds]
        labels = [label for label, (name, _) in theirs.items() if name == rival]
        for label in ours:
            what = f"env steps/s, {label} / {' or '.join(labels)}"
            if ways:
                best = [max(values) for values in zip(*ways, strict=True)]
                rows.append(Row(what, "×", ratios(speeds[label], best), "more", *bound))
            else:
                rows.append(absent_row(what, "×", rivals.absent[rival], *bound))
    for label, values in speeds.items():
        note = f"{cores[label]:.2g} cores" if label in cores else ""
        rows.append(Row(label, "env steps/s", values, note=note))
    return {"asked": {k: v for k, (_, v) in theirs.items()}, "rivals": rivals.about, "absent": rivals.absent}, rows
