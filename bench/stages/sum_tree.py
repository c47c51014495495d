"""Prioritized sampling of 64 batches of 256 from 1,000,000 entries, slots and weights: ours, all at once, against the
same tree in Python, draw by draw, and in NumPy, batch by batch and all at once. One process, round by round."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.measure import Row, interleaved, ratios, stage

ENTRIES, LANES, UPDATES, BATCH = 1_000_000, 100, 64, 256
BETA = 0.4


class NumPyTree:
    """The textbook's: an array as a heap, new sums on the way up, one descent per draw."""

    def __init__(self, leaves: np.ndarray, seed: int) -> None:
        self.half = 1 << (len(leaves) - 1).bit_length()
        self.sums = np.zeros(2 * self.half)
        self.sums[self.half : self.half + len(leaves)] = leaves
        width = self.half // 2
        while width:
            self.sums[width : 2 * width] = (
                self.sums[2 * width : 4 * width : 2] + self.sums[2 * width + 1 : 4 * width : 2]
            )
            width //= 2
        self.rng = np.random.default_rng(seed)

    def targets(self, updates: int) -> np.ndarray:
        """[U, B], one from each part of the sum"""
        return (np.arange(BATCH) + self.rng.random((updates, BATCH))) * (self.sums[1] / BATCH)

    def find(self, targets: np.ndarray) -> np.ndarray:
        """All descents side by side, level by level."""
        targets, nodes = targets.copy(), np.ones(targets.shape, np.int64)
        for _ in range(self.half.bit_length() - 1):
            nodes *= 2
            left = self.sums[nodes]
            right = targets >= left
            targets -= left * right
            nodes += right
        return nodes

    def find_one(self, target: float) -> int:
        sums, half, node = self.sums, self.half, 1
        while node < half:
            node *= 2
            left = sums[node]
            if target >= left:
                target -= left
                node += 1
        return node

    def weights(self, nodes: np.ndarray) -> np.ndarray:
        found = self.sums[nodes]
        return ((found.min(axis=-1, keepdims=True) / found) ** BETA).astype(np.float32)

    def choose(self, updates: int) -> tuple[np.ndarray, np.ndarray]:
        nodes = self.find(self.targets(updates))
        return nodes - self.half, self.weights(nodes)

    def choose_by_batches(self) -> None:
        for _ in range(UPDATES):
            self.choose(1)

    def choose_by_draws(self) -> None:
        for _ in range(UPDATES):
            nodes = np.array([[self.find_one(t) for t in self.targets(1)[0]]])
            self.weights(nodes)


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    from hotloop.replay import sum_tree
    from hotloop.replay.samplers import prioritized
    from hotloop.replay.store import Window

    per_lane = ENTRIES // LANES
    options = prioritized.Options(alpha=1.0, beta=BETA, beta_end=BETA)
    sampler: Any = prioritized.make(options, LANES, per_lane + 1, 1)
    window = Window(LANES, per_lane + 1, 0, per_lane, 0)
    sampler.written(window)
    slots, weight = np.zeros((UPDATES, BATCH), np.int64), np.zeros((UPDATES, BATCH), np.float32)
    every = (np.arange(LANES)[:, None] * (per_lane + 1) + np.arange(per_lane)).reshape(1, -1)
    sampler.choose(window, 0, 0, slots, weight)
    sampler.learned(every, np.random.default_rng(0).gamma(1.0, size=every.shape).astype(np.float32))
    leaves = sampler.state()["leaf"].reshape(-1)[:ENTRIES]
    theirs = NumPyTree(leaves, 1)

    targets = theirs.targets(UPDATES)
    nodes = np.zeros(targets.size, np.int64)
    sum_tree.find(sampler._tree, targets.reshape(-1).copy(), nodes)
    assert (nodes.reshape(targets.shape) == theirs.find(targets)).all(), "the same targets, other leaves"
    assert [theirs.find_one(t) for t in targets[0]] == nodes[:BATCH].tolist()
    sampler.choose(window, 0, 0, slots, weight)
    np.testing.assert_allclose(
        weight, theirs.weights(theirs.half + slots % (per_lane + 1) * LANES + slots // (per_lane + 1)), rtol=1e-5
    )

    sides: dict[str, Callable[[], float]] = {
        "ours": timed(lambda: sampler.choose(window, 0, 0, slots, weight), 3 if quick else 30),
        "draws": timed(theirs.choose_by_draws, 1),
        "batches": timed(theirs.choose_by_batches, 1 if quick else 3),
        "whole": timed(lambda: theirs.choose(UPDATES), 3 if quick else 30),
    }
    interleaved(sides, 1)
    found = interleaved(sides, 3 if quick else 15)
    rows = [
        Row("tree in Python, draw by draw / ours", "×", ratios(found["draws"], found["ours"]), must=10),
        Row("tree in NumPy, batch by batch / ours", "×", ratios(found["batches"], found["ours"]), must=10),
        Row("tree in NumPy, all at once / ours", "×", ratios(found["whole"], found["ours"])),
    ]
    rows += [Row(f"{name}: 64 × 256 draws", "ms", tuple(1e3 * s for s in found[name]), "less") for name in sides]
    return {"entries": ENTRIES, "updates": UPDATES, "batch": BATCH, "alpha": 1.0, "beta": BETA}, rows


def timed(work: Callable[[], Any], times: int) -> Callable[[], float]:
    """Seconds per call."""

    def side() -> float:
        began = time.perf_counter()
        for _ in range(times):
            work()
        return (time.perf_counter() - began) / times

    return side


if __name__ == "__main__":
    stage(run)
