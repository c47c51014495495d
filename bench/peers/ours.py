"""hotloop as a side of a comparison: whole runs, counted from outside the package, and single updates from given
weights on a given batch."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.counting import Window, until_first_update
from bench.measure import serve, versions
from hotloop import api, presets
from hotloop.aot import Job
from hotloop.config import TrainConfig, resolve
from hotloop.core.types import Block
from hotloop.learn.learner import Learner
from hotloop.learn.step import STATS
from hotloop.pipeline import Pipeline, build_network, fingerprint, total_updates
from hotloop.report.console import Quiet
from hotloop.run import RunFolder

APPLIED = STATS.index("applied")


def configured(preset: tuple[str, str], layer: Mapping[str, Any]) -> TrainConfig:
    """preset: (workload it belongs to, its name)."""
    return resolve(presets.preset(*preset), {"workload": preset[0]}, layer)


class Watch(Quiet):
    """Tells a window, once per cycle, what was written, what was gathered, and which updates were applied."""

    def __init__(self, work: Mapping[str, Any]) -> None:
        self.work = work
        self.window = Window(work)  # of nothing, until all is warm

    def ready(self, pipeline: Pipeline, env_steps: int) -> None:
        """Called when all is warm and step 1 comes next."""
        window = self.window = Window(self.work, lambda: pipeline.learner.params.numpy())
        write, gather, end = pipeline.store.write, pipeline.store.gather, pipeline.learner.end

        def counted_write(block: Block) -> None:
            write(block)
            window.env_steps += block.action.size

        def counted_gather(slots: np.ndarray, *args: Any) -> None:
            gather(slots, *args)
            window.sampled(slots.size)

        def counted_end(job: Job) -> tuple[np.ndarray, np.ndarray]:
            stats, priority = end(job)
            window.updated(int(stats[:, APPLIED].sum()))
            return stats, priority

        pipeline.store.write, pipeline.store.gather, pipeline.learner.end = counted_write, counted_gather, counted_end


def train(preset: tuple[str, str], layer: Mapping[str, Any], snapshot_every_env_steps: int = 0) -> dict[str, Any]:
    """One run -> its learning phase as the harness saw it, and the run's own summary."""
    watch = Watch({"snapshot_every_env_steps": snapshot_every_env_steps})
    summary = run(preset, layer, watch)
    return {
        **watch.window.report(),
        "summary": {k: v for k, v in summary.items() if k not in ("run", "machine", "versions")},
    }


def first_update(preset: tuple[str, str], layer: Mapping[str, Any]) -> dict[str, Any]:
    """The moment of the first updates, on the clock that all processes share."""
    return until_first_update(lambda work: run(preset, layer, Watch(work)))({})


def run(preset: tuple[str, str], layer: Mapping[str, Any], watch: Watch) -> dict[str, Any]:
    config = configured(preset, {**layer, "evaluate_episodes": 1})
    with tempfile.TemporaryDirectory() as folder:
        return api.start(config, RunFolder.create(Path(folder) / "run", config.workload, config.seed), watch)


def one_update(
    preset: tuple[str, str], layer: Mapping[str, Any], params: list[float], batch: Mapping[str, Any]
) -> dict[str, Any]:
    """One update from `params` [P], which are the target's too -> its loss, and the parameters after it."""
    config = configured(preset, layer)
    spec = config.world().spec()
    network = build_network(config, spec)
    learner = Learner(
        spec, network, config.variant["name"], config.variant_options(), config.learner,
        updates_per_cycle=1, total_updates=total_updates(config), fingerprint=fingerprint(config, spec, network),
        compile=True, threads=1,
    )  # fmt: skip
    learner.params = torch.tensor(params, dtype=torch.float32)
    learner.target = learner.params.clone()
    fill(learner, batch, config.learner.gamma)
    stats, _ = learner.update()
    return {"loss": float(stats[0, 0]), "params": learner.params.tolist()}


def fill(learner: Learner, batch: Mapping[str, Any], gamma: float) -> None:
    """Lists per transition -> the learner's room for one batch."""
    room = learner.batch
    assert room.action.shape == (1, len(batch["action"]))
    part = next(iter(room.obs))
    room.obs[part][0], room.next_obs[part][0] = batch["obs"], batch["next_obs"]
    room.action[0], room.reward[0] = batch["action"], batch["reward"]
    room.discount[0] = gamma * (1.0 - np.array(batch["terminated"], np.float32))
    room.weight[0] = 1.0


def about() -> dict[str, Any]:
    return {
        "versions": versions("hotloop", "torch", "numpy", "gymnasium"),
        "torch_threads": torch.get_num_threads(),
        "settings": "as a user starts it",
    }


if __name__ == "__main__":
    serve({"train": train, "first_update": first_update, "one_update": one_update, "about": about})
