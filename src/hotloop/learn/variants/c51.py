"""Categorical DQN, C51 (Bellemare et al. 2017, arXiv 1707.06887): the whole distribution of returns, as probabilities
of fixed atoms; choosing the next action by the online network (Double) is an option."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hotloop.core.errors import UserError
from hotloop.core.options import option
from hotloop.learn.targets import best, of_action, project
from hotloop.learn.variants._base import LossOutput, Network, Online, Transitions
from hotloop.networks._heads import Outputs


@dataclass(frozen=True)
class Options:
    double: bool = option(False, "choose the next action by the online network (Double DQN)")
    atoms: int = option(51, "returns that have a probability, equally spaced", ge=2)
    v_min: float = option(-10.0, "return of the first atom")
    v_max: float = option(10.0, "return of the last atom")

    def __post_init__(self) -> None:
        if self.v_min >= self.v_max:
            raise UserError(
                f"option variant.v_min = {self.v_min} must be less than variant.v_max = {self.v_max}; set both to span "
                "the discounted returns"
            )


def outputs(options: Options) -> Outputs:
    return Outputs(numbers=options.atoms)


def reward_range(options: Options) -> tuple[float, float]:
    return options.v_min, options.v_max


def values(output: Tensor, options: Options) -> Tensor:
    """logits [B, A, Z] -> expected returns [B, A]"""
    return torch.softmax(output, -1) @ _support(options, output)


def frozen(target: Network, batch: Transitions, options: Options) -> tuple[Tensor, ...]:
    """The projected distribution [B, Z], Φ T̂ Z of algorithm 1; (logits [B, A, Z],) for Double."""
    logits = target(batch.next_obs)
    if options.double:
        return (logits,)
    return (_target(logits, values(logits, options), batch, options),)


def loss(online: Online, batch: Transitions, frozen: tuple[Tensor, ...], options: Options) -> LossOutput:
    """−Σᵢ mᵢ ln pᵢ(s, a), the cross-entropy of algorithm 1; priority is the divergence of the two distributions
    (Hessel et al. 2018, arXiv 1710.02298, section "The Integrated Agent")."""
    (goal,) = frozen
    if options.double:
        goal = _target(goal, values(online.bootstrap(batch.next_obs), options), batch, options)
    log_p = torch.log_softmax(of_action(online(batch.obs), batch.action), -1)
    cross = -(goal * log_p).sum(-1)
    known = log_p.detach()
    return LossOutput(
        loss=cross,
        priority=(cross.detach() + torch.special.xlogy(goal, goal).sum(-1)).clamp(min=0.0),
        q=known.exp() @ _support(options, known),
    )


def _target(logits: Tensor, judged: Tensor, batch: Transitions, options: Options) -> Tensor:
    """The distribution that follows the action judged best, moved by the reward and projected on the atoms."""
    following = torch.softmax(of_action(logits, best(judged, batch.next_mask)), -1)
    return project(following, batch.reward, batch.discount, options.v_min, options.v_max)


def _support(options: Options, like: Tensor) -> Tensor:
    """[Z]"""
    return torch.linspace(options.v_min, options.v_max, options.atoms, dtype=like.dtype)
