"""DQN (Mnih et al. 2015, doi 10.1038/nature14236); Double DQN (van Hasselt et al. 2016, arXiv 1509.06461) is an
option."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from hotloop.core.options import option
from hotloop.learn.targets import double_q_bootstrap, huber, q_bootstrap, td_target
from hotloop.learn.variants._base import LossOutput, Network, Online, Transitions


@dataclass(frozen=True)
class Options:
    double: bool = option(False, "choose the next action by the online network (Double DQN)")
    loss: Literal["huber", "mse"] = option("huber", "huber, or mse: the squared error")
    huber_delta: float = option(1.0, "where the Huber loss turns linear", gt=0)


def frozen(target: Network, batch: Transitions, options: Options) -> tuple[Tensor, ...]:
    """(next_q [B, A],) for Double, else the whole (target [B],)."""
    next_q = target(batch.next_obs)
    if options.double:
        return (next_q,)
    return (td_target(batch.reward, batch.discount, q_bootstrap(next_q, batch.next_mask)),)


def loss(online: Online, batch: Transitions, frozen: tuple[Tensor, ...], options: Options) -> LossOutput:
    (target,) = frozen
    if options.double:
        bootstrap = double_q_bootstrap(target, online.bootstrap(batch.next_obs), batch.next_mask)
        target = td_target(batch.reward, batch.discount, bootstrap)
    q = online(batch.obs).gather(-1, batch.action[:, None])[:, 0]
    error = target - q
    return LossOutput(
        loss=huber(error, options.huber_delta) if options.loss == "huber" else error * error,
        priority=error.detach().abs(),
        q=q.detach(),
    )
