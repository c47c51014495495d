"""Runs for the tests: small ones of every workload, in this process or in one that can be killed."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hotloop import api, checkpoint
from hotloop.config import TrainConfig, resolve
from hotloop.run import RunFolder

# Enough to fill the replay once, to move the target, and to see every kind of row; with two sizes of everything so
# that a mixed-up axis is seen.
SMALL: dict[str, dict[str, Any]] = {
    "identity": {"lanes": 4, "replay": {"capacity": 300}},
    "cartpole": {"lanes": 4, "replay": {"capacity": 400}},
    "snake": {"lanes": 8, "replay": {"capacity": 500, "n_step": 3}, "env": {"size": 5}},
    "CartPole-v1": {"lanes": 4, "replay": {"capacity": 400}},
}
BASE: dict[str, Any] = {
    "total_env_steps": 960,
    "samples_per_step": 4.0,
    "cycle_steps": 4,
    "learning_starts_env_steps": 128,
    "log_every_env_steps": 1,
    "evaluate_episodes": 8,
    "report": False,
    "compile": False,
    "network": {"name": "mlp", "hidden": [16]},
    "variant": {"name": "dqn", "double": True},
    "explore": {"start": 1.0, "end": 0.1, "decay_env_steps": 500},
    "learner": {"batch_size": 16, "target_every_updates": 7, "optimizer": {"learning_rate": 3e-3}},
}


class Rows:
    """A display that keeps what it is shown."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.rows: list[dict[str, Any]] = []
        self.began: int | None = None
        self.summary: dict[str, Any] = {}

    def note(self, text: str) -> None:
        self.notes.append(text)

    def ready(self, pipeline: Any, env_steps: int) -> None:
        self.began = env_steps

    def row(self, row: dict[str, Any]) -> None:
        self.rows.append(row)

    def finish(self, summary: dict[str, Any]) -> None:
        self.summary = summary


def config(workload: str, **options: Any) -> TrainConfig:
    return resolve(BASE, SMALL.get(workload, {}), {"workload": workload}, options)


def train(path: Path, workload: str, shown: Any = None, **options: Any) -> dict[str, Any]:
    """A whole run in this process -> its summary."""
    chosen = config(workload, **options)
    return api.start(chosen, RunFolder.create(path, workload, chosen.seed), shown or Rows())


def resume(path: Path, shown: Any = None, **options: Any) -> dict[str, Any]:
    folder = RunFolder.open(path).lock()
    return api.start(resolve(folder.read_config(), options), folder, shown or Rows(), resume=True)


def outcome(path: Path) -> tuple[str, str, list[Mapping[str, Any]]]:
    """All that two equal runs have in common: weights, every array of the last checkpoint, rows without clock."""
    folder = RunFolder.open(path)
    saved = checkpoint.load_latest(folder.checkpoints)
    clocks = ("seconds", "env_steps_per_s", "updates_per_s", "sections", "rss_mb")
    own = ("worker", "ring")  # of keys that only some collectors have
    rows = [
        {k: v for k, v in row.items() if k not in clocks and not k.startswith(own)} for row in folder.read_metrics()
    ]
    return folder.read_summary()["weights_sha256"], checkpoint.digest(saved.arrays), rows


def assert_same(path: Path, other: Path) -> None:
    """Two runs that ended the same, or the names of what did not."""
    mine, theirs = arrays(path), arrays(other)
    assert mine.keys() == theirs.keys()
    wrong = [name for name in mine if not np.array_equal(mine[name], theirs[name], equal_nan=True)]
    rows, others = outcome(path)[2], outcome(other)[2]
    first = next((pair for pair in zip(rows, others, strict=False) if pair[0] != pair[1]), None)
    assert (wrong, first, len(rows)) == ([], None, len(others)), f"{wrong} {first}"
    assert outcome(path) == outcome(other)


def arrays(path: Path) -> dict[str, np.ndarray]:
    return checkpoint.load_latest(path / "checkpoints").arrays


# --- runs that can be killed -----------------------------------------------------------------------------------------


class Told:
    """A display that tells another process how far the run is, and at `hold` env steps waits for its end."""

    def __init__(self, pipe: Any, hold: int) -> None:
        self.pipe, self.hold = pipe, hold

    def note(self, text: str) -> None: ...

    def ready(self, pipeline: Any, env_steps: int) -> None: ...

    def row(self, row: Mapping[str, Any]) -> None:
        self.pipe.send(row["env_steps"])
        if row["env_steps"] >= self.hold:
            self.pipe.recv()

    def finish(self, summary: Mapping[str, Any]) -> None: ...


def _job(pipe: Any, hold: int, path: Path, workload: str | None, options: dict[str, Any]) -> None:
    shown = Told(pipe, hold)
    if workload is None:
        resume(path, shown)
    else:
        train(path, workload, shown, **options)


def killed(
    path: Path, at: int, number: int, workload: str | None = None, slack: int = 300, **options: Any
) -> multiprocessing.process.BaseProcess:
    """Train (or, without a workload, resume) in another process, and send it a signal once it is `at` env steps far.
    It goes on meanwhile, so the signal hits whatever instruction it hits; `slack` env steps later it would wait."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.running_warm"])
    ours, theirs = context.Pipe()
    process = context.Process(target=_job, args=(theirs, at + slack, path, workload, options))
    process.start()
    theirs.close()
    while ours.recv() < at:
        pass
    os.kill(process.pid or 0, number)
    ours.send(None)  # one that ends its cycle need not wait
    process.join(60)
    ours.close()
    return process
