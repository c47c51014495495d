"""What a variant is: an Options dataclass and two pure functions. Neither sees the optimizer, the replay or the loop.

    frozen(target, batch, options) -> tuple of tensors [B, …]    all that depends on the target network alone
    loss(online, batch, frozen, options) -> LossOutput           rows [B] are independent of each other

Splitting the two lets the learner evaluate the target network once for all batches between two of its syncs. Rows are
independent unless the network normalises by its batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

Network = Callable[[dict[str, Tensor]], Tensor]  # parts [B, *seen] -> [B, A]


class Online(Protocol):
    """The network that learns."""

    def __call__(self, obs: dict[str, Tensor]) -> Tensor:
        """parts [B, *seen] -> [B, A] with gradients, for what is learnt."""
        ...

    def bootstrap(self, obs: dict[str, Tensor]) -> Tensor:
        """parts [B, *seen] -> [B, A] as a constant, for what is learnt from."""
        ...


@dataclass(frozen=True)
class Transitions:
    """One batch as tensors; core.types.Batch without its U axis."""

    obs: dict[str, Tensor]  # part -> [B, *seen]
    action: Tensor  # [B] int64
    reward: Tensor  # [B] float32: n-step return
    discount: Tensor  # [B] float32
    next_obs: dict[str, Tensor]  # part -> [B, *seen]
    next_mask: Tensor | None  # [B, A] bool
    weight: Tensor  # [B] float32


@dataclass(frozen=True)
class LossOutput:
    """Per row, before weights and mean."""

    loss: Tensor  # [B]
    priority: Tensor  # [B] ≥ 0: what prioritised replay orders by, |TD error| for most variants
    q: Tensor  # [B] value of the action taken, for the metrics
