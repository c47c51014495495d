from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hotloop.learn.targets import double_q_bootstrap, huber, legal, q_bootstrap, td_target

INF = float("inf")
NEXT_Q = torch.tensor([[1.0, 5.0, 3.0], [-2.0, -1.0, -4.0]])
ONLINE = torch.tensor([[9.0, 0.0, 4.0], [-3.0, -7.0, -1.0]])
MASK = torch.tensor([[True, False, True], [True, False, False]])


def test_by_hand():
    assert q_bootstrap(NEXT_Q, None).tolist() == [5.0, -1.0]
    assert q_bootstrap(NEXT_Q, MASK).tolist() == [3.0, -2.0]
    # the online network chooses actions 0 and 2, the target network says what they are worth
    assert double_q_bootstrap(NEXT_Q, ONLINE, None).tolist() == [1.0, -4.0]
    assert double_q_bootstrap(NEXT_Q, ONLINE, torch.tensor([[False, True, True], [True, True, False]])).tolist() == [
        3.0,
        -2.0,
    ]
    target = td_target(torch.tensor([0.5, -1.0]), torch.tensor([0.81, 0.0]), torch.tensor([10.0, 1e30]))
    assert target.tolist() == pytest.approx([8.6, -1.0])
    assert legal(NEXT_Q, MASK).tolist() == [[1.0, -INF, 3.0], [-2.0, -INF, -INF]]


def test_huber_by_hand():
    error = torch.tensor([0.0, 0.5, -1.0, 1.5, -4.0])
    assert huber(error, 1.0).tolist() == [0.0, 0.125, 0.5, 1.0, 3.5]
    assert huber(error, 2.0).tolist() == [0.0, 0.125, 0.5, 1.125, 6.0]


@pytest.mark.parametrize("delta", [0.3, 1.0, 7.0])
def test_huber_and_its_gradient_are_torchs(delta):
    error = torch.linspace(-10, 10, 997, dtype=torch.float64, requires_grad=True)
    theirs = torch.nn.functional.huber_loss(error, torch.zeros_like(error), reduction="none", delta=delta)
    assert torch.allclose(huber(error, delta), theirs, rtol=1e-12, atol=0)
    (ours,) = torch.autograd.grad(huber(error, delta).sum(), error)
    assert torch.allclose(ours, error.detach().clamp(-delta, delta))


def test_huber_of_an_enormous_error_has_a_finite_gradient():
    error = torch.tensor([1e30, -1e30], requires_grad=True)  # its square overflows on the side not taken
    (gradient,) = torch.autograd.grad(huber(error, 1.0).sum(), error)
    assert gradient.tolist() == [1.0, -1.0]


finite = st.floats(-1e3, 1e3, width=32)


@given(arrays(np.float32, (6, 4), elements=finite), arrays(np.float32, (6, 4), elements=finite), st.data())
@settings(max_examples=100, deadline=None)
def test_what_an_illegal_action_is_worth_never_matters(next_q, online, data):
    mask = data.draw(arrays(np.bool_, (6, 4)))
    mask[np.arange(6), data.draw(arrays(np.int64, 6, elements=st.integers(0, 3)))] = True
    worth = data.draw(st.sampled_from([1e30, -1e30, float("inf"), float("nan")]))
    q, o, m = map(torch.from_numpy, (next_q, online, mask))
    changed_q, changed_o = q.masked_fill(~m, worth), o.masked_fill(~m, worth)
    assert torch.equal(q_bootstrap(q, m), q_bootstrap(changed_q, m))
    assert torch.equal(double_q_bootstrap(q, o, m), double_q_bootstrap(changed_q, changed_o, m))
    # and it is the best of the legal ones
    for row in range(6):
        assert q_bootstrap(q, m)[row] == max(next_q[row][mask[row]])
        best = max(np.flatnonzero(mask[row]), key=lambda a: online[row, a])
        assert double_q_bootstrap(q, o, m)[row] == next_q[row, best]


def test_leading_dimensions_are_free():
    q, o = torch.randn(3, 2, 5, 4, generator=torch.Generator().manual_seed(0)).unbind(1)[:2]
    assert q_bootstrap(q, None).shape == (3, 5) and double_q_bootstrap(q, o, q > -9).shape == (3, 5)
    assert torch.equal(q_bootstrap(q, None)[2], q_bootstrap(q[2], None))
