"""Projections, quantile losses and soft values against loops as the papers write them, and against numbers worked out
by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hotloop.learn.targets import best, log_policy, of_action, project, quantile_huber, soft_bootstrap

NONE = torch.finfo(torch.float64).min


def loops_project(p, reward, discount, low, high):
    """Bellemare et al. 2017, arXiv 1707.06887, algorithm 1, line by line."""
    atoms = len(p[0])
    step = (high - low) / (atoms - 1)
    out = np.zeros((len(p), atoms))
    for row in range(len(p)):
        for j in range(atoms):
            moved = min(max(reward[row] + discount[row] * (low + j * step), low), high)
            b = min(max((moved - low) / step, 0.0), atoms - 1.0)
            lower, upper = math.floor(b), math.ceil(b)
            if lower == upper:  # the algorithm as printed would lose this share
                out[row, lower] += p[row][j]
            else:
                out[row, lower] += p[row][j] * (upper - b)
                out[row, upper] += p[row][j] * (b - lower)
    return out


def loops_quantile_huber(quantiles, goal, fractions, kappa):
    """Dabney et al. 2018, arXiv 1710.10044, eq. 10, and arXiv 1806.06923, eq. 3."""
    out = []
    for row in range(len(quantiles)):
        total = 0.0
        for i, theta in enumerate(quantiles[row]):
            for following in goal[row]:
                u = following - theta
                huber = 0.5 * u * u if abs(u) <= kappa else kappa * (abs(u) - 0.5 * kappa)
                total += abs(fractions[row][i] - (1.0 if u < 0 else 0.0)) * huber / kappa / len(goal[row])
        out.append(total)
    return np.array(out)


reals = st.floats(-20, 20, allow_subnormal=False)


@st.composite
def distributions(draw):
    rows, atoms = draw(st.integers(1, 4)), draw(st.integers(2, 9))
    low = draw(st.floats(-10, 9))
    high = low + draw(st.floats(0.125, 15))
    p = draw(arrays(np.float64, (rows, atoms), elements=st.floats(0.01, 1)))
    reward = draw(arrays(np.float64, rows, elements=reals))
    discount = draw(arrays(np.float64, rows, elements=st.sampled_from([0.0, 0.5, 0.97**3, 0.99, 1.0])))
    return p / p.sum(1, keepdims=True), reward, discount, low, high


@given(distributions())
@settings(max_examples=200, deadline=None)
def test_projection_is_the_papers_loop(given):
    p, reward, discount, low, high = given
    ours = project(*map(torch.from_numpy, (p, reward, discount)), low, high).numpy()
    assert np.allclose(ours, loops_project(p, reward, discount, low, high), rtol=0, atol=1e-9)
    assert np.allclose(ours.sum(1), 1, atol=1e-12) and (ours >= 0).all()
    # Where nothing is cut off, the mean moves as a value would.
    support = np.linspace(low, high, p.shape[1])
    inside = (reward + discount * low >= low) & (reward + discount * high <= high)
    assert np.allclose((ours @ support)[inside], (reward + discount * (p @ support))[inside], atol=1e-8)


def test_projection_by_hand():
    p = torch.tensor([[0.25, 0.5, 0.25]] * 5)  # of returns 0, 1 and 2
    reward = torch.tensor([0.0, 0.5, 1.0, 0.5, 9.0])
    discount = torch.tensor([1.0, 1.0, 0.5, 0.0, 1.0])
    assert project(p, reward, discount, 0.0, 2.0).tolist() == [
        [0.25, 0.5, 0.25],  # nothing moves
        [0.125, 0.375, 0.5],  # to 0.5, 1.5, and 2.5 which is cut to 2
        [0.0, 0.5, 0.5],  # to 1, 1.5, 2
        [0.5, 0.5, 0.0],  # a terminal row: all of it at 0.5
        [0.0, 0.0, 1.0],  # beyond the last atom
    ]


def test_a_place_next_to_the_last_atom_stays_among_the_atoms_in_float32():
    for low, high, atoms in ((-10.0, 10.0, 51), (0.0, 200.0, 51), (-1.0, 1.0, 3), (-7.3, 11.9, 200)):
        p = torch.full((2000, atoms), 1 / atoms)
        reward = torch.linspace(low, high, 2000)
        out = project(p, reward, torch.linspace(0.9, 1.0, 2000), low, high)
        assert torch.allclose(out.sum(1), torch.ones(2000), atol=1e-5) and (out >= 0).all()


@given(st.data(), st.integers(1, 3), st.integers(1, 5), st.integers(1, 5), st.sampled_from([0.1, 1.0, 3.0]))
@settings(max_examples=200, deadline=None)
def test_the_quantile_loss_is_the_papers_loop(data, rows, n, m, kappa):
    quantiles = data.draw(arrays(np.float64, (rows, n), elements=reals))
    goal = data.draw(arrays(np.float64, (rows, m), elements=reals))
    fractions = data.draw(arrays(np.float64, (rows, n), elements=st.floats(0, 1)))
    ours = quantile_huber(*map(torch.from_numpy, (quantiles, goal, fractions)), kappa).numpy()
    assert np.allclose(ours, loops_quantile_huber(quantiles, goal, fractions, kappa), rtol=1e-12, atol=1e-12)
    # and the same fractions for all rows, as QR-DQN has them
    ours = quantile_huber(*map(torch.from_numpy, (quantiles, goal, fractions[0])), kappa).numpy()
    assert np.allclose(
        ours, loops_quantile_huber(quantiles, goal, fractions[[0] * rows], kappa), rtol=1e-12, atol=1e-12
    )


def test_the_quantile_loss_is_least_at_the_quantiles():
    """Of 1, 2, 3, 4 the midpoints of four equal parts are the four themselves, whatever their order."""
    goal = torch.tensor([[3.0, 1.0, 4.0, 2.0]], dtype=torch.float64)
    quantiles = torch.zeros(1, 4, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([quantiles], lr=0.02)
    midpoints = (torch.arange(4) + 0.5) / 4
    for _ in range(3000):
        optimizer.zero_grad()
        quantile_huber(quantiles, goal, midpoints, 0.01).sum().backward()
        optimizer.step()
    assert (quantiles - torch.tensor([[1.0, 2.0, 3.0, 4.0]])).abs().max() < 0.05


finite = st.floats(-50, 50, allow_subnormal=False)


@given(arrays(np.float64, (5, 4), elements=finite), arrays(np.bool_, (5, 4)), st.sampled_from([0.03, 0.5, 10.0]))
@settings(max_examples=150, deadline=None)
def test_soft_values_are_the_papers_sum_over_legal_actions(q, mask, tau):
    """Vieillard et al. 2020, arXiv 2007.14430, eq. 1: Σ_a π(a|s)(q(s, a) − τ ln π(a|s))."""
    mask[:, 1] = True
    soft = soft_bootstrap(torch.from_numpy(q), torch.from_numpy(mask), tau).numpy()
    log_pi = log_policy(torch.from_numpy(q), torch.from_numpy(mask), tau).numpy()
    for row in range(5):
        legal = np.flatnonzero(mask[row])
        weights = np.exp((q[row, legal] - q[row, legal].max()) / tau)
        pi = weights / weights.sum()
        entropy = np.where(pi > 0, -np.log(np.where(pi > 0, pi, 1.0)), 0.0)
        assert soft[row] == pytest.approx(pi @ (q[row, legal] + tau * entropy), abs=1e-9)
        assert np.exp(log_pi[row, legal]) == pytest.approx(pi, abs=1e-12)
        assert (log_pi[row][~mask[row]] == -np.inf).all()


@given(arrays(np.float32, (6, 4), elements=st.floats(-1e3, 1e3, width=32)), st.data())
@settings(max_examples=100, deadline=None)
def test_what_an_illegal_action_is_worth_never_matters(q, data):
    mask = data.draw(arrays(np.bool_, (6, 4)))
    mask[np.arange(6), data.draw(arrays(np.int64, 6, elements=st.integers(0, 3)))] = True
    worth = data.draw(st.sampled_from([1e30, -1e30, float("inf"), float("nan")]))
    values, legal = torch.from_numpy(q), torch.from_numpy(mask)
    changed = values.masked_fill(~legal, worth)
    assert torch.equal(soft_bootstrap(values, legal, 0.03), soft_bootstrap(changed, legal, 0.03))
    assert torch.equal(log_policy(values, legal, 0.03), log_policy(changed, legal, 0.03))
    assert torch.equal(best(values, legal), best(changed, legal))
    assert legal.gather(1, best(changed, legal)[:, None]).all()


def test_the_numbers_of_an_action():
    output = torch.arange(24.0).reshape(2, 3, 4)
    assert of_action(output, torch.tensor([2, 0])).tolist() == [[8.0, 9.0, 10.0, 11.0], [12.0, 13.0, 14.0, 15.0]]
