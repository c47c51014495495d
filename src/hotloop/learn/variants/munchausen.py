"""Munchausen DQN (Vieillard et al. 2020, arXiv 2007.14430): the policy is a softmax of the values, and its own log
probability of the action taken is added to the reward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from hotloop.core.options import option
from hotloop.learn.targets import huber, log_policy, soft_bootstrap, td_target
from hotloop.learn.variants._base import LossOutput, Network, Online, Transitions

MASK = True


@dataclass(frozen=True)
class Options:
    temperature: float = option(0.03, "entropy temperature τ of the softmax policy, in units of return", gt=0)
    alpha: float = option(0.9, "share of the log policy that is added to the reward", ge=0, le=1)
    lowest: float = option(-1.0, "what is added is clipped from below at alpha times this", le=0)
    loss: Literal["huber", "mse"] = option("huber", "huber, or mse: the squared error")
    huber_delta: float = option(1.0, "where the Huber loss turns linear", gt=0)


def frozen(target: Network, batch: Transitions, options: Options) -> tuple[Tensor, ...]:
    """The whole target [B], eqs. 1 and 2: r + α·[τ ln π(a|s)]_{l₀}^0 + discount · Σ π(a'|s')(q⁻ − τ ln π(a'|s'))."""
    tau, rows = options.temperature, batch.reward.shape[0]
    # Both states in one pass of the network.
    both = target({part: torch.cat([values, batch.next_obs[part]]) for part, values in batch.obs.items()})
    log_pi = log_policy(both[:rows], batch.mask, tau).gather(-1, batch.action[:, None])[:, 0]
    reward = batch.reward + options.alpha * (tau * log_pi).clamp(options.lowest, 0.0)
    return (td_target(reward, batch.discount, soft_bootstrap(both[rows:], batch.next_mask, tau)),)


def loss(online: Online, batch: Transitions, frozen: tuple[Tensor, ...], options: Options) -> LossOutput:
    q = online(batch.obs).gather(-1, batch.action[:, None])[:, 0]
    error = frozen[0] - q
    return LossOutput(
        loss=huber(error, options.huber_delta) if options.loss == "huber" else error * error,
        priority=error.detach().abs(),
        q=q.detach(),
    )
