"""Munchausen IQN (Vieillard et al. 2020, arXiv 2007.14430, section 4): implicit quantiles of a return that the log
policy of the action taken is added to; the policy is a softmax of their means."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hotloop.core.options import option
from hotloop.learn.targets import log_policy, of_action, quantile_huber
from hotloop.learn.variants._base import LossOutput, Network, Online, Transitions
from hotloop.networks._heads import Outputs

MASK = True


@dataclass(frozen=True)
class Options:
    temperature: float = option(0.03, "entropy temperature τ of the softmax policy, in units of return", gt=0)
    alpha: float = option(0.9, "share of the log policy that is added to the reward", ge=0, le=1)
    lowest: float = option(-1.0, "what is added is clipped from below at alpha times this", le=0)
    fractions: int = option(8, "fractions of the return that are learnt per transition, N", ge=1)
    target_fractions: int = option(8, "fractions of what follows that they are learnt from, N'", ge=1)
    acting_fractions: int = option(32, "midpoints whose mean is the value that is acted by, K", ge=1)
    cosines: int = option(64, "cosines that tell the network its fraction, n", ge=1)
    kappa: float = option(1.0, "where the Huber loss of a quantile turns linear", gt=0)


def outputs(options: Options) -> Outputs:
    return Outputs(cosines=options.cosines, midpoints=options.acting_fractions)


def draws(options: Options) -> int:
    return options.fractions + options.target_fractions


def frozen(target: Network, batch: Transitions, options: Options) -> tuple[Tensor, ...]:
    """The whole target [B, N']: r + α·[τ ln π(a|s)]_{l₀}^0 + discount · Σ π(a'|s')(z_τ'ⱼ(s', a') − τ ln π(a'|s'))."""
    assert batch.draws is not None
    tau, rows = options.temperature, batch.reward.shape[0]
    # The means of both states in one pass of the network.
    means = target({part: torch.cat([values, batch.next_obs[part]]) for part, values in batch.obs.items()})
    log_pi = log_policy(means[:rows], batch.mask, tau).gather(-1, batch.action[:, None])[:, 0]
    reward = batch.reward + options.alpha * (tau * log_pi).clamp(options.lowest, 0.0)
    next_log_pi = log_policy(means[rows:], batch.next_mask, tau)
    following = target(batch.next_obs, batch.draws[:, options.fractions :])  # [B, A, N']
    bonus = following - (tau * next_log_pi.clamp(min=-1e30))[..., None]  # of an illegal action finite, and weighed by 0
    bootstrap = (next_log_pi.exp()[..., None] * bonus).sum(1)
    return (reward[:, None] + batch.discount[:, None] * bootstrap,)


def loss(online: Online, batch: Transitions, frozen: tuple[Tensor, ...], options: Options) -> LossOutput:
    """Σᵢ (1/N') Σⱼ ρ^κ_τᵢ(δⱼᵢ), Dabney et al. 2018, arXiv 1806.06923, eq. 3."""
    assert batch.draws is not None
    (goal,), fractions = frozen, batch.draws[:, : options.fractions]
    quantiles = of_action(online(batch.obs, fractions), batch.action)
    q = quantiles.detach().mean(-1)
    return LossOutput(
        loss=quantile_huber(quantiles, goal, fractions, options.kappa), priority=(goal.mean(-1) - q).abs(), q=q
    )
