"""Everything that is known of a workload on this machine after it was examined, for those who interpret and tell it."""

from __future__ import annotations

from dataclasses import dataclass

from hotloop.config import TrainConfig
from hotloop.doctor.own.costs import Costs, Totals
from hotloop.doctor.own.trial import NotTried, Result


@dataclass(frozen=True)
class Baseline:
    """The pipeline as it is, watched for some seconds before anything was tried."""

    env_steps_per_s: float
    samples_per_step: float
    first_window_ratio: float | None
    seconds: float
    cycles: int
    cycle_env_steps: int
    updates_per_cycle: int
    costs: Costs
    spent: Totals
    cold_start_s: dict[str, float]
    origin: str  # of the compiled update: cache, compiled or eager
    cores_busy: float
    recorder_share: float  # of the time that the trace itself took
    replay_bytes: int
    resident_bytes: int
    resident_growth: int  # bytes, over the time watched
    refused_updates: int  # whose loss or gradient was not finite
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Examined:
    config: TrainConfig
    cores: int
    free_bytes: int | None  # of memory, before the replay was taken
    baseline: Baseline
    results: tuple[Result, ...]
    not_tried: tuple[NotTried, ...]

    def best(self, name: str) -> Result | None:
        """Of the trials of an experiment, the one that gained most."""
        found = [r for r in self.results if r.trial.name == name]
        return max(found, key=lambda r: r.gain, default=None)


@dataclass(frozen=True)
class Advice:
    """What the evidence says, and what was measured when the remedy was tried."""

    name: str
    title: str
    evidence: str
    remedy: str  # what to type
    share: float  # of the wall time that it is about
    learning: str
    predicted_gain: float | None = None
    measured_gain: float | None = None
    interval: tuple[float, float] | None = None


def of_result(result: Result, name: str, title: str, evidence: str, share: float) -> Advice:
    before, after = result.samples_per_step
    learning = result.trial.learning
    if learning == "changes learning":
        learning = f"changes learning (samples per step {before:.3g} → {after:.3g})"
    return Advice(
        name, title, evidence, result.trial.remedy, share, learning, result.predicted, result.gain, result.interval
    )
