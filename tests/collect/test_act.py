from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from hotloop.collect import act
from hotloop.collect.act import (
    Options,
    boltzmann,
    epsilon,
    epsilon_greedy,
    gauges,
    lane_keys,
    lane_powers,
    random_legal,
    temperature,
)
from hotloop.core import random

NO_MASK = np.ones((1, 1), np.bool_)
with np.errstate(over="ignore"):  # as plain Python NumPy warns where hashing wraps
    KEYS = lane_keys(11, random.EXPLORE, 4000)


def choose(
    q: np.ndarray,
    mask: np.ndarray | None,
    share: float,
    keys: np.ndarray,
    step: int,
    powers: np.ndarray | None = None,
) -> np.ndarray:
    out = np.full(len(q), -9, np.int32)
    powers = np.ones(len(q)) if powers is None else powers
    epsilon_greedy(q, NO_MASK if mask is None else mask, mask is not None, share, powers, keys, step, out)
    return out


def some_masks(rng: np.random.Generator, rows: int, actions: int) -> np.ndarray:
    mask = rng.random((rows, actions)) < 0.5
    mask[np.arange(rows), rng.integers(0, actions, rows)] = True
    return mask


def test_linear_schedule():
    o = Options(schedule="linear", start=0.9, end=0.1, decay_env_steps=1000)
    found = [epsilon(o, s) for s in (0, 250, 500, 1000, 1001, 10**12)]
    assert found == pytest.approx([0.9, 0.7, 0.5, 0.1, 0.1, 0.1])


def test_exponential_schedule():
    o = Options(schedule="exponential", start=1.0, end=0.05, decay_env_steps=1000)
    found = [epsilon(o, s) for s in (0, 500, 1000, 2000, 10**12)]
    assert found == pytest.approx([1.0, 0.05 + 0.95 * 0.1, 0.05 + 0.95 * 0.01, 0.05 + 0.95 * 1e-4, 0.05])
    assert all(math.isfinite(e) and e >= 0.05 for e in found)


@pytest.mark.parametrize("schedule", ["linear", "exponential"])
def test_schedules_may_rise_and_may_stand(schedule):
    rising = Options(schedule=schedule, start=0.0, end=1.0, decay_env_steps=10)
    found = [epsilon(rising, s) for s in range(30)]
    assert found == sorted(found) and found[0] == 0
    assert {epsilon(Options(schedule=schedule, start=0.3, end=0.3), s) for s in (0, 5, 10**9)} == {0.3}


def test_the_share_of_random_actions_is_epsilon():
    """Greedy is action 0 of 5, so a fifth of the random ones look greedy too."""
    q = np.tile(np.array([1, 0, 0, 0, 0], np.float32), (4000, 1))
    for share in (0.0, 0.05, 0.5, 0.97):
        strayed = sum(np.count_nonzero(choose(q, None, share, KEYS, step)) for step in range(20))
        expected, spread = 80_000 * share * 0.8, math.sqrt(80_000 * max(share * 0.8 * (1 - share * 0.8), 1e-9))
        assert abs(strayed - expected) < 4.5 * spread + 1e-6
    # the random ones are uniform
    picks = np.concatenate([choose(q, None, 1.0, KEYS, step) for step in range(20)])
    assert stats.chisquare(np.bincount(picks, minlength=5)).pvalue > 1e-4


def test_every_lane_tosses_its_own_coin():
    """How many of 40 lanes explore in one step is binomial; one coin for all would give only 0 and 40."""
    q = np.tile(np.array([1, 0], np.float32), (40, 1))
    strayed = np.array([(choose(q, None, 0.6, KEYS[:40], step) == 1) for step in range(4000)])  # p = 0.3 each
    per_step = strayed.sum(1)
    bins = np.array([0, 8, 10, 11, 12, 13, 14, 16, 41])
    seen = np.array([np.count_nonzero((per_step >= a) & (per_step < b)) for a, b in pairwise(bins)])
    cdf = stats.binom(40, 0.3).cdf(bins - 1)
    assert stats.chisquare(seen, 4000 * np.diff(cdf)).pvalue > 1e-4
    # and from one step to the next it is tossed anew
    both = np.count_nonzero(strayed[1:] & strayed[:-1]) / strayed[1:].size
    assert abs(both - 0.09) < 0.004
    together = np.corrcoef(strayed[:, :8].T.astype(float))
    assert np.abs(together - np.eye(8)).max() < 0.08


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_illegal_actions_are_never_chosen(share):
    """10^5 draws over masks of which some leave a single action, with the illegal ones worth most."""
    rng = np.random.default_rng(0)
    greedy = 0
    for step in range(25):
        mask = some_masks(rng, 4000, 6)
        q = rng.standard_normal((4000, 6)).astype(np.float32) + 100 * ~mask
        chosen = choose(q, mask, share, KEYS, step)
        assert mask[np.arange(4000), chosen].all()
        greedy += np.count_nonzero(chosen == np.where(mask, q, -np.inf).argmax(1))
    assert greedy == 100_000 if share == 0 else 30_000 < greedy < 80_000


@pytest.mark.parametrize("masked", [False, True])
def test_random_legal_is_uniform_and_draws_what_epsilon_greedy_draws(masked):
    mask = np.array([[True, False, True, True, False], [False, True, False, False, True]]).repeat(2000, axis=0)
    given = mask if masked else NO_MASK
    q = np.zeros((4000, 5), np.float32)
    counts = np.zeros((2, 5), np.int64)
    for step in range(10):
        out = np.full(4000, -9, np.int32)
        random_legal(given, masked, 5, KEYS, step, out)
        assert np.array_equal(out, choose(q, mask if masked else None, 1.0, KEYS, step))
        counts += [np.bincount(half, minlength=5) for half in (out[:2000], out[2000:])]
    for row in range(2):
        legal = mask[2000 * row] if masked else np.ones(5, bool)
        assert counts[row][~legal].sum() == 0
        assert stats.chisquare(counts[row][legal]).pvalue > 1e-4


def test_an_explored_action_is_independent_of_the_coin():
    """Lower draws of the coin explore at lower epsilon: what they explore must not lean to low actions."""
    q = np.tile(np.array([0, 0, 0, 0, 1], np.float32), (4000, 1))
    picks = np.concatenate([choose(q, None, 0.1, KEYS, step) for step in range(60)])
    assert stats.chisquare(np.bincount(picks, minlength=5)[:4]).pvalue > 1e-4


def test_greedy_takes_the_first_of_equals_and_survives_values_that_are_not_finite():
    q = np.array([[1, 3, 3], [-np.inf, -np.inf, -np.inf], [np.nan, np.nan, np.nan]], np.float32)
    mask = np.array([[True, True, True], [False, True, True], [False, False, True]])
    assert choose(q, mask, 0.0, KEYS[:3], 0).tolist() == [1, 1, 2]


def test_lane_keys_do_not_depend_on_the_number_of_lanes_and_differ_by_seed_stream_and_lane():
    few, many = lane_keys(5, random.EXPLORE, 8), lane_keys(5, random.EXPLORE, 256)
    assert np.array_equal(few, many[:8]) and np.array_equal(lane_keys(5, random.EXPLORE, 4, first_lane=4), few[4:])
    others = [many, lane_keys(6, random.EXPLORE, 256), lane_keys(5, random.POLICY, 256)]
    assert len(np.unique(np.concatenate(others))) == 3 * 256 and many.dtype == np.uint64
    assert act.lane_keys(0, random.EXPLORE, 0).shape == (0,)


# --- lanes that explore differently ----------------------------------------------------------------------------------


def test_powers_are_those_of_ape_x_and_depend_on_the_lane_of_all_lanes():
    """Horgan et al. 2018, section 4.1: epsilon 0.4, alpha 7, lane i of N."""
    powers = lane_powers(Options(lane_power=7.0), 8, 8)
    assert 0.4**powers == pytest.approx([0.4 ** (1 + i / 7 * 7) for i in range(8)])
    parts = [lane_powers(Options(lane_power=7.0), 4, 8, first_lane=first) for first in (0, 4)]
    assert np.array_equal(np.concatenate(parts), powers)
    assert lane_powers(Options(lane_power=7.0), 1, 1).tolist() == [1.0]
    assert (lane_powers(Options(), 8, 8) == 1).all()


def test_each_lane_explores_by_its_own_share_whichever_process_asks():
    lanes, steps = 4, 4000
    o = Options(start=0.4, end=0.4, lane_power=2.0)
    powers, keys = lane_powers(o, lanes, lanes), KEYS[:lanes]
    q = np.tile(np.array([1, 0], np.float32), (lanes, 1))
    chosen = np.array([choose(q, None, 0.4, keys, step, powers) for step in range(steps)])
    share = 0.4 ** np.array([1, 5 / 3, 7 / 3, 3]) / 2  # half of the random ones look greedy
    assert np.abs(chosen.mean(0) - share).max() < 4.5 * math.sqrt(0.25 / steps)
    own = lane_powers(o, 2, lanes, first_lane=2)
    assert np.array_equal([choose(q[2:], None, 0.4, keys[2:], step, own) for step in range(steps)], chosen[:, 2:])


def test_what_a_row_says_of_exploration():
    assert gauges(Options(start=0.5, end=0.1, decay_env_steps=100), 50, 4) == {"epsilon": pytest.approx(0.3)}
    found = gauges(Options(start=0.4, end=0.4, lane_power=1.0), 0, 3)
    each = [0.4, 0.4**1.5, 0.16]
    assert found == pytest.approx({"epsilon": sum(each) / 3, "epsilon_least": 0.16, "epsilon_most": 0.4})
    cooling = Options(kind="boltzmann", temperature_start=2.0, temperature_end=1.0, decay_env_steps=100)
    assert gauges(cooling, 50, 4) == {"temperature": pytest.approx(1.5)}


# --- Boltzmann -------------------------------------------------------------------------------------------------------


def soften(q: np.ndarray, mask: np.ndarray | None, warmth: float, keys: np.ndarray, step: int) -> np.ndarray:
    out = np.full(len(q), -9, np.int32)
    boltzmann(q, NO_MASK if mask is None else mask, mask is not None, warmth, keys, step, out)
    return out


def test_temperature_falls_as_epsilon_does():
    o = Options(kind="boltzmann", temperature_start=5.0, temperature_end=1.0, decay_env_steps=1000)
    assert [temperature(o, s) for s in (0, 250, 1000, 10**9)] == pytest.approx([5, 4, 1, 1])
    slow = Options(schedule="exponential", temperature_start=5.0, temperature_end=1.0, decay_env_steps=1000)
    assert [temperature(slow, s) for s in (0, 500, 1000)] == pytest.approx([5, 1.4, 1.04])


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("warmth", [0.3, 1.0, 4.0])
def test_actions_come_as_often_as_softmax_says(masked, warmth):
    row = np.array([1000.5, 999.0, 1001.0, 1000.0, 1003.0], np.float32)  # exp of any of these overflows
    mask = np.array([True, True, True, True, not masked])
    q, masks = np.tile(row, (4000, 1)), np.tile(mask, (4000, 1))
    found = np.concatenate([soften(q, masks if masked else None, warmth, KEYS, step) for step in range(10)])
    powers = np.where(mask, np.exp((row.astype(float) - 1000) / warmth), 0)
    counts = np.bincount(found, minlength=5)
    assert counts[~mask].sum() == 0
    assert stats.chisquare(counts[mask], len(found) * (powers / powers.sum())[mask]).pvalue > 1e-4


@pytest.mark.parametrize("warmth", [0.0, 1e-300, 0.5, 1e300])
def test_softened_choices_are_legal_whatever_the_values(warmth):
    rng = np.random.default_rng(0)
    strange = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 0.0, 1e-40], np.float32)
    for step in range(5):
        mask, q = some_masks(rng, 4000, 6), rng.choice(strange, (4000, 6))
        with np.errstate(over="ignore"):  # as plain Python
            chosen = soften(q, mask, warmth, KEYS, step)
        assert mask[np.arange(4000), chosen].all()
        values = np.where(mask, q, np.nan)
        known = ~np.isnan(values).all(1) & ~np.isnan(values[np.arange(4000), mask.argmax(1)])
        assert not np.isnan(values[np.arange(4000), chosen][known]).any(), "not a number was preferred to one"


def test_at_temperature_0_it_is_greedy_and_at_a_great_one_uniform():
    q = np.random.default_rng(1).standard_normal((4000, 5)).astype(np.float32)
    assert np.array_equal(soften(q, None, 0.0, KEYS, 3), q.argmax(1))
    assert np.array_equal(soften(q, None, 1e-12, KEYS, 3), q.argmax(1))
    hot = np.concatenate([soften(q, None, 1e9, KEYS, step) for step in range(10)])
    assert stats.chisquare(np.bincount(hot, minlength=5)).pvalue > 1e-4


# --- all of them -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "o", [Options(start=0.5, end=0.5), Options(start=0.5, end=0.5, lane_power=3.0), Options(kind="boltzmann")], ids=str
)
def test_a_lane_chooses_the_same_beside_others_and_again(o):
    rng, mask = np.random.default_rng(2), some_masks(np.random.default_rng(3), 12, 4)
    q = rng.standard_normal((12, 4)).astype(np.float32)

    def chosen(first: int, lanes: int, step: int) -> np.ndarray:
        rows, out = slice(first, first + lanes), np.full(lanes, -9, np.int32)
        powers = lane_powers(o, lanes, 12, first)
        act.choose(o, powers, KEYS[rows], 0, step, lambda: q[rows], mask[rows], True, 4, out)
        return out

    for step in range(50):
        whole = chosen(0, 12, step)
        assert np.array_equal(np.concatenate([chosen(0, 5, step), chosen(5, 7, step)]), whole)
        assert np.array_equal(chosen(0, 12, step), whole)


def test_values_are_not_asked_for_where_every_action_is_random():
    def never() -> np.ndarray:
        raise AssertionError("asked")

    out = np.full(6, -9, np.int32)
    for o in (Options(start=1.0, end=1.0), Options(start=1.0, end=0.0, lane_power=7.0)):
        act.choose(o, lane_powers(o, 6, 6), KEYS[:6], 0, 0, never, NO_MASK, False, 3, out)
        assert ((out >= 0) & (out < 3)).all()
