"""The store against the naive model: any blocks, any shape, every sample, after every operation."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from hotloop.core import schema
from hotloop.replay.store import Store
from tests.replay.writing import PARTS, PIXELS, PLAIN, Writer


class StoreMachine(RuleBasedStateMachine):
    @initialize(
        observation=st.sampled_from([PLAIN, PIXELS, PARTS]),
        lanes=st.integers(1, 4),
        capacity=st.sampled_from([1, 2, 7, 13, 29]),
        n_step=st.sampled_from([1, 3, 5]),
        share=st.sampled_from([0.01, 0.2, 1.0]),
        masked=st.booleans(),
        actions=st.sampled_from([2, 8, 11]),
        seed=st.integers(0, 2**32 - 1),
    )
    def start(self, **options):
        self.writer = Writer(**options)

    @rule(
        steps=st.integers(0, 12),
        terminate=st.sampled_from([0.0, 0.1, 0.6]),
        truncate=st.sampled_from([0.0, 0.1, 0.6, 1.0]),
        together=st.booleans(),
    )
    def write(self, steps, terminate, truncate, together):
        self.writer.write(steps, terminate, truncate, together)
        self.writer.compare()

    @rule(extra=st.integers(-1, 40))
    def write_longer_than_a_lane(self, extra):
        self.writer.write(self.writer.store.slots_per_lane + extra)
        self.writer.compare()

    @rule()
    def cut(self):
        self.writer.cut()
        self.writer.compare()

    @rule()
    def move_to_a_new_store(self):
        w = self.writer
        saved = {name: array.copy() for name, array in w.store.state().items()}
        w.store = Store(w.spec, w.options, w.store.lanes, w.store.gamma)
        w.store.set_state(saved)
        w.compare()


@pytest.mark.parametrize("poisoned", [True, False])
def test_any_sequence_of_operations_equals_the_model(poisoned, monkeypatch):
    # Poison shows what is read too early; but a poisoned end flag is an end, so new memory must be tried as well.
    monkeypatch.setattr(schema, "POISON", poisoned)
    run_state_machine_as_test(
        StoreMachine,
        settings=settings(
            max_examples=100,
            stateful_step_count=12,
            deadline=None,
            derandomize=True,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
