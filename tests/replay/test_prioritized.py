"""Prioritized sampling against a naive model: a dictionary of priorities by lane and step."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from scipy.stats import chisquare

from hotloop.core.errors import UserError
from hotloop.core.random import SAMPLE, stream_key, uniform
from hotloop.core.schema import new_batch
from hotloop.replay.samplers import prioritized
from hotloop.replay.samplers.prioritized import Options
from hotloop.replay.store import Window
from tests.replay.writing import PARTS, PIXELS, PLAIN, Writer

SEED = 3


class Told:
    """A store, its model, a sampler, and what the sampler should know: (lane, step) -> priority."""

    def __init__(self, options: Options | None = None, **writer) -> None:
        self.options = options or Options()
        self.writer = Writer(**writer)
        self.store = self.writer.store
        self.sampler = self.another()
        self.known: dict[tuple[int, int], float] = {}
        self.largest, self.updates = 1.0, 0

    def another(self):
        return prioritized.make(self.options, self.store.lanes, self.store.slots_per_lane, 5_000)

    def sync(self) -> None:
        """After the store changed: what left is forgotten, what came has the largest priority yet."""
        self.sampler.written(self.store.window())
        inside = self.writer.model.sampleable()
        self.known = {key: self.known.get(key, self.largest) for key in inside}
        self.compare()

    def leaf(self, priority: float) -> float:
        return (priority + self.options.floor) ** self.options.alpha

    def slot(self, lane: int, step: int) -> int:
        return lane * self.store.slots_per_lane + step % self.store.slots_per_lane

    def compare(self) -> None:
        assert self.sampler.check_valid() == (True, "")
        leaves = np.zeros(self.store.lanes * self.store.slots_per_lane)
        for key, priority in self.known.items():
            leaves[self.slot(*key)] = self.leaf(priority)
        ours = self.sampler.state()["leaf"].T.reshape(-1)
        np.testing.assert_allclose(ours, leaves, rtol=1e-14)
        np.testing.assert_array_equal(ours > 0, leaves > 0)
        assert self.sampler._tree[1] == pytest.approx(math.fsum(ours), rel=1e-14)

    def choose(self, updates: int = 3, size: int = 11) -> tuple[np.ndarray, np.ndarray]:
        slots, weight = np.full((updates, size), -1), np.full((updates, size), np.nan, np.float32)
        self.sampler.choose(self.store.window(), SEED, self.updates, slots, weight)
        self.updates += updates
        return slots, weight

    def assert_chosen_rightly(self, slots: np.ndarray, weight: np.ndarray) -> None:
        """Each draw lies in its own leaf's share of its own part of the sum; weights follow from the definition."""
        lanes, per_lane = self.store.lanes, self.store.slots_per_lane
        key_of = {self.slot(*key): key for key in self.known}
        order = sorted(self.known, key=lambda key: (key[1] % per_lane, key[0]))
        ends = dict(zip(order, np.cumsum([self.leaf(self.known[key]) for key in order]), strict=True))
        total, (updates, size) = sum(self.leaf(p) for p in self.known.values()), slots.shape
        stream = stream_key(SEED, SAMPLE, 0)
        env_steps = (self.store.window().first + self.store.window().count) * lanes
        o = self.options
        beta = o.beta + (o.beta_end - o.beta) * min(1, env_steps / (o.beta_anneal_env_steps or 5_000))
        for u in range(updates):
            chance = []
            for b in range(size):
                key = key_of[int(slots[u, b])]
                leaf = self.leaf(self.known[key])
                target = (b + uniform(stream, self.updates - updates + u, b)) * total / size
                assert ends[key] - leaf - 1e-9 * total <= target <= ends[key] + 1e-9 * total
                chance.append(leaf / total)
            raw = (len(self.known) * np.array(chance)) ** -beta
            np.testing.assert_allclose(weight[u], raw / raw.max(), rtol=1e-5)

    def learn(self, slots: np.ndarray, priority: np.ndarray, keys: dict[int, tuple[int, int]]) -> None:
        """keys: slot -> (lane, step) as it was when it was chosen."""
        self.sampler.learned(slots, priority)
        for slot, new in zip(slots.reshape(-1).tolist(), priority.reshape(-1).tolist(), strict=True):
            if 0 <= new < math.inf and keys[slot] in self.known:
                self.known[keys[slot]] = new
                self.largest = max(self.largest, new)
        self.compare()

    def keys(self) -> dict[int, tuple[int, int]]:
        return {self.slot(*key): key for key in self.known}


PRIORITIES = st.sampled_from([0.0, 1e-12, 0.3, 1.0, 7.5, 1e6, 1e30, math.nan, math.inf, -1.0])


class PrioritizedMachine(RuleBasedStateMachine):
    @initialize(
        observation=st.sampled_from([PLAIN, PIXELS, PARTS]),
        lanes=st.integers(1, 4),
        capacity=st.sampled_from([1, 2, 7, 13, 29]),
        n_step=st.sampled_from([1, 3, 5]),
        share=st.sampled_from([0.01, 0.2, 1.0]),
        masked=st.booleans(),
        alpha=st.sampled_from([0.0, 0.6, 1.0]),
        seed=st.integers(0, 2**32 - 1),
    )
    def start(self, alpha, **options):
        self.told = Told(Options(alpha=alpha, floor=1e-3), **options)

    @rule(steps=st.integers(0, 12), truncate=st.sampled_from([0.0, 0.1, 0.6, 1.0]))
    def write(self, steps, truncate):
        self.told.writer.write(steps, 0.1, truncate)
        self.told.sync()

    @rule(extra=st.integers(-1, 40))
    def write_longer_than_a_lane(self, extra):
        self.told.writer.write(self.told.store.slots_per_lane + extra)
        self.told.sync()

    @rule()
    def cut(self):
        self.told.writer.cut()
        self.told.sync()

    @rule(
        meanwhile=st.one_of(st.none(), st.integers(0, 30)),
        drawn=st.lists(PRIORITIES, min_size=33, max_size=33),
        changed=st.booleans(),
    )
    def learn(self, meanwhile, drawn, changed):
        """meanwhile: steps of a block that is committed between choosing and learning."""
        t = self.told
        if not t.known:
            return
        slots, weight = t.choose()
        t.assert_chosen_rightly(slots, weight)
        t.store.gather(slots, new_batch(t.store.spec, *slots.shape))
        keys = t.keys()
        if meanwhile is not None:
            t.writer.write(meanwhile, 0.1, 0.2)
            t.sync()
        t.learn(slots, np.array(drawn, np.float32).reshape(slots.shape), keys)

    @rule()
    def move_to_a_new_sampler(self):
        saved = {name: array.copy() for name, array in self.told.sampler.state().items()}
        self.told.sampler = self.told.another()
        self.told.sampler.set_state(saved)
        self.told.compare()


def test_any_sequence_of_operations_equals_the_model():
    run_state_machine_as_test(
        PrioritizedMachine,
        settings=settings(
            max_examples=60,
            stateful_step_count=12,
            deadline=None,
            derandomize=True,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


# --- one by one ------------------------------------------------------------------------------------------------------


def filled(options: Options | None = None, steps: int = 60, **writer) -> Told:
    told = Told(options, **{"lanes": 2, "capacity": 40, **writer})
    told.writer.write(steps, 0.1, 0.0)
    told.sync()
    return told


def learn_all(told: Told, priority: np.ndarray) -> None:
    """Give every slot of the window a priority, lane by lane from the oldest on."""
    told.choose()
    told.learn(told.writer.slots(), priority.reshape(1, -1).astype(np.float32), told.keys())


def test_slots_are_chosen_as_often_as_their_priorities_say():
    told = filled(Options(alpha=0.7))
    learn_all(told, np.arange(40) ** 2 / 10)
    slots, _ = told.choose(updates=4_000, size=16)
    expected = np.array([told.leaf(p) for p in told.known.values()])
    counts = np.bincount(slots.reshape(-1), minlength=2 * told.store.slots_per_lane)
    found = np.array([counts[told.slot(*key)] for key in told.known])
    assert found.sum() == slots.size
    often = expected / expected.sum() * slots.size > 5  # where the test's approximation holds
    assert often.sum() > 30
    merged = [np.append(x[often], x[~often].sum()) for x in (found, expected / expected.sum() * slots.size)]
    assert chisquare(*merged).pvalue > 0.001


def test_alpha_0_is_uniform_whatever_the_priorities():
    told = filled(Options(alpha=0.0))
    learn_all(told, np.arange(40) ** 3)
    slots, weight = told.choose(updates=4_000, size=16)
    counts = np.bincount(slots.reshape(-1), minlength=2 * told.store.slots_per_lane)
    assert chisquare(counts[told.writer.slots()[0]]).pvalue > 0.001
    assert (weight == 1).all()


def test_weights_make_up_for_the_choice_where_beta_is_1():
    """The weighted mean of anything over what is chosen is its mean over the window (eq. 1 of the paper with β = 1)."""
    told = filled(Options(beta=1.0))
    learn_all(told, np.linspace(0.5, 3, 40))
    slots, weight = told.choose(updates=6_000, size=16)
    worth = np.random.default_rng(0).normal(size=2 * told.store.slots_per_lane)
    true = worth[told.writer.slots()[0]].mean()
    plain, mended = worth[slots].mean(), (worth[slots] * weight).sum() / weight.sum()
    assert abs(mended - true) < 0.01 < abs(plain - true)


def test_each_batch_s_largest_weight_is_1():
    told = filled()
    learn_all(told, np.arange(40))
    _, weight = told.choose(updates=50)
    assert (weight.max(axis=1) == 1).all() and (weight.min(axis=1) < 1).all()


def test_one_is_drawn_from_each_part_of_the_sum():
    told = filled(Options(alpha=0.0))
    slots, _ = told.choose(updates=5, size=40)
    assert all(len(set(row)) > 30 for row in slots.tolist())  # 40 independent draws of 40 name some 25 of them


def test_beta_goes_from_the_one_to_the_other_in_env_steps():
    sampler = prioritized.make(Options(beta=0.4, beta_end=0.9, beta_anneal_env_steps=1_000), 2, 50, 77)
    assert [sampler.beta(n) for n in (0, 500, 1_000, 10**9)] == pytest.approx([0.4, 0.65, 0.9, 0.9])
    assert prioritized.make(Options(), 2, 50, 4_000).beta(2_000) == pytest.approx(0.7)


def test_the_new_have_the_largest_priority_yet():
    told = filled()
    learn_all(told, np.full(40, 9.0))
    learn_all(told, np.full(40, 0.5))
    told.writer.write(1)
    told.sync()
    assert sorted(told.known.values()) == [0.5] * 38 + [9.0] * 2


def test_of_a_slot_named_twice_the_later_counts():
    told = filled()
    told.choose()
    slot = told.writer.slots()[0, 5]
    told.sampler.learned(np.array([[slot, slot], [slot, slot]]), np.array([[1, 2], [4, 3]], np.float32))
    leaf = told.sampler.state()["leaf"].T.reshape(-1)[slot]
    assert leaf == told.leaf(3.0) and told.sampler.state()["largest"] == 4


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -0.5])
def test_what_is_no_priority_changes_nothing(bad):
    told = filled()
    learn_all(told, np.arange(40))
    before = {k: v.copy() for k, v in told.sampler.state().items()}
    learn_all(told, np.full(40, bad))
    for name, array in told.sampler.state().items():
        assert np.array_equal(array, before[name])


def test_a_slot_that_was_taken_over_keeps_what_is_new_in_it():
    """Chosen, then overwritten by the block that was collected meanwhile: the old priority is of another transition."""
    told = filled(lanes=1, capacity=8, steps=8)
    slots, _ = told.choose()
    told.writer.write(told.store.slots_per_lane, 0.1, 0.0)
    told.sync()
    told.sampler.learned(slots, np.full(slots.shape, 50.0, np.float32))
    assert set(told.known.values()) == {1.0} and told.sampler.state()["largest"] == 1
    told.compare()


def test_what_was_not_chosen_cannot_have_been_learnt_from():
    told = filled(steps=10)
    with pytest.raises(ValueError, match="nothing was chosen"):
        told.sampler.learned(np.zeros((1, 1), np.int64), np.ones((1, 1), np.float32))
    told.choose()
    for slot in (15, -1, 2 * told.store.slots_per_lane):
        with pytest.raises(ValueError, match=f"slot {slot} is outside"):
            told.sampler.learned(np.array([[3, slot]]), np.ones((1, 2), np.float32))
    told.compare()


def test_a_window_it_was_not_told_of_is_refused():
    told = filled(steps=10)
    told.writer.write(3)
    with pytest.raises(ValueError, match="is not the one that was written last"):
        told.choose()


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda s: s["leaf"].__setitem__((3, 0), np.nan), "a priority is not finite"),
        (lambda s: s["leaf"].__setitem__((3, 0), 0.0), "a slot inside the window has none"),
        (lambda s: s["leaf"].__setitem__((15, 1), 0.5), "a slot outside the window has a priority"),
        (lambda s: s["window"].__setitem__(1, 99), "a window of 99 steps from 0 on"),
    ],
)
def test_damage_is_refused(spoil, fault):
    told = filled(steps=10)
    state = {name: array.copy() for name, array in told.sampler.state().items()}
    spoil(state)
    with pytest.raises(UserError, match=fault):
        told.another().set_state(state)


def test_a_wrong_sum_is_seen():
    told = filled()
    told.sampler._tree[2] += 1e-9
    assert told.sampler.check_valid() == (False, "a sum is not that of its parts")


def test_memory_that_is_not_there_is_refused_before_it_is_taken(monkeypatch):
    monkeypatch.setattr(prioritized, "available", lambda: 10**6)
    with pytest.raises(UserError, match=r"sums need 2\.1 MB, but 1\.0 MB are free; lower replay\.capacity"):
        prioritized.make(Options(), 100, 1_000, 1)


def test_the_window_may_lie_anywhere():
    """Positions wrap; a window whose old end moved far is forgotten as a whole."""
    sampler = prioritized.make(Options(alpha=1.0), 2, 10, 1_000)
    for first, count in ((0, 3), (2, 9), (11, 2), (11, 2), (30, 9), (45, 0), (45, 4)):
        sampler.written(Window(2, 10, first % 10, count, first))
        assert sampler.check_valid() == (True, "")
        assert sampler._tree[1] == pytest.approx(2 * count * (1 + 1e-6))
