"""Worker processes without a learner: blocks with random actions, as fast as they come."""

from __future__ import annotations

import time
from typing import Any

import numpy as np


def collector(workload: str, workers: int, lanes: int, steps: int, env: dict[str, Any] | None = None) -> Any:
    """Workers in lockstep on any workload, exploring all the time."""
    import torch

    from hotloop import aot
    from hotloop.collect.workers import Recipe, Workers, Zygote
    from hotloop.config import resolve
    from hotloop.core.options import to_dict
    from hotloop.networks._flat import initial
    from hotloop.pipeline import build_network
    from hotloop.trace import Trace

    torch.set_num_threads(1)
    layer = {"workload": workload, "lanes": lanes, "workers": workers, "cycle_steps": steps, "env": env or {}}
    pixels = {} if workload == "CartPole-v1" else {"network": {"name": "nature_cnn"}}
    config = resolve({**layer, "samples_per_step": 64 / steps / lanes, "explore": {"start": 1.0, "end": 1.0}, **pixels})
    spec = config.world().spec()
    params = initial(build_network(config, spec))
    recipe = Recipe("hotloop.acting:acting", spec, {"config": to_dict(config), "compile": False, "steps": steps})
    made = Workers(
        Zygote(aot.cache_folder()), recipe, config.collect, workers=workers, lanes=lanes, steps=steps,
        params=params.numel(), seed=0, trace=Trace(1024),
    )  # fmt: skip
    made.warm(params)
    made.params = params
    return made


def cycles(made: Any, count: int) -> tuple[float, np.ndarray, np.ndarray]:
    """-> seconds, actions [count * T, N], terminated [count * T, N]"""
    actions, ended = [], []
    began = time.perf_counter()
    for _ in range(count):
        made.publish(made.params)
        block = made.next_block()
        actions.append(block.action.copy())
        ended.append(block.terminated.copy())
    return time.perf_counter() - began, np.concatenate(actions), np.concatenate(ended)
