"""Worker processes that die in every way: what they leave is whole, nothing is there twice, every step is counted."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from hotloop import aot
from hotloop.collect._worker import POINTS
from hotloop.collect.collector import NothingLeft
from hotloop.collect.workers import Options, Recipe, Workers, Zygote
from hotloop.core.schema import new_batch
from hotloop.replay.plan import Options as ReplayOptions
from hotloop.replay.store import Store
from hotloop.trace import Trace
from tests.references import oracle

WORKERS, LANES, STEPS, PARAMS = 2, 8, 5, 3
WEIGHTS = torch.zeros(PARAMS)
OFTEN = 10**6  # restarts per minute


@pytest.fixture
def collecting() -> Iterator[Callable[..., Workers]]:
    """Workers that are ended after the test."""
    made: list[Workers] = []

    def new(steps: int = STEPS, factory: str = "tests.references.oracle:acting", **options: Any) -> Workers:
        recipe = Recipe(factory, oracle.spec(oracle.Options()), {"steps": steps, "seed": 1})
        chosen = Options(**{"restarts_per_minute": OFTEN, **options})
        shape = {"workers": WORKERS, "lanes": LANES, "steps": steps, "params": PARAMS, "seed": 1}
        made.append(Workers(Zygote(aot.cache_folder()), recipe, chosen, **shape, trace=Trace(1024)))
        made[-1].warm(WEIGHTS)
        return made[-1]

    yield new
    for workers in made:
        workers.close()


class Run:
    """Cycles of a collector, judged, and stored as a run would."""

    def __init__(self, workers: Workers, n_step: int = 3, capacity: int = 40_000) -> None:
        self.workers, self.judge = workers, oracle.Judge(LANES)
        self.store = Store(workers.spec, ReplayOptions(capacity=capacity, n_step=n_step), LANES, gamma=0.5)
        self.episodes = 0

    def cycles(self, count: int, victim: int | None = None) -> None:
        """victim: whose worker is killed in the first of them, while it collects."""
        for _ in range(count):
            self.workers.publish(WEIGHTS)
            if victim is not None:
                self.kill(victim)
                victim = None
            block = self.workers.next_block()
            self.judge.block(block)
            self.store.write(block)
            assert self.workers.finished is not None
            self.episodes += len(self.workers.finished.lengths)

    def check(self) -> None:
        """Blocks, and every transition that the replay may give."""
        assert self.judge.wrong == {}
        assert self.workers.gauges()["workers_given_up"] == 0  # as one is whose counts do not add up
        assert self.judge.transitions == self.workers.env_steps
        assert self.store.check_valid() == (True, "")
        window = self.store.window()
        positions = (window.oldest + np.arange(window.count)) % window.slots_per_lane
        slots = (np.arange(LANES)[:, None] * window.slots_per_lane + positions).astype(np.int64)
        batch = new_batch(self.workers.spec, *slots.shape)
        self.store.gather(slots, batch)
        goes_on = batch.discount > 0
        old, new = (part["obs"][goes_on].astype(np.int64) for part in (batch.obs, batch.next_obs))
        steps = -np.log2(batch.discount[goes_on]).astype(np.int64)
        same = [oracle.LANE, oracle.START, oracle.EPISODE]
        np.testing.assert_array_equal(new[:, same], old[:, same])
        np.testing.assert_array_equal(new[:, oracle.T], old[:, oracle.T] + steps)

    def kill(self, number: int) -> None:
        seat = self.workers.seats[number]
        if seat.pid and seat.lives:
            with contextlib.suppress(ProcessLookupError):  # it has ended, which was not yet heard
                os.kill(seat.pid, signal.SIGKILL)


def accounts(workers: Workers) -> None:
    """Every env step that was ever made is in one place."""
    found = workers.gauges()
    places = ("worker_stored", "worker_in_flight", "worker_dropped", "worker_lost")
    for seat, produced in found["worker_produced"].items():
        assert produced == sum(found[place][seat] for place in places), found


@pytest.mark.parametrize("schedule", ["lockstep", "free"])
def test_killed_at_random_nothing_is_torn_doubled_or_crossed(collecting, schedule):
    draw, workers = random.Random(schedule), collecting(schedule=schedule)
    run = Run(workers)
    while sum(seat.restarts for seat in workers.seats) < 20:
        run.cycles(draw.randrange(1, 8), draw.randrange(WORKERS))
        accounts(workers)
    run.cycles(3)
    run.check()
    found = workers.gauges()
    assert sum(found["worker_lost"].values()) <= found["worker_restarts"] * STEPS * LANES // WORKERS
    assert run.judge.cuts > 0 and run.episodes > 10 and not workers.exact


def test_killed_at_every_point_nothing_is_torn_doubled_or_crossed(collecting):
    workers = collecting()
    run = Run(workers)
    for point in POINTS:
        before = workers.seats[0].restarts
        workers.faults.append((point, 2 if point not in ("born", "ready", "told") else 1))
        while workers.seats[0].restarts == before:
            run.cycles(1, 0)
        while workers.seats[0].restarts == before + 1:
            run.cycles(1)
        accounts(workers)
    run.cycles(3)
    run.check()


def test_a_full_ring_drops_what_it_counts(collecting):
    """Workers that do not wait: what is dropped is known to the unit, and cut where it is missing."""
    workers = collecting(schedule="free", ring_full="drop", ring_blocks=2)
    run = Run(workers)
    while not sum(workers.gauges()["worker_dropped"].values()):
        run.cycles(20)
    run.cycles(50)
    run.check()
    accounts(workers)
    assert run.judge.cuts > 0 and workers.gauges()["worker_restarts"] == 0


def test_places_of_seats_that_are_given_up_are_filled_by_the_others(collecting):
    workers = collecting(restarts_per_minute=0)
    run = Run(workers)
    run.cycles(5)
    while workers.seats[1].status != "given up":
        run.cycles(1, 1)
    run.cycles(20)
    assert run.judge.wrong == {} and run.judge.transitions == workers.env_steps == len(run.judge.keys) * STEPS * LANES
    accounts(workers)
    while workers.seats[0].status != "given up":
        with contextlib.suppress(NothingLeft):
            run.cycles(1, 0)
    with pytest.raises(NothingLeft, match="none of 2 workers is left to collect from oracle"):
        run.cycles(1)
    assert set(workers.state()) == {"counters"}


# --- the long versions -----------------------------------------------------------------------------------------------


@pytest.mark.prove
@pytest.mark.parametrize("schedule", ["lockstep", "free"])
def test_a_thousand_kills(collecting, schedule):
    """500 at any moment in each schedule, and 20 at every point; after each, new blocks within a second."""
    draw, workers = random.Random(schedule), collecting(schedule=schedule)
    run = Run(workers, capacity=400_000)
    waits = []
    while sum(seat.restarts for seat in workers.seats) < 500:
        seat = workers.seats[draw.randrange(WORKERS)]
        before, began = seat.restarts, time.monotonic()
        while seat.restarts == before or seat.published == seat.began:
            run.cycles(1, seat.number if seat.restarts == before else None)
        waits.append(time.monotonic() - began)
        accounts(workers)
    run.check()
    print(f"\n{schedule}: new data {np.median(waits) * 1e3:.0f} ms after a death, at worst {max(waits) * 1e3:.0f} ms")
    assert np.quantile(waits, 0.99) < 1.0
    for point in POINTS * 20:
        before = workers.seats[0].restarts
        workers.faults[:] = [(point, 1)]
        while workers.seats[0].restarts < before + 2:
            run.cycles(1, 0 if workers.seats[0].restarts == before else None)
    run.check()
    accounts(workers)


@pytest.mark.prove
def test_ten_million_transitions_and_fifty_kills_are_accounted_for(collecting):
    draw, workers = random.Random(0), collecting(schedule="free", ring_full="drop", steps=500)
    kills = 0
    while workers.env_steps < 10**7:
        workers.publish(WEIGHTS)
        workers.next_block()
        if kills < 50 and workers.env_steps > kills * 190_000:
            seat = workers.seats[draw.randrange(WORKERS)]
            if seat.pid and seat.status == "works":
                with contextlib.suppress(ProcessLookupError):
                    os.kill(seat.pid, signal.SIGKILL)
                    kills += 1
        accounts(workers)
    assert kills == 50
    found = workers.gauges()
    assert sum(found["worker_stored"].values()) == workers.env_steps
    print({k: v for k, v in found.items() if k.startswith("worker_")})
