"""What a run asks of whatever collects for it: this process (`inline`), worker processes (`workers`), or machines. The
loop of train.py knows no more of them than this."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from hotloop.collect.episodes import Finished
from hotloop.core.errors import UserError
from hotloop.core.types import Arrays, Block


class NothingLeft(UserError):
    """Nobody is left who collects. What was learnt so far is whole, and the run can be resumed."""

    exit_code = 3


class Collector(Protocol):
    """A cycle is `publish()`, then `next_block()`."""

    env_steps: int  # collected so far
    finished: Finished | None  # episodes that ended in the newest block

    @property
    def exact(self) -> bool:
        """Whether the same seed has led, and will lead, to the same blocks, environments permitting."""
        ...

    def next_block(self) -> Block:
        """T batched steps of N lanes. Valid until the next call. Raises NothingLeft; the blocks before it stand."""
        ...

    def publish(self, weights: Tensor) -> None:
        """[P] to act with from the next block on, which who collects beside this process may begin at once. The tensor
        is never written to again."""
        ...

    def warm(self, weights: Tensor) -> None:
        """Return when step 1 would be as fast as all others. Changes nothing."""
        ...

    def state(self) -> Arrays:
        """Everything a later block depends on, the weights apart, the same for every collector; "counters" alone where
        it cannot be had. To be asked for after next_block and before publish."""
        ...

    def set_state(self, state: Mapping[str, np.ndarray]) -> bool:
        """Go on from `state` -> True; or, where it cannot be set or holds no more than counters, begin new episodes in
        every lane -> False."""
        ...

    def gauges(self) -> dict[str, Any]:
        """Present figures of its own, for a row of metrics."""
        ...

    def said(self) -> list[str]:
        """What the user has to know, each text once."""
        ...

    def close(self) -> None: ...
