"""What one cycle costs and where, from the trace; and what a cycle would take if a part of it were free. Knows how
the pipeline overlaps, and nothing of experiments."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hotloop.trace import SectionTotal

MAIN, BESIDE = "main", "learn"
Totals = dict[tuple[str, str], tuple[int, int]]  # (track, section) -> (calls, ns)


def totals(found: list[SectionTotal]) -> Totals:
    return {(t.track, t.name): (t.calls, t.total_ns) for t in found}


def since(now: Totals, before: Totals) -> Totals:
    """What was added between two looks."""
    out = {}
    for key, (calls, ns) in now.items():
        calls_before, ns_before = before.get(key, (0, 0))
        if calls > calls_before:
            out[key] = (calls - calls_before, ns - ns_before)
    return out


@dataclass(frozen=True)
class Costs:
    """Means over cycles, in ns. `collect` holds `act` and `env`, and what of the collector is in neither."""

    cycle: float  # wall time
    act: float
    env: float
    collect: float
    sample: float
    update: float
    commit: float
    wait: float  # for the updates, on the main thread
    rest: float  # of the main thread, in no section: publishing, counting, rows of metrics
    overlap: bool

    def without(self, **parts: float) -> Costs:
        """With some parts at another cost: without(env=0)."""
        lighter = self.collect
        for name in ("act", "env"):
            if name in parts:
                lighter += parts[name] - getattr(self, name)
        return replace(self, **{"collect": lighter, **parts})

    @property
    def modelled(self) -> float:
        """The cycle by its parts: with overlap the longer of collecting and updating counts, else their sum."""
        beside = max(self.collect, self.update) if self.overlap else self.collect + self.update
        return self.sample + beside + self.commit + self.rest

    def gain(self, other: Costs) -> float:
        """How many times as fast `other` would be. Both by the model, so that what it leaves out cancels."""
        return self.modelled / max(other.modelled, 1.0)


def costs(spent: Totals, wall_ns: int, cycles: int, overlap: bool) -> Costs:
    """spent: of the cycles that lie in `wall_ns`, all of which learnt."""

    def mean(track: str, name: str) -> float:
        return spent.get((track, name), (0, 0))[1] / cycles

    cycle, act, env = wall_ns / cycles, mean(MAIN, "act"), mean(MAIN, "env")
    sample, commit, wait = mean(MAIN, "sample"), mean(MAIN, "commit"), mean(MAIN, "wait")
    update = mean(BESIDE, "update") + mean(MAIN, "update")
    collect = mean(MAIN, "collect")
    rest = max(0.0, cycle - collect - sample - commit - wait - mean(MAIN, "update"))
    return Costs(cycle, act, env, collect, sample, update, commit, wait, rest, overlap)
