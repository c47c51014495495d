from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from hotloop.core.errors import UserError
from hotloop.core.options import from_dict
from hotloop.learn import optimizers
from hotloop.learn.optimizers import MOMENTS, STEPS, Options, scalars

CASES = {
    "adam": (Options("adam", learning_rate=3e-3, beta1=0.8, beta2=0.99, eps=1e-6), torch.optim.Adam),
    "adam without a first moment": (Options("adam", beta1=0.0), torch.optim.Adam),
    "adamw": (Options("adamw", learning_rate=3e-3, weight_decay=0.1), torch.optim.AdamW),
    "rmsprop": (Options("rmsprop", learning_rate=3e-3, alpha=0.9, eps=1e-5), torch.optim.RMSprop),
}


def theirs(case: str, parameter: Tensor) -> torch.optim.Optimizer:
    o, make = CASES[case]
    if o.name == "rmsprop":
        return make([parameter], lr=o.learning_rate, alpha=o.alpha, eps=o.eps)  # type: ignore[call-arg]
    more = {"weight_decay": o.weight_decay} if o.name == "adamw" else {}
    return make([parameter], lr=o.learning_rate, betas=(o.beta1, o.beta2), eps=o.eps, **more)  # type: ignore[call-arg]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_fifty_steps_like_torch(case, dtype):
    o = CASES[case][0]
    random = torch.Generator().manual_seed(0)
    start = torch.randn(40, generator=random, dtype=dtype)
    parameter = torch.nn.Parameter(start.clone())
    optimizer = theirs(case, parameter)
    ours, moments = start.clone(), [torch.zeros_like(start) for _ in range(MOMENTS[o.name])]
    rows = torch.from_numpy(scalars(o, 0, 50, 50)).to(dtype)
    for row in rows:
        gradient = torch.randn(40, generator=random, dtype=dtype) * torch.logspace(-4, 2, 40, dtype=dtype)
        parameter.grad = gradient
        optimizer.step()
        ours, moments = STEPS[o.name](ours, gradient, moments, row, o)
        # the first steps are where a bias correction that is off by one would show
        assert (ours - parameter).abs().max() < 1e-6
    assert (ours - start).abs().max() > 0.01


def test_every_optimizer_that_can_be_named_is_tested():
    assert {o.name for o, _ in CASES.values()} == set(STEPS) == set(MOMENTS)


@pytest.mark.parametrize("cut", [[10], [1] * 10, [3, 4, 3]])
def test_scalars_do_not_depend_on_how_updates_are_grouped(cut):
    o = Options(learning_rate_end=1e-5)
    pieces = [scalars(o, 90 + sum(cut[:i]), n, 100) for i, n in enumerate(cut)]
    assert np.array_equal(np.concatenate(pieces), scalars(o, 90, 10, 100))


def test_learning_rate_falls_linearly_from_the_first_update_to_the_last_and_then_stays():
    o = Options(learning_rate=1e-2, learning_rate_end=2e-3)
    rate = scalars(o, 0, 120, 101)[:, 0]
    assert rate[0] == np.float32(1e-2) and rate[50] == np.float32(6e-3) and rate[100] == np.float32(2e-3)
    assert (rate[101:] == np.float32(2e-3)).all() and np.allclose(np.diff(rate[:101]), -8e-5, rtol=1e-3)
    assert (scalars(Options(), 0, 5, 10)[:, 0] == np.float32(1e-3)).all()
    assert np.isfinite(scalars(o, 0, 1, 1)).all() and scalars(o, 0, 1, 1)[0, 0] == np.float32(1e-2)
    assert scalars(Options(learning_rate_end=0.0), 9, 1, 10)[0, 0] == 0.0


def test_learning_rate_falls_by_half_a_cosine_as_torchs_does():
    o = Options(learning_rate=1e-2, learning_rate_end=2e-3, learning_rate_shape="cosine")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100, eta_min=2e-3)
    theirs = []
    for _ in range(101):
        theirs.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    rate = scalars(o, 0, 120, 101)[:, 0]
    assert np.allclose(rate[:101], theirs, rtol=1e-6) and (rate[100:] == np.float32(2e-3)).all()
    constant = Options(learning_rate_shape="cosine")
    assert (scalars(constant, 0, 5, 10)[:, 0] == np.float32(1e-3)).all()


def test_scalars_stay_finite_and_exact_far_into_a_run():
    last = scalars(Options(), 10**9, 1, 10**9 + 1)
    assert np.array_equal(last[0, 1:], [1.0, 1.0]) and last.shape == (1, optimizers.SCALARS)


@pytest.mark.parametrize(("key", "value"), [("eps", 0), ("learning_rate", 0), ("beta2", 1.0), ("max_grad_norm", -1)])
def test_what_cannot_work_is_refused(key, value):
    with pytest.raises(UserError, match=f"optimizer.{key}"):  # eps 0 would make 0/0 of a unit that is never active
        from_dict(Options, {key: value}, "optimizer.")
