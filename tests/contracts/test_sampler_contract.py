"""What every sampler in replay/samplers must hold to."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import numpy as np
import pytest

from hotloop.core.discover import load, names
from hotloop.core.schema import new_batch
from hotloop.replay.samplers._base import PACKAGE, Sampler, make
from tests.replay.writing import PARTS, PIXELS, PLAIN, Writer

SAMPLERS = names(PACKAGE)
each = pytest.mark.parametrize("name", SAMPLERS)
B = 33


@pytest.fixture(autouse=True)
def _wrapping_is_meant():
    with np.errstate(over="ignore"):  # as plain Python (NUMBA_DISABLE_JIT=1) NumPy warns where hashing wraps
        yield


class Fed:
    """A store and a sampler, told of each other as the pipeline does; priorities are a function of the slot."""

    def __init__(self, name: str, **options) -> None:
        self.name = name
        self.writer = Writer(**{"lanes": 3, "capacity": 40, "n_step": 3, **options})
        self.store, self.updates = self.writer.store, 0
        self.sampler = self.another()

    def another(self) -> Sampler:
        return make(self.name, {}, self.store.lanes, self.store.slots_per_lane, 10_000)

    def write(self, steps: int, truncate: float = 0.1) -> None:
        self.writer.write(steps, truncate=truncate)
        self.sampler.written(self.store.window())
        assert self.sampler.check_valid() == (True, "")

    def choose(self, updates: int = 4, sampler: Sampler | None = None, size: int = B) -> tuple[np.ndarray, np.ndarray]:
        slots, weight = np.full((updates, size), -7, np.int64), np.full((updates, size), np.nan, np.float32)
        (sampler or self.sampler).choose(self.store.window(), 7, self.updates, slots, weight)
        return slots, weight

    def cycle(self, steps: int, overlap: bool = True, updates: int = 4) -> np.ndarray:
        """One cycle of a run -> the slots that were learnt from."""
        if not overlap:
            self.write(steps)
        slots, weight = self.choose(updates)
        self.store.gather(slots, new_batch(self.writer.spec, updates, B))  # refuses any slot outside the window
        assert np.isfinite(weight).all() and (weight > 0).all() and (weight <= 1).all()
        if overlap:
            self.write(steps)
        self.sampler.learned(slots, (slots % 7 / 3).astype(np.float32))
        assert self.sampler.check_valid() == (True, "")
        self.updates += updates
        return slots


@each
def test_declares_its_own_frozen_options_with_help(name):
    options = load(PACKAGE, name).Options
    assert is_dataclass(options) and options.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert all(f.metadata["help"] for f in fields(options))


@each
@pytest.mark.parametrize("observation", [PLAIN, PIXELS, PARTS], ids=["plain", "stacked frames", "dict"])
@pytest.mark.parametrize("share", [0.02, 1.0])
@pytest.mark.parametrize("overlap", [True, False])
def test_names_only_slots_the_store_gives_out(name, observation, share, overlap):
    fed = Fed(name, observation=observation, share=share, masked=observation is not PLAIN)
    fed.write(5, truncate=0.3)
    for steps in (4, 30, 1, 200, 3, 0, 2):
        fed.cycle(steps, overlap)


@each
def test_the_same_request_is_answered_alike_and_every_row_is_filled(name):
    fed = Fed(name)
    fed.write(60)
    fed.cycle(3)
    for ours, again in zip(fed.choose(), fed.choose(), strict=True):
        assert np.array_equal(ours, again)


@each
def test_two_that_were_told_the_same_choose_the_same(name):
    runs = []
    for _ in range(2):
        fed = Fed(name)
        fed.write(20)
        runs.append(np.concatenate([fed.cycle(steps) for steps in (3, 3, 40, 1)]))
    assert np.array_equal(*runs)


@each
def test_it_goes_on_from_its_state_bit_for_bit(name):
    fed = Fed(name)
    fed.write(20)
    for steps in (7, 30, 2):
        fed.cycle(steps)
    saved = {k: v.copy() for k, v in fed.sampler.state().items()}
    other = fed.another()
    other.set_state(saved)
    assert other.check_valid() == (True, "")
    twice = Fed(name)
    twice.writer, twice.store, twice.sampler, twice.updates = fed.writer, fed.store, other, fed.updates
    slots, weight = fed.choose()
    for ours, theirs in zip((slots, weight), twice.choose(), strict=True):
        assert np.array_equal(ours, theirs)
    fed.writer.write(5)
    for sampler in (fed.sampler, other):
        sampler.written(fed.store.window())
        sampler.learned(slots, (slots % 5).astype(np.float32))
    fed.updates += 4
    for ours, theirs in zip(fed.choose(), fed.choose(sampler=other), strict=True):
        assert np.array_equal(ours, theirs)
    for key, array in fed.sampler.state().items():
        assert np.array_equal(array, other.state()[key]), key


@each
def test_what_is_cut_is_not_chosen(name):
    fed = Fed(name, share=0.02)
    fed.write(60, truncate=0.0)
    for _ in range(4):
        fed.writer.cut()
        fed.sampler.written(fed.store.window())
        fed.cycle(1)


@each
def test_nothing_is_chosen_from_nothing(name):
    fed = Fed(name)
    with pytest.raises(ValueError, match="nothing to sample"):
        fed.choose()
    empty = np.empty((0, 8))
    fed.sampler.choose(fed.store.window(), 5, 0, empty.astype(np.int64), empty.astype(np.float32))
