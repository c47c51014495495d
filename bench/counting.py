"""What is counted from outside while a rival trains: env steps, updates and rows sampled, the time between the first
and the last update, and the weights on the way. Knows no rival; needs NumPy only."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

Mark = tuple[float, int, int, int]  # seconds, env steps, updates, rows sampled


class Window:
    """The learning phase of one run: from the end of the first update to the end of the last."""

    def __init__(self, work: Mapping[str, Any], weights: Callable[[], np.ndarray] | None = None) -> None:
        """work: the terms of the comparison. weights: the network as it is now, [P] in PyTorch's order."""
        self.env_steps = self.updates = self.samples = 0
        self.first: Mark | None = None
        self.last: Mark = (0.0, 0, 0, 0)
        self.cpu_first = self.cpu_last = 0.0
        self.weights = weights
        self.grain = work.get("updates_at_once", 1)
        self.only_first = work.get("only_first_update", False)
        self.every = work.get("snapshot_every_env_steps", 0)
        self.snapshots: list[tuple[int, float, float, np.ndarray]] = []  # env steps, training s, monotonic s, weights
        self.began, self.kept_s = time.perf_counter(), 0.0

    def sampled(self, rows: int) -> None:
        self.samples += rows

    def updated(self, updates: int = 1) -> None:
        """Some updates have been made; the env steps and rows that they rest on have been counted before."""
        self.updates += updates
        if self.only_first:
            raise FirstUpdate
        if self.updates % self.grain:
            return  # so that a window holds whole cycles: env steps, and all the updates that they pay for
        self.last, self.cpu_last = (
            (time.perf_counter(), self.env_steps, self.updates, self.samples),
            time.process_time(),
        )
        if self.first is None:
            self.first, self.cpu_first = self.last, self.cpu_last
        if self.every and self.env_steps // self.every > len(self.snapshots):
            self.keep()

    def keep(self) -> None:
        """A copy of the weights; the time that it takes is not training time."""
        assert self.weights
        now = time.perf_counter()
        seconds = now - self.began - self.kept_s
        self.snapshots.append((self.env_steps, seconds, time.monotonic(), self.weights().astype(np.float32)))
        self.kept_s += time.perf_counter() - now

    def report(self) -> dict[str, Any]:
        """What a rival answers."""
        assert self.first is not None, "no update was seen"
        seconds, env_steps, updates, samples = (b - a for a, b in zip(self.first, self.last, strict=True))
        return {
            "env_steps_per_s": env_steps / seconds,
            "updates_per_s": updates / seconds,
            "env_steps": env_steps,
            "updates": updates,
            "seconds": seconds,
            "samples_per_step": samples / env_steps,
            "cores": (self.cpu_last - self.cpu_first) / seconds,
            "weights": packed(self.weights()) if self.weights else "",
            "snapshots": [(n, s, at, packed(w)) for n, s, at, w in self.snapshots],
        }


def packed(weights: np.ndarray) -> str:
    """[P] float32 as text."""
    return base64.b64encode(np.ascontiguousarray(weights, np.float32).tobytes()).decode()


def unpacked(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), np.float32)


def transposed(params: np.ndarray, sizes: Sequence[int], layer_norm: bool = False) -> list[np.ndarray]:
    """[P] in PyTorch's order (matrix [out, in], vector, and scale and shift of LayerNorm, layer by layer) -> the
    tensors, matrices as [in, out]."""
    out, at = [], 0
    for i, (size_in, size_out) in enumerate(pairwise(sizes)):
        norm = layer_norm and i < len(sizes) - 2
        for shape in ((size_out, size_in), (size_out,), *(((size_out,),) * 2 if norm else ())):
            count = int(np.prod(shape))
            out.append(params[at : at + count].reshape(shape).T)
            at += count
    assert at == len(params), f"{len(params)} weights where {at} were expected"
    return out


def in_order(tensors: Sequence[np.ndarray]) -> np.ndarray:
    """The inverse: matrices [in, out] and vectors -> [P]"""
    return np.concatenate([np.asarray(t).T.reshape(-1) for t in tensors])


class FirstUpdate(Exception):
    """The first update is done."""


def until_first_update(train: Callable[[dict[str, Any]], Any]) -> Callable[..., dict[str, Any]]:
    """A handler: train until the first update -> its moment on the monotonic clock, which all processes share."""

    def first_update(work: dict[str, Any]) -> dict[str, Any]:
        try:
            train({**work, "only_first_update": True})
        except FirstUpdate:
            return {"at": time.monotonic()}
        raise AssertionError("no update was seen")

    return first_update


def counting_rows(sample: Callable[..., Any], window: Window, rows: Callable[[Any], int]) -> Callable[..., Any]:
    """A replay's `sample`, which tells the window how many rows each call gave."""

    def counted(*args: Any, **kwargs: Any) -> Any:
        batch = sample(*args, **kwargs)
        window.sampled(rows(batch))
        return batch

    return counted


def counting_steps(step: Callable[..., Any], window: Window, env_steps: int) -> Callable[..., Any]:
    """An environment's `step`, which tells the window how many env steps each call is."""

    def counted(*args: Any, **kwargs: Any) -> Any:
        window.env_steps += env_steps
        return step(*args, **kwargs)

    return counted


def counting_updates(step: Callable[..., Any], window: Window) -> Callable[..., Any]:
    """An optimizer's `step`, which tells the window that an update is done."""

    def counted(*args: Any, **kwargs: Any) -> Any:
        out = step(*args, **kwargs)
        window.updated()
        return out

    return counted
