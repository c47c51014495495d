"""What is random about updates: the numbers themselves, and that nothing but the number of an update decides them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from hotloop.learn.chance import PASSES, Chance, outside
from hotloop.learn.learner import Options
from tests.learn.toy import VECTOR, batches, feed, learner, rows

CASES = {
    "noisy dqn": {"variant": "dqn", "variant_options": {"double": True}, "noisy_sigma": 0.5},
    "iqn": {"variant": "iqn", "variant_options": {"fractions": 3, "target_fractions": 2}},
    "noisy iqn": {"variant": "iqn", "variant_options": {"double": True}, "noisy_sigma": 0.5},
}


def drawn(seed: int, first: int, updates: int, each: int) -> tuple[np.ndarray, np.ndarray]:
    """draws and noise of so many updates, `each` at a time"""
    draws, noise = [], []
    for update in range(first, first + updates, each):
        chance = Chance(seed, each, batch=6, draws=5, noise=7)
        chance.draw(update)
        draws.append(chance.draws.copy())
        noise.append(chance.noise_inputs[0].numpy().copy())
    return np.concatenate(draws), np.concatenate(noise)


def test_numbers_depend_on_seed_and_number_of_the_update_alone():
    draws, noise = drawn(3, 40, 12, each=1)
    for each in (2, 3, 12):
        again = drawn(3, 40, 12, each)
        assert np.array_equal(again[0], draws) and np.array_equal(again[1], noise)
    shifted, other = drawn(3, 41, 12, each=12), drawn(4, 40, 12, each=12)
    assert np.array_equal(shifted[0][:-1], draws[1:]) and np.array_equal(shifted[1][:-1], noise[1:])
    assert (other[0] != draws).mean() > 0.99 and (other[1] != noise).all()


def test_no_number_is_used_twice_and_all_have_the_right_distribution():
    draws, noise = drawn(0, 0, 600, each=600)
    assert draws.shape == (600, 6, 5) and noise.shape == (600, PASSES, 7)
    assert (draws >= 0).all() and (draws < 1).all() and stats.kstest(draws.ravel(), "uniform").pvalue > 1e-3
    assert len(np.unique(noise)) > 0.999 * noise.size
    normal = np.sign(noise) * noise.astype(np.float64) ** 2  # f(ε) = sgn(ε)·√|ε|, undone
    assert stats.kstest(normal.ravel(), "norm").pvalue > 1e-3
    flat = normal.reshape(600, -1)  # of two places, or of one place in two updates, neither tells of the other
    assert np.abs(np.corrcoef(flat.T) - np.eye(flat.shape[1])).max() < 0.2
    assert (
        np.abs(np.corrcoef(flat[:-1].T, flat[1:].T)).max(initial=0, where=~np.eye(2 * flat.shape[1], dtype=bool)) < 0.2
    )


def test_nothing_is_drawn_where_nothing_is_asked_for():
    chance = Chance(0, 4, 6, draws=0, noise=0)
    chance.draw(0)
    assert chance.draws is None and chance.noise_inputs == []


@pytest.mark.parametrize("case", CASES)
def test_how_updates_are_grouped_into_calls_changes_no_bit(case):
    batch = batches(VECTOR, 24, 16)
    options = Options(batch_size=16, target_every_updates=5)
    made = []
    for updates in (1, 3, 24):
        one = learner(options=options, updates=updates, **CASES[case])
        made.append((*feed(one, batch), one.params, one.target))
    for other in made[1:]:
        assert torch.equal(other[2], made[0][2]) and torch.equal(other[3], made[0][3])
        assert np.array_equal(other[1], made[0][1])


@pytest.mark.parametrize("case", CASES)
def test_state_and_back_gives_the_same_bits_and_the_seed_others(case):
    batch = batches(VECTOR, 12, 16)
    one = learner(updates=4, **CASES[case])
    feed(one, rows(batch, 0, 4))
    state = one.state()
    feed(one, rows(batch, 4, 8))
    other, third = learner(updates=4, **CASES[case]), learner(updates=4, seed=1, **CASES[case])
    for twin in (other, third):
        twin.set_state(state)
        feed(twin, rows(batch, 4, 8))
    assert torch.equal(one.params, other.params) and not torch.equal(one.params, third.params)


def test_online_and_target_have_noise_of_their_own():
    """The first pass of the three is the one learnt by: with the others the same, the loss changes with it alone."""
    batch = batches(VECTOR, 1, 16)
    losses = []
    for change in (None, 0, 1, 2):
        one = learner(updates=1, **CASES["noisy dqn"])
        draw = one._chance.draw

        def spoiled(update: int, one=one, draw=draw, change=change) -> None:
            draw(update)
            if change is not None:
                one._chance._noise[:, change] *= -3

        one._chance.draw = spoiled
        losses.append(feed(one, batch)[0][0, 0])
    assert len(set(losses)) == 4, "learning, choosing and target each take noise of their own"


def test_rewards_outside_are_counted_across_states():
    assert outside(np.array([[0.0, 1.0, 2.0], [-0.1, 2.1, 0.5]], np.float32), 0.0, 2.0) == 2
    batch = batches(VECTOR, 8, 16)
    limits = {"v_min": -1.0, "v_max": 1.5}
    one = learner(updates=4, variant="c51", variant_options=limits)
    feed(one, batch)
    wanted = ((batch.reward < -1.0) | (batch.reward > 1.5)).sum()
    assert one.rewards_outside == wanted > 10
    other = learner(updates=4, variant="c51", variant_options=limits)
    other.set_state(one.state())
    assert other.rewards_outside == wanted
    plain = learner(updates=4)
    feed(plain, batch)
    assert plain.reward_range is None and plain.rewards_outside == 0
