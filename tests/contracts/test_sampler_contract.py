"""What every sampler in replay/samplers must hold to."""

from __future__ import annotations

from dataclasses import is_dataclass

import numpy as np
import pytest

from hotloop.core.discover import load, names
from hotloop.core.schema import new_batch
from hotloop.replay.store import Window
from tests.replay.writing import Writer

PACKAGE = "hotloop.replay.samplers"
SAMPLERS = names(PACKAGE)


@pytest.fixture(autouse=True)
def _wrapping_is_meant():
    with np.errstate(over="ignore"):  # as plain Python (NUMBA_DISABLE_JIT=1) NumPy warns where hashing wraps
        yield


@pytest.mark.parametrize("name", SAMPLERS)
def test_declares_its_own_frozen_options(name):
    options = load(PACKAGE, name).Options()
    assert is_dataclass(options) and options.__dataclass_params__.frozen  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("share", [0.02, 1.0])
def test_names_only_slots_the_store_gives_out(name, share):
    w = Writer(lanes=3, capacity=40, n_step=3, share=share)
    slots = np.empty((4, 33), np.int64)
    batch = new_batch(w.spec, 4, 33)
    for steps in (5, 4, 30, 1, 200, 3):
        w.write(steps, truncate=0.3)
        load(PACKAGE, name).choose(w.store.window(), 7, steps, slots)
        w.store.gather(slots, batch)  # refuses any slot outside the window


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_same_request_is_answered_alike_and_every_row_is_filled(name):
    window = Window(lanes=4, slots_per_lane=50, oldest=45, count=33, first=95)
    answers = []
    for filler in (-1, 10**9):
        out = np.full((3, 17), filler, np.int64)
        load(PACKAGE, name).choose(window, 5, 11, out)
        answers.append(out)
    assert (answers[0] == answers[1]).all()


@pytest.mark.parametrize("name", SAMPLERS)
def test_choosing_nothing_from_nothing_is_allowed_so_that_kernels_compile_before_the_first_step(name):
    load(PACKAGE, name).choose(Window(4, 50, 0, 0, 0), 5, 0, np.empty((0, 8), np.int64))
