"""Small learners and the batches they are fed, the same for the same seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hotloop.core.types import Arrays, Batch, EnvSpec, Field
from hotloop.learn.learner import Learner, Options
from hotloop.learn.variants._base import chosen
from hotloop.networks._build import build

VECTOR = EnvSpec("toy", (Field("obs", (5,), "float32"),), num_actions=4, masked=True)
UNMASKED = EnvSpec("toy", VECTOR.observation, num_actions=4)
PIXELS = EnvSpec("pixels", (Field("obs", (20, 20), "uint8", stack=3, scale=1 / 255),), num_actions=3, masked=True)
TWO_PARTS = EnvSpec(
    "parts", (Field("a", (5,), "float32"), Field("b", (2,), "uint8", scale=0.1)), num_actions=3, masked=True
)
SMALL_CNN = {"channels": [8, 8], "kernels": [4, 3], "strides": [3, 2], "features": 32}


def learner(
    spec: EnvSpec = VECTOR,
    *,
    network: str = "mlp",
    network_options: Mapping[str, Any] | None = None,
    head: str = "dueling",
    variant: str = "dqn",
    variant_options: Mapping[str, Any] | None = None,
    options: Options | None = None,
    updates: int = 8,
    total: int = 1000,
    compile: bool = False,
    seed: int = 0,
    noisy_sigma: float = 0.0,
) -> Learner:
    if network_options is None:
        network_options = {"hidden": [32]} if network == "mlp" else {}
    outputs = chosen(variant, variant_options or {}).outputs
    built = build(spec, network, network_options, head, seed, outputs, noisy_sigma)
    mark = repr((spec, network, network_options, head, outputs, noisy_sigma))
    made = Learner(
        spec,
        built,
        variant,
        variant_options or {},
        options or Options(batch_size=16),
        updates_per_cycle=updates,
        total_updates=total,
        fingerprint=mark,
        compile=compile,
        threads=1,
        seed=seed,
    )
    # A program that could not be compiled runs eagerly, and a comparison of eager with eager would pass.
    assert made.program.origin in (("compiled", "cache") if compile else ("eager",)), made.program.note
    return made


def batches(spec: EnvSpec, updates: int, size: int, seed: int = 0) -> Batch:
    """[U, B, …]: n-step discounts, some rows terminal, weights that differ, masks with at least one legal action."""
    rng = np.random.default_rng(seed)
    shape = (updates, size)
    steps = rng.integers(1, 4, shape)
    ended = rng.random(shape) < 0.2
    mask = rng.random((*shape, spec.num_actions)) < 0.6
    np.put_along_axis(mask, rng.integers(0, spec.num_actions, (*shape, 1)), True, -1)
    mask[ended] = True
    next_obs = _observations(rng, spec, shape)
    for part in next_obs.values():
        part[ended] = 0
    made = Batch(
        obs=_observations(rng, spec, shape),
        action=rng.integers(0, spec.num_actions, shape),
        reward=(2 * rng.standard_normal(shape)).astype(np.float32),
        discount=np.where(ended, 0.0, 0.97**steps).astype(np.float32),
        next_obs=next_obs,
        next_mask=mask if spec.masked else None,
        weight=rng.uniform(0.2, 1.0, shape).astype(np.float32),
    )
    if spec.masked:
        made.mask = rng.random((*shape, spec.num_actions)) < 0.6
        np.put_along_axis(made.mask, made.action[..., None], True, -1)
    return made


def _observations(rng: np.random.Generator, spec: EnvSpec, shape: tuple[int, int]) -> Arrays:
    return {
        f.name: rng.integers(0, 256, (*shape, *f.seen)).astype(np.uint8)
        if f.dtype == "uint8"
        else rng.standard_normal((*shape, *f.seen)).astype(f.dtype)
        for f in spec.observation
    }


def rows(batch: Batch, first: int, count: int) -> Batch:
    """Updates first … first+count-1."""
    cut = slice(first, first + count)
    return Batch(
        obs={k: v[cut] for k, v in batch.obs.items()},
        action=batch.action[cut],
        reward=batch.reward[cut],
        discount=batch.discount[cut],
        next_obs={k: v[cut] for k, v in batch.next_obs.items()},
        next_mask=None if batch.next_mask is None else batch.next_mask[cut],
        weight=batch.weight[cut],
        mask=None if batch.mask is None else batch.mask[cut],
    )


def fill(into: Batch, source: Batch) -> None:
    for name in ("action", "reward", "discount", "weight"):
        getattr(into, name)[:] = getattr(source, name)
    for name in into.obs:
        into.obs[name][:] = source.obs[name]
        into.next_obs[name][:] = source.next_obs[name]
    if into.next_mask is not None and source.next_mask is not None:
        into.next_mask[:] = source.next_mask
    if into.mask is not None and source.mask is not None:
        into.mask[:] = source.mask


def feed(learner: Learner, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """All updates of `batch`, cycle by cycle -> stats [U, 4], priority [U, B]."""
    total, each = batch.action.shape[0], learner.batch.action.shape[0]
    assert total % each == 0
    stats, priority = [], []
    for first in range(0, total, each):
        fill(learner.batch, rows(batch, first, each))
        s, p = learner.update()
        stats.append(s.copy())
        priority.append(p.copy())
    return np.concatenate(stats), np.concatenate(priority)
