"""What a variant is: an Options dataclass and two pure functions. Neither sees the optimizer, the replay or the loop.

    frozen(target, batch, options) -> tuple of tensors [B, …]    all that depends on the target network alone
    loss(online, batch, frozen, options) -> LossOutput           rows [B] are independent of each other

Splitting the two lets the learner evaluate the target network once for all batches between two of its syncs. Rows are
independent unless the network normalises by its batch. What a variant needs beside one value per action it declares:

    outputs(options) -> Outputs                  of the network, for each action
    values(output, options) -> [B, A]            how these become values to act by; absent: they are values
    draws(options) -> int                        D uniform random numbers per transition: batch.draws
    MASK = True                                  batch.mask, what was legal where the action was taken
    reward_range(options) -> (low, high)         rewards outside of it cannot be told apart; they are counted
    returns(options) -> λ                        reward is the λ-return over the block just collected, discount 0
    GOES_WITH = {path: value}                    options of the config that can have no other value with it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

from torch import Tensor

from hotloop.core import discover
from hotloop.core.options import from_dict
from hotloop.networks._heads import Outputs

PACKAGE = "hotloop.learn.variants"


class Network(Protocol):
    """parts [B, *seen] -> [B, A], or [B, A, Z] where the variant asks for it; at fractions [B, N] [B, A, N]."""

    def __call__(self, obs: dict[str, Tensor], fractions: Tensor | None = None) -> Tensor: ...


class Online(Protocol):
    """The network that learns: with gradients, for what is learnt."""

    def __call__(self, obs: dict[str, Tensor], fractions: Tensor | None = None) -> Tensor: ...

    def bootstrap(self, obs: dict[str, Tensor], fractions: Tensor | None = None) -> Tensor:
        """As a constant, for what is learnt from."""
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
    mask: Tensor | None = None  # [B, A] bool, where the variant looks at it
    draws: Tensor | None = None  # [B, D] float32 in [0, 1)


@dataclass(frozen=True)
class LossOutput:
    """Per row, before weights and mean."""

    loss: Tensor  # [B]
    priority: Tensor  # [B] ≥ 0: what prioritised replay orders by, |TD error| for most variants
    q: Tensor  # [B] value of the action taken, for the metrics


@dataclass(frozen=True)
class Chosen:
    """A variant with its options, and what it declares with them."""

    module: ModuleType
    options: Any
    outputs: Outputs
    values: Callable[[Tensor], Tensor] | None
    draws: int
    mask: bool
    reward_range: tuple[float, float] | None
    trace_lambda: float | None  # of the returns that it is given in place of rewards
    goes_with: Mapping[str, Any]


def chosen(name: str, options: Mapping[str, Any]) -> Chosen:
    module = discover.load(PACKAGE, name)
    made = from_dict(module.Options, options, "variant.")

    def declared(what: str, absent: Any) -> Any:
        return getattr(module, what)(made) if hasattr(module, what) else absent

    values = (lambda output: module.values(output, made)) if hasattr(module, "values") else None
    return Chosen(
        module, made, declared("outputs", Outputs()), values, declared("draws", 0), getattr(module, "MASK", False),
        declared("reward_range", None), declared("returns", None), getattr(module, "GOES_WITH", {}),
    )  # fmt: skip
