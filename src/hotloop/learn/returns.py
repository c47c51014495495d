"""λ-returns of the newest block, from the values of one forward: what a variant that declares `returns` learns in place
of reward and discount. Owns room for one block; the replay finds the observations, also stacked and final ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hotloop.core.jit import kernel
from hotloop.core.schema import new_batch
from hotloop.core.types import Arrays, Batch, EnvSpec
from hotloop.replay.store import Store

Values = Callable[[Arrays], np.ndarray]  # parts [N, *seen] -> Q-values [N, A]
_NO_MASK = np.ones((1, 1, 1), np.bool_)


class BlockReturns:
    """Of blocks of T batched steps of N lanes."""

    def __init__(self, spec: EnvSpec, store: Store, steps: int, trace_lambda: float) -> None:
        self._spec, self._store, self._lambda = spec, store, trace_lambda
        self._block = new_batch(spec, steps, store.lanes)  # [T, N, …]
        self._returns = np.zeros((steps, store.lanes), np.float32)
        self._of_slot = np.zeros(store.lanes * store.slots_per_lane, np.float32)

    def fill(self, slots: np.ndarray, values: Values, batch: Batch) -> None:
        """Put the λ-return of each of `slots` [U, B] into batch.reward. Nothing follows it, so discount becomes 0."""
        at = self._newest()  # [T, N]
        block = self._block if len(at) == len(self._returns) else new_batch(self._spec, *at.shape)
        self._store.gather(at, block)
        q = values({name: part.reshape(-1, *part.shape[2:]) for name, part in block.next_obs.items()})
        mask = _NO_MASK if block.next_mask is None else block.next_mask
        found = self._returns[: len(at)]
        lambda_returns(
            block.reward, block.discount, self._store.goes_on(at), q.reshape(*at.shape, -1), mask,
            block.next_mask is not None, self._lambda, found,
        )  # fmt: skip
        self._of_slot[at] = found
        np.take(self._of_slot, slots, out=batch.reward)
        batch.discount.fill(0.0)

    def _newest(self) -> np.ndarray:
        """Slots [T, N] of the newest block; fewer rows where its oldest steps were displaced."""
        window = self._store.window()
        steps = min(window.count, len(self._returns))
        position = (window.oldest + np.arange(window.count - steps, window.count)) % window.slots_per_lane
        return position[:, None] + np.arange(window.lanes) * window.slots_per_lane


@kernel
def lambda_returns(reward, discount, goes_on, q, mask, masked, trace_lambda, out):
    """out [T, N] float32: R_t = r_t + γ_t ((1 − λ) max_a Q(s_{t+1}, a) + λ R_{t+1}) where the episode goes on inside of
    the block; r_t + γ_t max_a Q(s_{t+1}, a) at its end and where the episode was truncated, s_{t+1} then being its
    real last observation; γ_t is 0 where it terminated. Peng & Williams 1996, doi 10.1007/BF00114731, as PQN has it.
    reward, discount, goes_on [T, N]; q [T, N, A] of the next observations; mask [T, N, A], read only if masked."""
    steps, lanes, actions = q.shape
    for lane in range(lanes):
        after = 0.0
        for t in range(steps - 1, -1, -1):
            best = -np.inf
            for a in range(actions):
                value = q[t, lane, a]
                if (not masked or mask[t, lane, a]) and (value > best or np.isnan(value)):
                    best = np.float64(value)  # NaN stays, so that it shows
            follows = best
            if goes_on[t, lane] and t < steps - 1:
                follows = (1.0 - trace_lambda) * best + trace_lambda * after
            after = reward[t, lane] + discount[t, lane] * follows if discount[t, lane] > 0.0 else reward[t, lane]
            out[t, lane] = after
