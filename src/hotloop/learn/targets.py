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


def best(values: Tensor, mask: Tensor | None) -> Tensor:
    """The legal action of greatest value: […, A] -> […]."""
    return legal(values, mask).argmax(-1)


def of_action(output: Tensor, action: Tensor) -> Tensor:
    """[B, A, Z], [B] -> [B, Z]"""
    return output.gather(1, action[:, None, None].expand(-1, 1, output.shape[-1]))[:, 0]


def soft_bootstrap(next_q: Tensor, next_mask: Tensor | None, temperature: float) -> Tensor:
    """Σ_a π(a|s')(q(s', a) − τ ln π(a|s')) for π = softmax(q/τ), which is τ ln Σ_a exp(q/τ): […, A] -> […]. Vieillard
    et al. 2020, arXiv 2007.14430, eq. 1."""
    return temperature * torch.logsumexp(legal(next_q, next_mask) / temperature, -1)


def log_policy(q: Tensor, mask: Tensor | None, temperature: float) -> Tensor:
    """ln π of the softmax policy over the legal actions: […, A] -> […, A], −inf where illegal."""
    return torch.log_softmax(legal(q, mask) / temperature, -1)


def project(p: Tensor, reward: Tensor, discount: Tensor, low: float, high: float) -> Tensor:
    """Φ T̂ Z: probabilities [B, Z] of atoms from low to high, each moved to r + discount · z and shared out between its
    neighbours: [B, Z]. Bellemare et al. 2017, arXiv 1707.06887, algorithm 1."""
    atoms = p.shape[-1]
    support = torch.linspace(low, high, atoms, dtype=p.dtype)
    moved = (reward[:, None] + discount[:, None] * support).clamp(low, high)
    place = ((moved - low) * ((atoms - 1) / (high - low))).clamp(0, atoms - 1)  # b_j; rounding must not lead past it
    below = place.floor()
    share = place - below  # of the neighbour above; 0 where the place is an atom itself
    lower = below.to(torch.int64)
    upper = (lower + 1).clamp(max=atoms - 1)
    # In one go: by distances, without any indices, takes twenty times as long, and by two scatters twice.
    places, parts = torch.cat([lower, upper], 1), torch.cat([p * (1.0 - share), p * share], 1)
    return torch.zeros_like(p).scatter_add(1, places, parts)


def quantile_huber(quantiles: Tensor, goal: Tensor, fractions: Tensor, kappa: float) -> Tensor:
    """Σᵢ mean_j |τᵢ − 1{u < 0}| · L_κ(u)/κ with u = goal_j − quantileᵢ: [B, N], [B, M], fractions [N] or [B, N] -> [B].
    Dabney et al. 2018, arXiv 1710.10044, eq. 10; arXiv 1806.06923, eq. 3."""
    u = goal[:, None, :] - quantiles[:, :, None]
    weight = (fractions[..., None] - (u < 0).to(u.dtype)).abs()
    return (weight * huber(u, kappa)).mean(-1).sum(-1) / kappa


def td_target(reward: Tensor, discount: Tensor, bootstrap: Tensor) -> Tensor:
    """r + discount · bootstrap. Termination, truncation, n and gamma are all in the discount."""
    return reward + discount * bootstrap


def huber(error: Tensor, delta: float) -> Tensor:
    """½e² within ±delta, delta·(|e| − ½delta) outside. Huber 1964, doi 10.1214/aoms/1177703732."""
    magnitude = error.abs()
    return torch.where(magnitude <= delta, 0.5 * error * error, delta * (magnitude - 0.5 * delta))
