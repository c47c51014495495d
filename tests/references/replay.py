"""The replay as a naive model: per lane a Python list of every transition ever written, nothing shared, nothing
reused. What may be sampled and what a sample holds is worked out from the definitions, one frame at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hotloop.core.types import Batch, Block, EnvSpec


@dataclass
class Step:
    obs: dict[str, np.ndarray]
    mask: np.ndarray | None
    action: int
    reward: float
    end: str  # "", "terminated", "truncated"
    final_obs: dict[str, np.ndarray]
    final_mask: np.ndarray | None


@dataclass
class Sample:
    obs: dict[str, np.ndarray]
    action: int
    reward: float
    discount: float
    next_obs: dict[str, np.ndarray]
    next_mask: np.ndarray | None
    mask: np.ndarray | None


@dataclass
class Model:
    spec: EnvSpec
    lanes: int
    per_lane: int
    n_step: int
    gamma: float
    final_rows: int
    history: list[list[Step]] = field(default_factory=list)  # [lane][step]
    tail: list[tuple[dict[str, np.ndarray], np.ndarray | None]] = field(default_factory=list)  # [lane]
    finals: list[tuple[int, int]] = field(default_factory=list)  # (step, lane) of every truncation, in order
    displaced: int = 0  # of those, how many lost their room while capacity kept their step

    def __post_init__(self) -> None:
        self.history = [[] for _ in range(self.lanes)]

    def write(self, block: Block) -> None:
        before = len(self.finals)
        for t in range(block.steps):
            for lane in range(self.lanes):
                self._write_one(block, t, lane)
        self.tail = [_entry(block.obs, block.mask, block.steps, lane) for lane in range(self.lanes)]
        self._count_displaced(before)

    def _write_one(self, block: Block, t: int, lane: int) -> None:
        end = "truncated" if block.truncated[t, lane] else ""
        end = "terminated" if block.terminated[t, lane] else end
        obs, mask = _entry(block.obs, block.mask, t, lane)
        final_obs, final_mask = _entry(block.final_obs, block.final_mask, t, lane)
        if end == "truncated":
            self.finals.append((len(self.history[lane]), lane))
        self.history[lane].append(
            Step(obs, mask, int(block.action[t, lane]), float(block.reward[t, lane]), end, final_obs, final_mask)
        )

    def cut(self) -> None:
        before = len(self.finals)
        for lane, steps in enumerate(self.history):
            if steps and not steps[-1].end:
                steps[-1].end = "truncated"
                steps[-1].final_obs, steps[-1].final_mask = self.tail[lane]
                self.finals.append((len(steps) - 1, lane))
        self._count_displaced(before)

    def _count_displaced(self, before: int) -> None:
        lost = self.finals[max(0, before - self.final_rows) : max(0, len(self.finals) - self.final_rows)]
        kept = [k for k in range(len(self.history[0])) if k + self.n_step <= len(self.history[0])][-self.per_lane :]
        self.displaced += sum(not kept or step >= kept[0] for step, _ in lost)

    def sampleable(self) -> list[tuple[int, int]]:
        """(lane, step): the newest that capacity keeps, whose n rewards are known and whose final observation is
        among the newest that have room."""
        steps = len(self.history[0])
        lost = self.finals[: -self.final_rows] if self.final_rows < len(self.finals) else []
        floor = max((step + 1 for step, _ in lost), default=0)
        complete = [k for k in range(steps) if k + self.n_step <= steps][-self.per_lane :]
        return [(lane, k) for lane in range(self.lanes) for k in complete if k >= floor]

    def sample(self, lane: int, k: int) -> Sample:
        steps = self.history[lane]
        total, end = 0.0, k
        for j in range(self.n_step):
            total += self.gamma**j * steps[k + j].reward
            end = k + j
            if steps[end].end:
                break
        discount = self.gamma ** (end - k + 1)
        before = self._episode(lane, end)
        if steps[end].end == "terminated":
            discount = 0.0
            after, mask = None, None if steps[k].mask is None else np.ones(self.spec.num_actions, bool)
        elif steps[end].end == "truncated":
            after, mask = [*before, steps[end].final_obs], steps[end].final_mask
        elif end + 1 < len(steps):
            after, mask = [*before, steps[end + 1].obs], steps[end + 1].mask
        else:
            after, mask = [*before, self.tail[lane][0]], self.tail[lane][1]
        obs = self._stacked(self._episode(lane, k))
        next_obs = {n: np.zeros_like(a) for n, a in obs.items()} if after is None else self._stacked(after)
        return Sample(obs, steps[k].action, total, discount, next_obs, mask, steps[k].mask)

    def _episode(self, lane: int, k: int) -> list[dict[str, np.ndarray]]:
        """Observations of the episode of step k, from its first one to that of step k."""
        seen = []
        for step in self.history[lane][: k + 1]:
            seen.append(step.obs)
            if step.end and step is not self.history[lane][k]:
                seen = []
        return seen

    def _stacked(self, episode: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        out = {}
        for part in self.spec.observation:
            frames = [obs[part.name] for obs in episode]
            frames = [frames[0]] * part.stack + frames
            out[part.name] = np.stack(frames[-part.stack :]) if part.stack > 1 else frames[-1]
        return out


def _entry(obs: dict[str, np.ndarray], mask: Any, t: int, lane: int) -> tuple[dict[str, np.ndarray], Any]:
    return {name: a[t, lane].copy() for name, a in obs.items()}, None if mask is None else mask[t, lane].copy()


def differences(batch: Batch, i: int, expected: Sample) -> list[str]:
    """Names of what sample i of a batch [1, B] holds wrongly; every bit counts."""
    pairs: list[tuple[str, Any, Any]] = [
        ("action", batch.action[0, i], np.int64(expected.action)),
        ("reward", batch.reward[0, i], np.float32(expected.reward)),
        ("discount", batch.discount[0, i], np.float32(expected.discount)),
    ]
    pairs += [(f"obs.{name}", batch.obs[name][0, i], a) for name, a in expected.obs.items()]
    pairs += [(f"next_obs.{name}", batch.next_obs[name][0, i], a) for name, a in expected.next_obs.items()]
    if expected.next_mask is not None:
        pairs.append(("next_mask", batch.next_mask[0, i], expected.next_mask))  # type: ignore[index]
    if batch.mask is not None:
        pairs.append(("mask", batch.mask[0, i], expected.mask))
    return [name for name, a, b in pairs if a.dtype != b.dtype or a.shape != b.shape or not np.array_equal(a, b)]
