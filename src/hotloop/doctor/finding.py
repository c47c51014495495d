"""One thing the doctor found: where, how much of the time, what to do, what that would give, and whether learning stays
the same. And what could be tried on the running script to measure it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

Tier = Literal["wrong", "waste", "slow", "trade"]
TIERS: tuple[Tier, ...] = ("wrong", "waste", "slow", "trade")


@dataclass(frozen=True)
class Trial:
    """What the script is run with, in every second window of a re-run: a remedy of inside/remedies and its settings."""

    remedy: str
    settings: dict[str, Any] = field(default_factory=dict)
    bound: bool = False  # it leaves work out instead of doing it better: the most a remedy could give
    whole: bool = False  # it cannot be switched while the script runs: a run with it against one without
    says: str = ""  # what was done, for the reader


@dataclass(frozen=True)
class Finding:
    name: str
    title: str
    file: str
    line: int
    share: float  # of the wall time of the judged windows, that the remedy would save
    remedy: str
    evidence: tuple[str, ...] = ()
    predicted_gain: float | None = None
    learning: Literal["same", "changes"] = "same"
    tier: Tier = "waste"  # wrong: what is seen is not so; trade: speed for learning
    trial: Trial | None = None
    measured_gain: float | None = None
    interval: tuple[float, float] | None = None
    rounds: int = 0

    def measured(self, gain: float, interval: tuple[float, float], rounds: int) -> Finding:
        return replace(self, measured_gain=gain, interval=interval, rounds=rounds)

    @property
    def gain(self) -> float:
        """The better known of the two."""
        return self.measured_gain or self.predicted_gain or 1.0


def amdahl(share: float) -> float:
    """What saving this share of the time gives."""
    return 1.0 / max(1.0 - share, 0.01)


def in_order(findings: list[Finding]) -> list[Finding]:
    """What is wrong before what is wasted, that before what could be faster, that before what costs learning; within
    each the greater gain first."""
    return sorted(findings, key=lambda f: (TIERS.index(f.tier), -abs(f.gain - 1.0), -f.share, f.name, f.line))
