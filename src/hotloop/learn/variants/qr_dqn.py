"""DQN with quantile regression (Dabney et al. 2018, arXiv 1710.10044): returns as quantiles of equal probability;
choosing the next action by the online network (Double) is an option."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hotloop.core.options import option
from hotloop.learn.targets import best, of_action, quantile_huber
from hotloop.learn.variants._base import LossOutput, Network, Online, Transitions
from hotloop.networks._heads import Outputs


@dataclass(frozen=True)
class Options:
    double: bool = option(False, "choose the next action by the online network (Double DQN)")
    quantiles: int = option(32, "quantiles of the return, N; the loss compares each with each", ge=1)
    kappa: float = option(1.0, "where the Huber loss of a quantile turns linear", gt=0)


def outputs(options: Options) -> Outputs:
    return Outputs(numbers=options.quantiles)


def values(output: Tensor, options: Options) -> Tensor:
    """quantiles [B, A, N] -> expected returns [B, A]"""
    return output.mean(-1)


def frozen(target: Network, batch: Transitions, options: Options) -> tuple[Tensor, ...]:
    """(T θ_j [B, N],), algorithm 1; (quantiles [B, A, N],) for Double."""
    following = target(batch.next_obs)
    if options.double:
        return (following,)
    return (_target(following, following.mean(-1), batch),)


def loss(online: Online, batch: Transitions, frozen: tuple[Tensor, ...], options: Options) -> LossOutput:
    """Σᵢ E_j ρ^κ_τ̂ᵢ(T θ_j − θᵢ(s, a)) of algorithm 1, at the midpoints τ̂ of lemma 2."""
    (goal,) = frozen
    if options.double:
        goal = _target(goal, online.bootstrap(batch.next_obs).mean(-1), batch)
    quantiles = of_action(online(batch.obs), batch.action)
    midpoints = (torch.arange(options.quantiles, dtype=quantiles.dtype) + 0.5) / options.quantiles
    q = quantiles.detach().mean(-1)
    return LossOutput(
        loss=quantile_huber(quantiles, goal, midpoints, options.kappa), priority=(goal.mean(-1) - q).abs(), q=q
    )


def _target(following: Tensor, judged: Tensor, batch: Transitions) -> Tensor:
    """r + discount · θ_j(s', a') for the action judged best, [B, N]."""
    chosen = of_action(following, best(judged, batch.next_mask))
    return batch.reward[:, None] + batch.discount[:, None] * chosen
