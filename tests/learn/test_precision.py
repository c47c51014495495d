"""bfloat16: what is rounded and what is not, the same eagerly and compiled, and that it learns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from hotloop.matmul import LEAST, Rounding
from tests.learn.test_step import HARD
from tests.learn.toy import VECTOR, batches, feed, learner


def rounded(x: torch.Tensor) -> torch.Tensor:
    return x.bfloat16().float()


def some(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("sides", [(LEAST, LEAST, LEAST), (40, 33, 17)], ids=str)
def test_products_are_of_rounded_numbers_and_sums_are_not_rounded(sides):
    m, n, k = sides
    bias, left, right = some(n), some(m, k, seed=1), some(k, n, seed=2)
    with Rounding():
        product, added = left @ right, torch.addmm(bias, left, right)
    exact = rounded(left).double() @ rounded(right).double()
    assert (product - exact).abs().max() < 1e-5 and (added - exact - bias).abs().max() < 1e-5
    assert (product - left @ right).abs().max() > 1e-3, "nothing was rounded"
    assert not torch.equal(product, rounded(product))


@pytest.mark.parametrize("sides", [(15, 32, 32), (32, 15, 32), (32, 32, 15)], ids=str)
def test_a_product_with_a_small_side_keeps_its_precision(sides):
    m, n, k = sides
    left, right = some(m, k), some(k, n, seed=1)
    with Rounding():
        product = left @ right
    assert torch.equal(product, left @ right)


def test_gradients_are_products_too():
    layer, x = torch.nn.Linear(32, 24), some(20, 32, seed=3)
    upstream = some(20, 24, seed=4)
    with Rounding():
        gradient = torch.autograd.grad((layer(x) * upstream).sum(), layer.weight)[0]
    assert (gradient - rounded(upstream).T @ rounded(x)).abs().max() < 1e-5
    assert (gradient - upstream.T @ x).abs().max() > 1e-3


def test_convolutions_round_what_comes_in_and_what_goes_out():
    x, weight, bias = some(4, 16, 9, 9), some(16, 16, 3, 3, seed=1), some(16, seed=2)
    with Rounding():
        out = torch.conv2d(x, weight, bias)
    assert out.dtype == torch.float32 and torch.equal(out, rounded(out))
    exact = torch.conv2d(rounded(x), rounded(weight), rounded(bias))
    assert (out - exact).abs().max() < 0.01 * exact.abs().max()
    few = torch.conv2d(x, weight[:4])
    with Rounding():
        assert torch.equal(torch.conv2d(x, weight[:4]), few), "values may come out of it"


def half(compile: bool = False, **more: object):
    options = replace(HARD, batch_size=32, **more)
    return learner(options=options, network_options={"hidden": [32, 32]}, compile=compile)


def test_compiled_equals_eager():
    """A sum that differs in its last bit may be rounded to a neighbour, 1/256 apart; such steps are rare, so losses
    agree to 1e-3 and what was learnt to a hundredth of the way that it went."""
    batch = batches(VECTOR, 64, 32)
    eager, compiled, plain = half(precision="bfloat16"), half(True, precision="bfloat16"), half()
    start = eager.params.clone()
    (a, a_priority), (b, b_priority), (c, _) = feed(eager, batch), feed(compiled, batch), feed(plain, batch)
    assert np.abs(a[:, 0] / b[:, 0] - 1).max() < 1e-3 and np.abs(a_priority - b_priority).max() < 1e-2
    assert (eager.params - compiled.params).norm() < 0.01 * (eager.params - start).norm()
    # and float32 is something else, not far away
    assert np.abs(a[:, 0] / c[:, 0] - 1).max() < 0.1 and not np.allclose(a[:, 0], c[:, 0], rtol=1e-5)


def test_weights_and_moments_are_float32():
    one = half(precision="bfloat16")
    feed(one, batches(VECTOR, 8, 32))
    for tensor in (one.params, one.target, *one.moments):
        assert tensor.dtype == torch.float32
    assert all(not torch.equal(tensor, rounded(tensor)) for tensor in (one.params, *one.moments))
