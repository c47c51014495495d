"""The pipeline on one screen: envs → collect → replay → learn, weights back to collect; evaluation, checkpoints and
metrics hang off its end."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from hotloop import aside, checkpoint, outcome
from hotloop.book import Book, Display, Keeping
from hotloop.collect.collector import NothingLeft
from hotloop.config import TrainConfig
from hotloop.core.errors import UserError
from hotloop.core.options import to_dict
from hotloop.learn.learner import NotFinite
from hotloop.meter import Meter
from hotloop.pipeline import Pipeline, build_pipeline
from hotloop.run import RunFolder, events
from hotloop.stop import Stop
from hotloop.trace import Trace


def train(config: TrainConfig, run: RunFolder, display: Display, resume: bool = False) -> dict[str, Any]:
    """Run to the end of the budget, or to a signal -> the summary, which also stands in the run folder."""
    found = checkpoint.load_latest(run.checkpoints) if resume else None
    trace = Trace()
    trace.track("main")
    pipeline = build_pipeline(config, trace)
    try:
        scalars = events(run, config.tensorboard, found and found.env_steps)
        book = Book(pipeline, Meter(pipeline.spec.measures), run, scalars, display, trace)
        if found:
            book.restore(found)
        else:
            run.write_config(to_dict(config))  # only now: what cannot be built leaves the folder free
        beside = aside.thread("update", trace, lambda: begin_beside(config), pipeline.learner.program.native)
        with Stop() as stop, beside:
            display.ready(pipeline, pipeline.collector.env_steps)
            book.start()
            try:
                loop(config, pipeline, beside, stop, book, trace)
            except NothingLeft as why:
                for text in pipeline.collector.said():
                    book.note(text)
                book.save()
                raise NothingLeft(f"{why}; checkpoint saved, go on with: hotloop resume {run.path}") from None
            except NotFinite as why:
                book.save()
                batch = outcome.dump_batch(run, pipeline)
                raise UserError(f"stopped: {why}; batch in {batch}, checkpoint saved") from None
            book.save()  # first: what follows may be interrupted
            trace.write_chrome(run.trace)
            summary = book.finish(stop.signal)
        for remark in outcome.remarks(pipeline):
            display.note(remark)
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
    config: TrainConfig, pipeline: Pipeline, beside: aside.Aside, stop: Asked, book: Keeping, trace: Trace
) -> None:
    """One pass is one cycle. With overlap the updates of a cycle use the replay as it stood at its start, and its
    block is collected with the weights of the cycle before: nothing depends on timing."""
    collector, learner = pipeline.collector, pipeline.learner
    update, wait, commit = trace.section("update"), trace.section("wait"), trace.section("commit")
    while collector.env_steps < config.total_env_steps and not stop.asked:
        collector.publish(learner.params)
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
            book.note(text)

        env_steps = collector.env_steps
        book.cycle(collector.finished, stats)
        evaluates = _due(config.evaluate_every_env_steps, env_steps, pipeline)
        if evaluates or _due(config.log_every, env_steps, pipeline):
            book.row(evaluates)
        if _due(config.checkpoint_every_env_steps, env_steps, pipeline) and env_steps < config.total_env_steps:
            with book.pause("checkpoint"):
                book.save()


def _due(every: int, env_steps: int, pipeline: Pipeline) -> bool:
    """Whether a multiple of `every` env steps lies in the cycle that just ended."""
    return every > 0 and env_steps // every != (env_steps - pipeline.cycle.env_steps) // every
