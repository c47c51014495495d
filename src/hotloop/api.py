"""The Python door: train a workload, load a run, act with it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

import hotloop
from hotloop import outcome, presets
from hotloop import seeds as group
from hotloop.collect.policies import Greedy
from hotloop.config import TrainConfig, resolve
from hotloop.core.errors import UserError
from hotloop.core.options import shown
from hotloop.core.types import Arrays, BatchedEnv, Policy
from hotloop.evaluate import Played, evaluation_seed, play
from hotloop.networks._flat import layout_of
from hotloop.pipeline import build_forward, build_network, fingerprint
from hotloop.report.console import display
from hotloop.run import RunFolder
from hotloop.train import train as train_run


def configure(workload: str, preset: str, *layers: Mapping[str, Any]) -> TrainConfig:
    """Preset, then the layers in their order; later ones win."""
    for layer in layers:
        if layer.get("workload", workload) != workload:  # in a file, as a rule
            other = shown(layer["workload"])
            raise UserError(f"the options are for workload {other}, not for {workload!r}; name one of them")
    return resolve(presets.preset(workload, preset), {"workload": workload}, *layers)


def train(
    workload: str,
    *,
    preset: str = "default",
    run: str | os.PathLike[str] | None = None,
    quiet: bool = False,
    **options: Any,
) -> Agent:
    """Train a DQN and give back the agent; everything about it stands in its run folder.

    workload: a native world ("snake"), a Gymnasium id ("CartPole-v1") or "module:factory".
    options: any option of the config, groups as dicts: total_env_steps=50_000, learner={"batch_size": 128}.
    """
    config = configure(workload, preset, options)
    folder = RunFolder.create(Path(run) if run else None, config.workload, config.seed)
    start(config, folder, display(quiet, json=False))
    return load(folder.path)


def train_seeds(
    workload: str,
    seeds: int,
    *,
    preset: str = "default",
    run: str | os.PathLike[str] | None = None,
    quiet: bool = False,
    **options: Any,
) -> list[Agent]:
    """As `train`, for so many seeds at once in this process, from option `seed` on; each is what it would be alone."""
    if seeds < 2:
        raise UserError(f"seeds = {seeds}: two or more train at once; hotloop.train is for one")
    config = configure(workload, preset, options)
    folder = group.SeedsFolder.create(Path(run) if run else None, config, seeds)
    start_seeds(group.spread(config, seeds), folder, display(quiet, json=False))
    return [load(one.path) for one in folder.runs]


def start(config: TrainConfig, folder: RunFolder, shown: Any, resume: bool = False) -> dict[str, Any]:
    """Train into a folder that is open, and leave it in order whatever happens."""
    try:
        summary = train_run(config, folder, shown, resume)
        if config.report:
            _report([folder.path], shown)
        return summary
    finally:
        if hasattr(shown, "close"):
            shown.close()
        folder.close()
        folder.drop_if_empty()  # what could not be built leaves nothing behind


def start_seeds(configs: Sequence[TrainConfig], folder: group.SeedsFolder, shown: Any, resume: bool = False) -> Any:
    """Train several seeds at once into a folder that is open, and leave it in order whatever happens."""
    try:
        summary = group.train(configs, folder, shown, resume)
        if configs[0].report:
            _report([run.path for run in folder.runs], shown, folder.path / outcome.REPORT)
        return summary
    finally:
        if hasattr(shown, "close"):
            shown.close()
        folder.close()


def _report(folders: list[Path], shown: Any, out: Path | None = None) -> None:
    """The page about a run or several, which the runs do not depend on."""
    from hotloop.report import html  # not before the run: it reads what there is to draw with

    try:
        html.write(folders, out)
    except (OSError, UserError) as why:
        again = " ".join(map(str, folders))
        shown.note(f"no report.html: {' '.join(str(why).split())}; try again with: hotloop report {again}")


def load(run: str | os.PathLike[str]) -> Agent:
    """The agent of a run, from its folder."""
    folder = RunFolder.open(Path(run))
    config = resolve(folder.read_config())
    return Agent(config, folder)


class Agent:
    """A trained network and the environment it was made for."""

    def __init__(self, config: TrainConfig, folder: RunFolder) -> None:
        self.config, self.path = config, folder.path
        self.world = config.world()
        self.spec = self.world.spec()
        torch.set_num_threads(config.threads)
        network = build_network(config, self.spec)
        layout = layout_of(network)
        weights = _weights(folder.weights, layout)
        forward = build_forward(config, self.spec, network, fingerprint(config, self.spec, network))
        self._greedy = Greedy(self.spec, forward, weights, layout.noise_size)
        self._parts, self._action = self.world.words()
        self._folder = folder

    @property
    def summary(self) -> dict[str, Any]:
        """What the run came to: summary.json."""
        return self._folder.read_summary()

    def policy(self, env: BatchedEnv) -> Policy:
        """What plays greedily in any number of lanes."""
        return self._greedy

    def act(self, obs: Any, mask: Any = None) -> Any:
        """The best legal action for one observation -> what the environment's `step` takes; for a batch of them
        [N, …] -> [N] int32, actions 0 … A-1. An observation is what the environment gives, or a dict of the parts that
        `spec` names; stacked frames come stacked."""
        parts, batched = self._batch(obs)
        lanes = len(next(iter(parts.values())))
        if mask is not None:
            mask = np.asarray(mask, np.bool_)
            if mask.size != lanes * self.spec.num_actions:
                raise UserError(
                    f"mask has shape {mask.shape}; expected one flag for each of {self.spec.num_actions} actions"
                )
            mask = mask.reshape(lanes, self.spec.num_actions)
            if not mask.any(1).all():
                raise UserError("mask allows no action")
        actions = self._greedy(parts, mask)
        return actions if batched else self._action(int(actions[0]))

    def values(self, obs: Any) -> np.ndarray:
        """Q-values: [A] for one observation, [N, A] for a batch."""
        parts, batched = self._batch(obs)
        q = self._greedy.values(parts)
        return q if batched else q[0]

    def evaluate(self, episodes: int = 100, seed: int = 0) -> Played:
        """Play greedily, on episodes that training never saw. The run's own seed gives those of its summary."""
        return play(self.world, self.policy, episodes, evaluation_seed(seed))

    def _batch(self, obs: Any) -> tuple[Arrays, bool]:
        """Any observation -> parts [N, *seen], and whether it was a batch."""
        own = self._parts(obs)
        if own is not None:
            obs = own
        elif isinstance(obs, Mapping):
            obs = dict(obs)
        else:
            obs = {self.spec.observation[0].name: obs}
        batched = False
        for f in self.spec.observation:
            if f.name not in obs:
                raise UserError(f"observation has no part {f.name!r}; {self.spec.name} has {list(obs)}")
            try:
                array = np.asarray(obs[f.name], f.dtype)
            except (TypeError, ValueError, OverflowError):
                raise UserError(f"observation {f.name!r} is no array of {f.dtype}: {shown(obs[f.name])}") from None
            if array.shape != f.seen and array.shape[1:] != f.seen:
                raise UserError(f"observation {f.name!r} has shape {array.shape}; expected {f.seen} or (N, …)")
            batched = array.shape != f.seen
            obs[f.name] = array if batched else array[None]
        if len({len(obs[f.name]) for f in self.spec.observation}) > 1:
            raise UserError("the parts of the observation are batches of different sizes")
        return obs, batched


def _weights(path: Path, layout: Any) -> torch.Tensor:
    """[P] from the file, checked against the network it is for."""
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as why:
        raise UserError(f"{path} cannot be read ({why}); finish the run with: hotloop resume {path.parent}") from None
    shapes = {name: tuple(t.shape) for name, t in tensors.items()}
    if shapes != dict(zip(layout.names, layout.shapes, strict=True)):
        raise UserError(f"{path} holds another network than the run's config.toml describes")
    return layout.flat([tensors[name] for name in layout.names])


# Importing hotloop/train.py has put that module under the name by which users know the function.
hotloop.train = train
