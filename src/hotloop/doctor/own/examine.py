"""`hotloop doctor WORKLOAD`: watch the pipeline as it is, try one change after another beside it, and tell."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hotloop.config import TrainConfig, cycle_of
from hotloop.core import discover
from hotloop.core.errors import UserError, unknown
from hotloop.doctor.own.examined import Advice, Baseline, Examined
from hotloop.doctor.own.side import Side
from hotloop.doctor.own.trial import NotTried, Result, Trial, attempt
from hotloop.replay.plan import available
from hotloop.trace import section_cost_ns

EXPERIMENTS = "hotloop.doctor.own.experiments"
DIAGNOSES = "hotloop.doctor.own.diagnoses"
WATCHED_S = 3.0

Say = Callable[[str], None]


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def examine(
    config: TrainConfig, only: Sequence[str], rounds: int, seconds: float, trace: Path | None, say: Say
) -> Examined:
    """only: names of experiments; empty: all. rounds: slices of `seconds` on each side, per trial."""
    for name in only:
        if name not in discover.names(EXPERIMENTS):
            raise unknown("experiment", name, discover.names(EXPERIMENTS))
    free = available()
    say("building, and compiling what is not in the cache …")
    with Side(config) as side:
        baseline = watch(side)
        if trace:
            side.trace.write_chrome(trace)
        results: list[Result] = []
        not_tried: list[NotTried] = []
        chosen = trials(config, only)
        for number, trial in enumerate(chosen, 1):
            say(f"{number}/{len(chosen)} {trial.title} …")
            found = attempt(config, side, trial, rounds, seconds)
            if isinstance(found, Result):
                results.append(found)
            else:
                not_tried.append(found)
    return Examined(config, cores(), free, baseline, tuple(results), tuple(not_tried))


def trials(config: TrainConfig, only: Sequence[str]) -> list[Trial]:
    modules = [discover.load(EXPERIMENTS, name) for name in only or discover.names(EXPERIMENTS)]
    return [trial for module in modules for trial in module.trials(config, cores())]


def advice(seen: Examined) -> list[Advice]:
    """What every diagnosis has to say, the greatest measured gain first."""
    found = [a for name in discover.names(DIAGNOSES) for a in discover.load(DIAGNOSES, name).find(seen)]
    return sorted(found, key=lambda a: (-(a.measured_gain or 1.0), -a.share, a.name))


def watch(side: Side) -> Baseline:
    """The pipeline alone, for some seconds after it has settled."""
    pipeline, cycle = side.pipeline, cycle_of(side.config)
    resident, cpu, began = _resident(), time.process_time(), time.perf_counter()
    found = side.run(WATCHED_S)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    cycles = max(1, found.env_steps // cycle.env_steps)
    sections = sum(calls for calls, _ in found.spent.values())
    return Baseline(
        env_steps_per_s=found.per_s,
        samples_per_step=found.updates * side.config.learner.samples_per_update / max(found.env_steps, 1),
        first_window_ratio=side.book.meter.speed()["first_window_ratio"],
        seconds=seconds,
        cycles=cycles,
        cycle_env_steps=cycle.env_steps,
        updates_per_cycle=cycle.updates,
        costs=side.costs(found),
        spent=found.spent,
        cold_start_s=pipeline.warm_seconds,
        origin=pipeline.learner.program.origin,
        cores_busy=cpu / seconds,
        recorder_share=sections * section_cost_ns() / found.ns,
        replay_bytes=pipeline.store.plan.total,
        resident_bytes=_resident(),
        resident_growth=_resident() - resident,
        refused_updates=pipeline.learner.refused,
        notes=tuple(pipeline.notes),
    )


def _resident() -> int:
    """Bytes of this process in memory; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def check_counts(rounds: int, seconds: float) -> None:
    if rounds < 2:
        raise UserError(f"--rounds {rounds}: must be at least 2, or there is no interval")
    if not 0.05 <= seconds <= 600:
        raise UserError(f"--seconds {seconds:g}: must be 0.05 to 600, the length of one slice")
