"""Several agents that differ by their seed alone, driven by one loop: to it they look like one pipeline and one book.
Each has its own environment, replay, weights and run folder; what they share is the process and its two threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from torch import Tensor

from hotloop.aside import Parts
from hotloop.book import Book, Display
from hotloop.collect.episodes import Finished
from hotloop.core.types import Block
from hotloop.learn.learner import NotFinite
from hotloop.pipeline import Pipeline


class Failed(Exception):
    """One of the agents cannot go on."""

    def __init__(self, agent: int, why: NotFinite) -> None:
        super().__init__(str(why))
        self.agent = agent  # its place among the others


class Collectors:
    """Of all agents, in lockstep."""

    def __init__(self, pipelines: Sequence[Pipeline]) -> None:
        self._all = [p.collector for p in pipelines]

    @property
    def env_steps(self) -> int:
        """Of each agent."""
        return self._all[0].env_steps

    @property
    def finished(self) -> list[Finished | None]:
        return [c.finished for c in self._all]

    def next_block(self) -> list[Block]:
        return [c.next_block() for c in self._all]

    def publish(self, weights: Sequence[Tensor]) -> None:
        for collector, own in zip(self._all, weights, strict=True):
            collector.publish(own)

    def said(self) -> list[str]:
        return list(dict.fromkeys(text for c in self._all for text in c.said()))


class Learners:
    """Of all agents."""

    def __init__(self, pipelines: Sequence[Pipeline]) -> None:
        self._all = [p.learner for p in pipelines]

    @property
    def params(self) -> list[Tensor]:
        return [learner.params for learner in self._all]


class Together:
    """What the loop takes for a pipeline."""

    def __init__(self, pipelines: Sequence[Pipeline]) -> None:
        self.pipelines = list(pipelines)
        first = self.pipelines[0]
        self.config, self.cycle, self.spec, self.trace = first.config, first.cycle, first.spec, first.trace
        self.collector, self.learner = Collectors(self.pipelines), Learners(self.pipelines)
        self.seeds = [p.config.seed for p in self.pipelines]
        self.notes = list(dict.fromkeys(n for p in self.pipelines for n in p.notes))
        self._learn = [False] * len(self.pipelines)

    @property
    def exact(self) -> bool:
        return all(p.exact for p in self.pipelines)

    @property
    def warm_seconds(self) -> dict[str, float]:
        """Of all agents together."""
        return {name: sum(p.warm_seconds[name] for p in self.pipelines) for name in self.pipelines[0].warm_seconds}

    def learning(self, env_steps: int) -> bool:
        """Whether any agent learns in the cycle that begins. As a rule all do; one whose replay has lost transitions
        may begin later."""
        self._learn = [p.learning(env_steps) for p in self.pipelines]
        return any(self._learn)

    def commit(self, blocks: Sequence[Block]) -> None:
        for pipeline, block in zip(self.pipelines, blocks, strict=True):
            pipeline.commit(block)

    def begin_updates(self) -> Parts:
        """One part for each agent that learns: while one samples, those before it are being updated."""
        own = np.flatnonzero(self._learn)
        return Parts((self.pipelines[i].begin_updates() for i in own), len(own))

    def end_updates(self, parts: Parts) -> list[np.ndarray | None]:
        """stats [U, 4] of each agent. All are ended before the first that failed is told of."""
        out: list[np.ndarray | None] = [None] * len(self.pipelines)
        failed: Failed | None = None
        for i, job in zip(np.flatnonzero(self._learn), parts.jobs, strict=True):
            try:
                out[i] = self.pipelines[i].end_updates(job)
            except NotFinite as why:
                failed = failed or Failed(int(i), why)
        if failed:
            raise failed
        return out

    def close(self) -> None:
        for pipeline in self.pipelines:
            pipeline.close()


class Once:
    """A display that is told the same thing by many agents, and says it once."""

    def __init__(self, display: Display) -> None:
        self._display, self._said = display, set[str]()
        self.ready, self.row, self.finish = display.ready, display.row, display.finish

    def note(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._display.note(text)


class Books:
    """What the loop takes for a book: every agent's own, and one line for all of them on the display."""

    def __init__(self, books: Sequence[Book], display: Display) -> None:
        self.books, self._display = list(books), display

    def start(self) -> None:
        for book in self.books:
            book.start()

    def cycle(self, finished: Sequence[Finished | None], stats: Sequence[np.ndarray | None] | None) -> None:
        for i, book in enumerate(self.books):
            book.cycle(finished[i], None if stats is None else stats[i])

    @contextmanager
    def pause(self, what: str) -> Iterator[None]:
        """For all: while one is evaluated, the others do not train."""
        with ExitStack() as stack:
            for book in self.books:
                stack.enter_context(book.pause(what))
            yield

    def row(self, evaluates: bool) -> None:
        rows = [book.figures() for book in self.books]
        if evaluates:
            with self.pause("evaluate"):
                for book, row in zip(self.books, rows, strict=True):
                    row |= book.evaluation()
        for book, row in zip(self.books, rows, strict=True):
            book.write(row)
        self._display.row(line(rows))

    def save(self) -> None:
        for book in self.books:
            book.save()

    def note(self, text: str) -> None:
        self._display.note(text)


SUMS = ("env_steps_per_s", "updates_per_s", "updates", "episodes", "refused_updates", "replay_size")
RANGES = ("return_mean", "eval_return_mean")
SAME = ("env_steps", "epsilon", "samples_per_step", "sections", "rss_mb", "seconds")


def line(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One row for all agents: speeds and counts of all together, else means; the least and the greatest return."""
    out: dict[str, Any] = {"agents": len(rows)}
    for key in rows[0]:
        values = [row[key] for row in rows if isinstance(row.get(key), int | float)]
        if key in SAME or not values:
            out[key] = rows[0][key]
        else:
            out[key] = sum(values) if key in SUMS else sum(values) / len(values)
            if key in RANGES:
                out[f"{key}_range"] = [min(values), max(values)]
    return out
