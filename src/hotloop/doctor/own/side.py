"""One side of a comparison: a pipeline that trains in slices of time, through the very loop that `hotloop train` runs.
Everything of a run is there, but for evaluations and checkpoints, which are not part of its speed."""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from hotloop import aside
from hotloop.book import Book
from hotloop.config import TrainConfig, cycle_of
from hotloop.doctor.own.costs import Costs, Totals, costs, since, totals
from hotloop.meter import Meter
from hotloop.pipeline import Pipeline, build_pipeline
from hotloop.report.console import Quiet
from hotloop.run import RunFolder
from hotloop.trace import Trace
from hotloop.train import begin_beside, loop

NEVER = 2**62  # env steps: a budget that no slice uses up
SETTLING_S = 0.3  # after the first update, before anything is measured


@dataclass(frozen=True)
class Slice:
    """What was done in some time."""

    ns: int
    env_steps: int
    updates: int
    spent: Totals

    @property
    def per_s(self) -> float:
        return self.env_steps / self.ns * 1e9


class Until:
    """Asked once per cycle: stop when the time is over, but not before the first one."""

    def __init__(self, seconds: float) -> None:
        self._end = time.perf_counter_ns() + int(seconds * 1e9)
        self._first = True

    @property
    def asked(self) -> bool:
        first, self._first = self._first, False
        return not first and time.perf_counter_ns() >= self._end


def measured(config: TrainConfig) -> TrainConfig:
    """A run as it is for most of its length: exploring as it ends up to, learning from its first cycle on."""
    return replace(
        config,
        total_env_steps=NEVER,
        learning_starts_env_steps=0,
        log_every_env_steps=config.log_every,
        evaluate_every_env_steps=0,
        checkpoint_every_env_steps=0,
        explore=replace(config.explore, start=config.explore.end, temperature_start=config.explore.temperature_end),
    )


class Side:
    """`with Side(config) as side:` builds and settles it; `side.run(seconds)` goes on where the last slice ended."""

    def __init__(self, config: TrainConfig, cut: Callable[[Pipeline], None] | None = None, keeps: int = 65536) -> None:
        """cut: takes a part of the pipeline away. keeps: events of the trace."""
        self.config = measured(config)
        self.trace = Trace(keeps)
        self._cut, self._stack = cut, ExitStack()

    def __enter__(self) -> Side:
        with ExitStack() as undo:
            self.trace.track("main")
            folder = undo.enter_context(tempfile.TemporaryDirectory(prefix="hotloop-doctor-"))
            self._run = RunFolder.create(Path(folder) / "run", self.config.workload, self.config.seed)
            undo.callback(self._run.close)
            self.pipeline = build_pipeline(self.config, self.trace)
            undo.callback(self.pipeline.close)
            self._time_collecting()
            program = self.pipeline.learner.program
            self._beside = undo.enter_context(
                aside.thread("update", self.trace, lambda: begin_beside(self.config), program.native)
            )
            meter = Meter(self.pipeline.spec.measures)
            self.book = Book(self.pipeline, meter, self._run, None, Quiet(), self.trace)
            self.book.start()
            self.run(0.0)
            while self.pipeline.began_env_steps is None:
                self.run(0.0)
            if self._cut:
                self._cut(self.pipeline)
            self.run(SETTLING_S)
            self._stack = undo.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()
        del self.pipeline
        gc.collect()  # its replay, before the next side takes memory of its own

    def _time_collecting(self) -> None:
        collector, section = self.pipeline.collector, self.trace.section("collect")
        real = collector.next_block

        def next_block():  # type: ignore[no-untyped-def]
            with section:
                return real()

        collector.next_block = next_block  # type: ignore[method-assign]

    def run(self, seconds: float) -> Slice:
        """At least one cycle."""
        torch.set_num_threads(self.config.threads)
        pipeline = self.pipeline
        before, began = totals(self.trace.totals()), time.perf_counter_ns()
        env_steps, updates = pipeline.collector.env_steps, pipeline.learner.updates
        loop(self.config, pipeline, self._beside, Until(seconds), self.book, self.trace)
        return Slice(
            time.perf_counter_ns() - began,
            pipeline.collector.env_steps - env_steps,
            pipeline.learner.updates - updates,
            since(totals(self.trace.totals()), before),
        )

    def costs(self, found: Slice) -> Costs:
        cycles = max(1, found.env_steps // cycle_of(self.config).env_steps)
        return costs(found.spent, found.ns, cycles, self.config.overlap)
