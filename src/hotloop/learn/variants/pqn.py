"""PQN (Gallici et al. 2024, arXiv 2407.04811): no replay and no target network; λ-returns of the block just collected,
learnt in minibatches over several epochs by a network that should normalise (LayerNorm). With overlap the block is
one cycle old when it is learnt from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from hotloop.core.options import option
from hotloop.learn.targets import huber
from hotloop.learn.variants._base import LossOutput, Network, Online, Transitions


@dataclass(frozen=True)
class Options:
    trace_lambda: float = option(
        0.65, "λ: 0 looks one step ahead, 1 to the end of the episode or of the block", ge=0, le=1
    )
    loss: Literal["mse", "huber"] = option("mse", "mse: the squared error; huber")
    huber_delta: float = option(1.0, "where the Huber loss turns linear", gt=0)


GOES_WITH = {"sampler.name": "newest", "replay.n_step": 1, "replay.hindsight": 0, "learner.target_every_updates": 0}


def returns(options: Options) -> float:
    return options.trace_lambda


def frozen(target: Network, batch: Transitions, options: Options) -> tuple[Tensor, ...]:
    """There is no target network."""
    return ()


def loss(online: Online, batch: Transitions, frozen: tuple[Tensor, ...], options: Options) -> LossOutput:
    """batch.reward is the λ-return."""
    q = online(batch.obs).gather(-1, batch.action[:, None])[:, 0]
    error = batch.reward - q
    return LossOutput(
        loss=huber(error, options.huber_delta) if options.loss == "huber" else error * error,
        priority=error.detach().abs(),
        q=q.detach(),
    )
