"""A trial: the pipeline as it is and with one change, slice by slice in turns, so that what else the machine does
hits both. What it gained is the median over the rounds; the interval comes from them too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from hotloop.config import TrainConfig, resolve
from hotloop.core.errors import UserError
from hotloop.core.options import to_dict
from hotloop.doctor.own.costs import Costs
from hotloop.doctor.own.side import Side, Slice
from hotloop.pipeline import Pipeline

Learning = Literal["same learning", "changes learning", "changes the problem"]


@dataclass(frozen=True)
class Trial:
    """What is changed, what it does to learning, and what it should give."""

    name: str  # of the experiment
    title: str
    learning: Learning
    change: Mapping[str, Any] = field(default_factory=dict)  # options, by groups
    cut: Callable[[Pipeline], None] | None = None  # takes a part away, to learn what it costs
    predict: Callable[[Costs], Costs] | None = None  # the costs that it would leave; None: not known before it is tried
    remedy: str = ""  # what to type, where it can be kept


@dataclass(frozen=True)
class Result:
    trial: Trial
    gain: float  # env steps/s with it over without: median over the rounds
    interval: tuple[float, float]
    rounds: tuple[float, ...]
    predicted: float | None
    samples_per_step: tuple[float, float]  # without it, with it
    baseline: tuple[Slice, ...]
    costs: Costs  # of the baseline in these rounds


@dataclass(frozen=True)
class NotTried:
    trial: Trial
    why: str


def attempt(config: TrainConfig, baseline: Side, trial: Trial, rounds: int, seconds: float) -> Result | NotTried:
    """Try it beside the baseline. What this machine or this workload cannot do is not tried, and the reason is said."""
    try:
        changed = resolve(to_dict(config), trial.change)
        with Side(changed, trial.cut) as side:
            pairs = take_turns(baseline, side, rounds, seconds)
    except (UserError, MemoryError) as why:
        return NotTried(trial, " ".join(str(why).split()))
    without, with_it = zip(*pairs, strict=True)
    ratios = tuple(b.per_s / a.per_s for a, b in pairs)
    cost = baseline.costs(added(without))
    predicted = cost.gain(trial.predict(cost)) if trial.predict else None
    return Result(
        trial, float(np.median(ratios)), interval(ratios), ratios, predicted,
        (_samples(config, without), _samples(changed, with_it)), without, cost,
    )  # fmt: skip


def take_turns(first: Side, second: Side, rounds: int, seconds: float) -> list[tuple[Slice, Slice]]:
    """Every second round in the reverse order, so that a drift hits both alike."""
    pairs = []
    for k in range(rounds):
        if k % 2 == 0:
            a = first.run(seconds)
            b = second.run(seconds)
        else:
            b = second.run(seconds)
            a = first.run(seconds)
        pairs.append((a, b))
    return pairs


def added(slices: tuple[Slice, ...]) -> Slice:
    spent: dict[tuple[str, str], tuple[int, int]] = {}
    for s in slices:
        for key, (calls, ns) in s.spent.items():
            before = spent.get(key, (0, 0))
            spent[key] = (before[0] + calls, before[1] + ns)
    return Slice(sum(s.ns for s in slices), sum(s.env_steps for s in slices), sum(s.updates for s in slices), spent)


def _samples(config: TrainConfig, slices: tuple[Slice, ...]) -> float:
    """As they were, not as they were asked for."""
    whole = added(slices)
    return whole.updates * config.learner.samples_per_update / max(whole.env_steps, 1)


def interval(values: tuple[float, ...], resamples: int = 2_000) -> tuple[float, float]:
    """95 % percentile bootstrap of the median (Efron 1979, doi 10.1214/aos/1176344552)."""
    data = np.array(values)
    draws = np.random.default_rng(0).integers(0, len(data), (resamples, len(data)))
    low, high = np.quantile(np.median(data[draws], axis=1), [0.025, 0.975])
    return float(low), float(high)
