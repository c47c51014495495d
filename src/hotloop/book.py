"""What a run writes down while it goes on: rows of metrics, evaluations, checkpoints. One for each agent; a loop that
drives several agents at once is given one that stands for all of theirs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from hotloop import checkpoint, outcome
from hotloop.core.errors import UserError
from hotloop.core.options import to_dict
from hotloop.meter import Meter, Spent
from hotloop.pipeline import Pipeline
from hotloop.run import Row, RunFolder
from hotloop.trace import Trace


class Display(Protocol):
    """Where a run shows itself."""

    def note(self, text: str) -> None: ...
    def ready(self, pipeline: Any, env_steps: int) -> None: ...
    def row(self, row: dict[str, Any]) -> None: ...
    def finish(self, summary: dict[str, Any]) -> None: ...


class Keeping(Protocol):
    """What the loop asks of a book, or of several in one."""

    def cycle(self, finished: Any, stats: Any) -> None: ...
    def row(self, evaluates: bool) -> None: ...
    def save(self) -> None: ...
    def pause(self, what: str) -> AbstractContextManager[None]: ...
    def note(self, text: str) -> None: ...


@dataclass
class Book:
    """Of one agent."""

    pipeline: Pipeline
    meter: Meter
    run: RunFolder
    scalars: Callable[[Row], None] | None  # TensorBoard's
    display: Display
    trace: Trace

    def __post_init__(self) -> None:
        self._spent = Spent(self.trace)

    def start(self) -> None:
        """Step 1 comes next."""
        self.meter.start(self.pipeline.collector.env_steps, self.pipeline.learner.updates)

    def cycle(self, finished: Any, stats: Any) -> None:
        """One cycle ended."""
        self.meter.cycle(self.pipeline.collector.env_steps, finished, stats)

    def pause(self, what: str) -> AbstractContextManager[None]:
        """What is done inside is not training."""
        return self.meter.pause(what)

    def note(self, text: str) -> None:
        self.display.note(text)

    def row(self, evaluates: bool) -> None:
        """A row of metrics, written and shown."""
        row = self.figures()
        if evaluates:
            with self.pause("evaluate"):
                row |= self.evaluation()
        self.write(row)
        self.display.row(row)

    def figures(self) -> dict[str, Any]:
        """What happened since the last row."""
        row = self.meter.row(self.pipeline.collector.env_steps, self.pipeline.learner.updates)
        return row | outcome.gauges(self.pipeline) | {"sections": self._spent.since_last()}

    def evaluation(self) -> dict[str, Any]:
        return outcome.evaluation(self.pipeline, self.pipeline.learner.updates)

    def write(self, row: dict[str, Any]) -> None:
        self.run.metrics(row)
        if self.scalars:
            self.scalars(row)

    def save(self) -> None:
        """A disk that is full costs the newest checkpoint, not the run: the one before it is intact."""
        pipeline, config = self.pipeline, self.pipeline.config
        meta = {"meter": self.meter.state(), "exact": pipeline.exact, **outcome.fingerprint(config)}
        try:
            checkpoint.save(
                self.run.checkpoints, pipeline.collector.env_steps, pipeline.state(), meta, keep=config.keep_checkpoints
            )
        except UserError as full:
            self.note(str(full))

    def restore(self, found: checkpoint.Checkpoint) -> None:
        """Go on from a checkpoint, and say what is no longer as it was."""
        pipeline, meter, run = self.pipeline, self.meter, self.run
        for reason in found.refused:
            self.note(f"refused {reason}; going on from {found.path.name}")
        for change in outcome.changes(found.meta, outcome.fingerprint(pipeline.config)):
            self.note(f"not exact: {change}")
        if wrong := pipeline.misfit(found.arrays):
            raise UserError(
                f"{found.path} does not fit {run.path}/config.toml: {wrong}; restore the config it was made with"
            )
        pipeline.set_state(found.arrays)
        meter.set_state(found.meta["meter"])
        meter.resumed.append(found.env_steps)
        run.cut_metrics(found.env_steps)
        config, before = pipeline.config, run.read_config()["total_env_steps"]
        if config.total_env_steps != before:
            run.write_config(to_dict(config))
            bends = {
                "the learning rate": config.learner.optimizer.learning_rate_end >= 0,
                "sampler.beta": config.sampler.get("beta_anneal_env_steps") == 0,
            }
            bent = " and ".join(what for what, does in bends.items() if does)
            goes = "go" if " and " in bent else "goes"
            self.note(
                f"the budget was {before:,} env steps and is {config.total_env_steps:,}"
                + (f"; {bent} {goes} on along the schedule of the new one" if bent else "")
            )

    def finish(self, stopped_by: int | None, **more: Any) -> dict[str, Any]:
        """Evaluate, write weights and summary. more: what else the summary is to say."""
        summary = outcome.finish(self.pipeline, self.meter, self.run, self.trace, stopped_by=stopped_by) | more
        self.run.write_summary(summary)
        return summary
