from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from hotloop.collect import act
from hotloop.collect.act import Options, epsilon, epsilon_greedy, lane_keys, random_legal
from hotloop.core import random

NO_MASK = np.ones((1, 1), np.bool_)
with np.errstate(over="ignore"):  # as plain Python NumPy warns where hashing wraps
    KEYS = lane_keys(11, random.EXPLORE, 4000)


def choose(q: np.ndarray, mask: np.ndarray | None, share: float, keys: np.ndarray, step: int) -> np.ndarray:
    out = np.full(len(q), -9, np.int32)
    epsilon_greedy(q, NO_MASK if mask is None else mask, mask is not None, share, keys, step, out)
    return out


def some_masks(rng: np.random.Generator, rows: int, actions: int) -> np.ndarray:
    mask = rng.random((rows, actions)) < 0.5
    mask[np.arange(rows), rng.integers(0, actions, rows)] = True
    return mask


def test_linear_schedule():
    o = Options("linear", start=0.9, end=0.1, decay_env_steps=1000)
    found = [epsilon(o, s) for s in (0, 250, 500, 1000, 1001, 10**12)]
    assert found == pytest.approx([0.9, 0.7, 0.5, 0.1, 0.1, 0.1])


def test_exponential_schedule():
    o = Options("exponential", start=1.0, end=0.05, decay_env_steps=1000)
    found = [epsilon(o, s) for s in (0, 500, 1000, 2000, 10**12)]
    assert found == pytest.approx([1.0, 0.05 + 0.95 * 0.1, 0.05 + 0.95 * 0.01, 0.05 + 0.95 * 1e-4, 0.05])
    assert all(math.isfinite(e) and e >= 0.05 for e in found)


@pytest.mark.parametrize("schedule", ["linear", "exponential"])
def test_schedules_may_rise_and_may_stand(schedule):
    rising = Options(schedule, start=0.0, end=1.0, decay_env_steps=10)
    found = [epsilon(rising, s) for s in range(30)]
    assert found == sorted(found) and found[0] == 0
    assert {epsilon(Options(schedule, start=0.3, end=0.3), s) for s in (0, 5, 10**9)} == {0.3}


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
