"""hotloop as a side of a comparison: whole runs, counted from outside the package, and single updates from given
weights on a given batch."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

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
    """Counts env steps written and updates applied, and takes the time, once per cycle."""

    def __init__(self) -> None:
        self.env_steps = self.updates = 0
        self.first: tuple[float, int, int] | None = (
            None  # (seconds, env steps, updates) when the first updates were done
        )
        self.last = (0.0, 0, 0)

    def ready(self, pipeline: Pipeline, env_steps: int) -> None:
        """Called when all is warm and step 1 comes next."""
        write, end = pipeline.store.write, pipeline.learner.end

        def counted_end(job: Job) -> tuple[np.ndarray, np.ndarray]:
            stats, priority = end(job)
            self.updates += int(stats[:, APPLIED].sum())
            return stats, priority

        def counted_write(block: Block) -> None:
            write(block)
            self.env_steps += block.action.size
            if self.updates:
                self.last = (time.perf_counter(), self.env_steps, self.updates)
                self.first = self.first or self.last

        pipeline.store.write, pipeline.learner.end = counted_write, counted_end


def train(preset: tuple[str, str], layer: Mapping[str, Any]) -> dict[str, Any]:
    """One run -> its learning phase as the harness saw it, and the run's own summary."""
    config = configured(preset, {**layer, "evaluate_episodes": 1})
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", config.workload, config.seed)
        summary = api.start(config, run, watch)
    assert watch.first is not None
    seconds, env_steps, updates = (b - a for a, b in zip(watch.first, watch.last, strict=True))
    return {
        "env_steps_per_s": env_steps / seconds,
        "env_steps": env_steps,
        "updates": updates,
        "seconds": seconds,
        "samples_per_step": updates * config.learner.samples_per_update / env_steps,
        "summary": {k: v for k, v in summary.items() if k not in ("run", "machine", "versions")},
    }


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
    return {"versions": versions("hotloop", "torch", "numpy", "gymnasium"), "torch_threads": torch.get_num_threads()}


if __name__ == "__main__":
    serve({"train": train, "one_update": one_update, "about": about})
