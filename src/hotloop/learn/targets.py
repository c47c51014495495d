"""Temporal-difference targets as pure functions of arrays. Leading dimensions […] are free."""

from __future__ import annotations

import torch
from torch import Tensor


def legal(q: Tensor, mask: Tensor | None) -> Tensor:
    """q […, A] with illegal actions at −inf, so that no maximum can choose them."""
    return q if mask is None else torch.where(mask, q, float("-inf"))


def q_bootstrap(next_q: Tensor, next_mask: Tensor | None) -> Tensor:
    """max_a Q⁻(s', a): […, A] -> […]. Mnih et al. 2015, doi 10.1038/nature14236, the y_i of algorithm 1."""
    return legal(next_q, next_mask).amax(-1)


def double_q_bootstrap(next_q: Tensor, next_q_online: Tensor, next_mask: Tensor | None) -> Tensor:
    """Q⁻(s', argmax_a Q(s', a)): […, A], […, A] -> […]. van Hasselt et al. 2016, arXiv 1509.06461, eq. 4."""
    choice = legal(next_q_online, next_mask).argmax(-1, keepdim=True)
    return next_q.gather(-1, choice)[..., 0]


def td_target(reward: Tensor, discount: Tensor, bootstrap: Tensor) -> Tensor:
    """r + discount · bootstrap. Termination, truncation, n and gamma are all in the discount."""
    return reward + discount * bootstrap


def huber(error: Tensor, delta: float) -> Tensor:
    """½e² within ±delta, delta·(|e| − ½delta) outside. Huber 1964, doi 10.1214/aoms/1177703732."""
    magnitude = error.abs()
    return torch.where(magnitude <= delta, 0.5 * error * error, delta * (magnitude - 0.5 * delta))
