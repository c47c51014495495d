"""The pipeline on one screen: envs → collect → replay → learn, weights back to collect; evaluation, checkpoints and
metrics hang off its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

from hotloop import aside, checkpoint, outcome
from hotloop.collect.collector import NothingLeft
from hotloop.config import TrainConfig
from hotloop.core.errors import UserError
from hotloop.core.options import to_dict
from hotloop.learn.learner import NotFinite
from hotloop.meter import Meter, Spent
from hotloop.pipeline import Pipeline, build_pipeline
from hotloop.run import Row, RunFolder, events
from hotloop.stop import Stop
from hotloop.trace import Trace


class Display(Protocol):
    """Where a run shows itself."""

    def note(self, text: str) -> None: ...
    def ready(self, pipeline: Pipeline, env_steps: int) -> None: ...
    def row(self, row: dict[str, Any]) -> None: ...
    def finish(self, summary: dict[str, Any]) -> None: ...


def train(config: TrainConfig, run: RunFolder, display: Display, resume: bool = False) -> dict[str, Any]:
    """Run to the end of the budget, or to a signal -> the summary, which also stands in the run folder."""
    found = checkpoint.load_latest(run.checkpoints) if resume else None
    trace = Trace()
    trace.track("main")
    pipeline = build_pipeline(config, trace)
    meter = Meter(pipeline.spec.measures)
    try:
        scalars = events(run, config.tensorboard, found and found.env_steps)
        if found:
            _restore(found, pipeline, meter, run, display)
        else:
            run.write_config(to_dict(config))  # only now: what cannot be built leaves the folder free
        beside = aside.thread("update", trace, lambda: begin_beside(config), pipeline.learner.program.native)
        with Stop() as stop, beside:
            display.ready(pipeline, pipeline.collector.env_steps)
            meter.start(pipeline.collector.env_steps, pipeline.learner.updates)
            try:
                loop(config, pipeline, beside, stop, meter, run, scalars, display, trace)
            except NothingLeft as why:
                _save(config, pipeline, meter, run, display)
                raise NothingLeft(f"{why}; checkpoint saved, go on with: hotloop resume {run.path}") from None
            except NotFinite as why:
                _save(config, pipeline, meter, run, display)
                batch = outcome.dump_batch(run, pipeline)
                raise UserError(f"stopped: {why}; batch in {batch}, checkpoint saved") from None
            _save(config, pipeline, meter, run, display)  # first: what follows may be interrupted
            summary = outcome.finish(config, pipeline, meter, run, trace, stopped_by=stop.signal)
            run.write_summary(summary)
        display.finish(summary)
        return summary
    finally:
        pipeline.close()


def begin_beside(config: TrainConfig) -> None:
    # OpenMP counts its threads per thread: without this a matrix product beside the main one would take all cores, and
    # where these are busy it waits for them, ten times as long as it computes.
    torch.set_num_threads(config.threads)


class Asked(Protocol):
    """Who is asked once per cycle whether to stop."""

    @property
    def asked(self) -> bool: ...


def loop(
    config: TrainConfig,
    pipeline: Pipeline,
    beside: aside.Aside,
    stop: Asked,
    meter: Meter,
    run: RunFolder,
    scalars: Callable[[Row], None] | None,
    display: Display,
    trace: Trace,
) -> None:
    """One pass is one cycle. With overlap the updates of a cycle use the replay as it stood at its start, and its
    block is collected with the weights of the cycle before: nothing depends on timing."""
    collector, learner = pipeline.collector, pipeline.learner
    update, wait, commit = trace.section("update"), trace.section("wait"), trace.section("commit")
    spent = Spent(trace)
    while collector.env_steps < config.total_env_steps and not stop.asked:
        learns, updates = pipeline.learning(collector.env_steps), None
        if learns and config.overlap:
            updates = pipeline.begin_updates()
            beside.start(updates)
        block = collector.next_block()
        if updates:
            with wait:
                beside.wait()
        with commit:
            pipeline.commit(block)
        if learns and not config.overlap:
            updates = pipeline.begin_updates()
            with update:
                updates.run()
        stats = pipeline.end_updates(updates) if updates else None
        for text in collector.said():
            display.note(text)

        env_steps, finished = collector.env_steps, collector.finished
        meter.cycle(env_steps, finished, stats)
        evaluates = _due(config.evaluate_every_env_steps, env_steps, pipeline)
        if evaluates or _due(config.log_every, env_steps, pipeline):
            row = meter.row(env_steps, learner.updates) | outcome.gauges(pipeline) | {"sections": spent.since_last()}
            if evaluates:
                with meter.pause("evaluate"):
                    row |= outcome.evaluation(pipeline, learner.updates)
            run.metrics(row)
            if scalars:
                scalars(row)
            display.row(row)
        if _due(config.checkpoint_every_env_steps, env_steps, pipeline) and env_steps < config.total_env_steps:
            with meter.pause("checkpoint"):
                _save(config, pipeline, meter, run, display)
        collector.publish(learner.params)


def _due(every: int, env_steps: int, pipeline: Pipeline) -> bool:
    """Whether a multiple of `every` env steps lies in the cycle that just ended."""
    return every > 0 and env_steps // every != (env_steps - pipeline.cycle.env_steps) // every


def _save(config: TrainConfig, pipeline: Pipeline, meter: Meter, run: RunFolder, display: Display) -> None:
    """A disk that is full costs the newest checkpoint, not the run: the one before it is intact."""
    meta = {"meter": meter.state(), "exact": pipeline.exact, **outcome.fingerprint(config)}
    try:
        checkpoint.save(
            run.checkpoints, pipeline.collector.env_steps, pipeline.state(), meta, keep=config.keep_checkpoints
        )
    except UserError as full:
        display.note(str(full))


def _restore(found: checkpoint.Checkpoint, pipeline: Pipeline, meter: Meter, run: RunFolder, display: Display) -> None:
    for reason in found.refused:
        display.note(f"refused {reason}; going on from {found.path.name}")
    for change in outcome.changes(found.meta, outcome.fingerprint(pipeline.config)):
        display.note(f"not exact: {change}")
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
        bends = config.learner.optimizer.learning_rate_end >= 0
        display.note(
            f"the budget was {before:,} env steps and is {config.total_env_steps:,}"
            + ("; the learning rate goes on along the schedule of the new one" if bends else "")
        )
