"""Implicit quantile networks, IQN (Dabney et al. 2018, arXiv 1806.06923): the return at any fraction of its
distribution, drawn anew for each transition; choosing the next action by the online network (Double) is an option."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from hotloop.core.options import option
from hotloop.learn.targets import best, of_action, quantile_huber
from hotloop.learn.variants._base import LossOutput, Network, Online, Transitions
from hotloop.networks._heads import Outputs


@dataclass(frozen=True)
class Options:
    double: bool = option(False, "choose the next action by the online network (Double DQN)")
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
    """(r + discount · Z_τ'ⱼ(s', π(s')) [B, N'],), the first part of eq. 2; (quantiles [B, A, N'],) for Double. π takes
    the mean over the midpoints, as acting does, where the paper draws K fractions (eq. 5)."""
    following = target(batch.next_obs, _drawn(batch)[:, options.fractions :])
    if options.double:
        return (following,)
    return (_target(following, target(batch.next_obs), batch),)


def loss(online: Online, batch: Transitions, frozen: tuple[Tensor, ...], options: Options) -> LossOutput:
    """Σᵢ (1/N') Σⱼ ρ^κ_τᵢ(δⱼᵢ), eq. 3."""
    (goal,) = frozen
    if options.double:
        goal = _target(goal, online.bootstrap(batch.next_obs), batch)
    fractions = _drawn(batch)[:, : options.fractions]
    quantiles = of_action(online(batch.obs, fractions), batch.action)
    q = quantiles.detach().mean(-1)
    return LossOutput(
        loss=quantile_huber(quantiles, goal, fractions, options.kappa), priority=(goal.mean(-1) - q).abs(), q=q
    )


def _target(following: Tensor, judged: Tensor, batch: Transitions) -> Tensor:
    """r + discount · Z_τ'(s', a') for the action judged best, [B, N']."""
    chosen = of_action(following, best(judged, batch.next_mask))
    return batch.reward[:, None] + batch.discount[:, None] * chosen


def _drawn(batch: Transitions) -> Tensor:
    assert batch.draws is not None
    return batch.draws
