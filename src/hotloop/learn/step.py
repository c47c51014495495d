"""The whole update as one pure function, compiled here only: target pass, loss, gradient, clip, optimizer and
target network for U updates in one call. Eager, the same step in a Python loop, is the reference.

    (params [P], target [P], moments…, share [1], scalars [U, 3], noise [U, 3, K]?, batch [U, B, …]) ->
    (params, target, moments…, stats [U, 4], priority [U, B])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hotloop import aot, matmul
from hotloop.core.types import Batch, EnvSpec
from hotloop.learn import optimizers
from hotloop.learn.variants._base import Network, Transitions
from hotloop.networks._flat import Forward, Layout, LearningForward

Repeat = Callable[[list[Tensor], list[Tensor]], tuple[list[Tensor], list[Tensor]]]
STATS = ("loss", "q", "grad_norm", "applied")  # columns of stats; applied is 0 where a value was not finite


@dataclass(frozen=True)
class Update:
    """All the arithmetic is closed over; nothing here changes during a run."""

    spec: EnvSpec
    layout: Layout
    forward: Forward
    learning_forward: LearningForward
    variant: ModuleType
    variant_options: Any
    mask: bool  # the variant looks at what was legal where the action was taken
    draws: bool  # it takes random numbers
    optimizer: optimizers.Options
    target_tau: float
    target_moves: bool  # the target follows at every update
    accumulate: int  # equal parts of a batch, one after another
    half: bool  # matrix products and convolutions are of bfloat16

    @property
    def moments(self) -> int:
        return optimizers.MOMENTS[self.optimizer.name]

    @property
    def noisy(self) -> bool:
        return self.layout.noise_size > 0

    @property
    def target_inside(self) -> bool:
        """The target moves, or takes other noise, at every update, so it is not evaluated once for all of them."""
        return self.target_moves or self.noisy


def program(update: Update, examples: Sequence[Tensor], fingerprint: str, compile: bool, threads: int) -> aot.Program:
    """One call for any number of updates."""

    def looped(*tensors: Tensor) -> list[Tensor]:
        with matmul.Rounding() if update.half else nullcontext():
            return _run(update, tensors, _loop(update))

    if not compile:
        return aot.eager("update", looped)
    if update.half and not matmul.serves():
        return aot.eager("update", looped, "update runs eagerly: bfloat16 is compiled for CPUs with AVX2 alone")
    dynamic = dict.fromkeys(range(3 + update.moments, len(examples)), "updates")

    def whole(*tensors: Tensor) -> list[Tensor]:
        # Traced only when the package is really built: a start from the cache pays nothing for it.
        return _run(update, tensors, _scan(update, _traced(update, examples)))

    made = aot.compiled(
        "update", whole, examples, dynamic, fingerprint=fingerprint, threads=threads, beside=True, half=update.half
    )
    if made.origin == "eager":  # scan is a compiler's construct; without one a loop is the same and faster
        return aot.eager("update", looped, made.note)
    slow = update.half and not torch.cpu._is_avx512_bf16_supported()
    return replace(made, note="bfloat16 wins no time on this CPU, which has no AVX512-BF16") if slow else made


def inputs(batch: Batch, draws: np.ndarray | None = None) -> list[Tensor]:
    """The batch, and random numbers [U, B, D] for it, as the flat list of tensors that the program takes; shares their
    memory."""
    arrays = [batch.action, batch.reward, batch.discount, batch.weight, batch.next_mask, batch.mask, draws]
    arrays += [*batch.obs.values(), *batch.next_obs.values()]
    return [torch.from_numpy(a) for a in arrays if a is not None]


def _transitions(update: Update, tensors: Sequence[Tensor]) -> Transitions:
    """The inverse of `inputs`, with or without the U axis."""
    action, reward, discount, weight, *rest = tensors
    next_mask = rest.pop(0) if update.spec.masked else None
    mask = rest.pop(0) if update.spec.masked and update.mask else None
    draws = rest.pop(0) if update.draws else None
    names = [f.name for f in update.spec.observation]
    obs = dict(zip(names, rest[: len(names)], strict=True))
    next_obs = dict(zip(names, rest[len(names) :], strict=True))
    return Transitions(obs, action, reward, discount, next_obs, next_mask, weight, mask, draws)


def _run(update: Update, tensors: Sequence[Tensor], repeat: Repeat) -> list[Tensor]:
    """The target pass for all U batches where it is the same for all, then the U steps, then the share of the way
    that the target moves towards where they have led."""
    params, target, *rest = tensors
    moments, (share, *rows) = rest[: update.moments], rest[update.moments :]
    if not update.target_inside:
        batch = rows[1:]
        updates, size = batch[0].shape[0], batch[0].shape[1]
        flat = _transitions(update, [t.flatten(0, 1) for t in batch])
        values = update.variant.frozen(_network(update, target), flat, update.variant_options)
        rows = [*rows, *(v.unflatten(0, (updates, size)) for v in values)]
    carry = [params, *moments] + ([target] if update.target_inside else [])
    carry, (stats, priority) = repeat(carry, rows)
    if update.target_inside:
        *carry, target = carry
    if not update.target_moves:
        target = torch.where(share > 0, _moved(target, carry[0], share), target)
    return [carry[0], target, *carry[1:], stats, priority]


def _step(update: Update, carry: Sequence[Tensor], row: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """One update from one batch. Leaves every part of the carry as it was where loss or gradient is not finite."""
    params, *moments = carry
    target = moments.pop() if update.target_inside else None
    scalars, *rest = row
    noise = rest.pop(0).unbind() if update.noisy else (None, None, None)  # learning, choosing, target
    parts = 4 + update.spec.masked * (1 + update.mask) + update.draws + 2 * len(update.spec.observation)
    if target is not None:
        whole = _transitions(update, rest[:parts])
        rest += update.variant.frozen(_network(update, target, noise[2]), whole, update.variant_options)
    # Differentiate with respect to the views: gradients through slices of the flat vector would fill it once each.
    trained, statistics = update.layout.trained_size, update.layout.views(params)[update.layout.trained :]
    views = [v.detach().requires_grad_() for v in update.layout.views(params)[: update.layout.trained]]
    online = _Online(update, views, statistics, noise[0], noise[1])
    loss, q, gradient, priority = _gradient(update, online, views, rest, parts)
    norm = torch.linalg.vector_norm(gradient)
    limit = update.optimizer.max_grad_norm
    if limit > 0:
        gradient = gradient * (limit / (norm + 1e-6)).clamp(max=1.0)
    optimize = optimizers.STEPS[update.optimizer.name]
    stepped, new_moments = optimize(params[:trained], gradient, moments, scalars, update.optimizer)
    if statistics:
        stepped = torch.cat([stepped, update.layout.flat([s.detach() for s in online.statistics])])
    applied = torch.isfinite(loss) & torch.isfinite(norm)
    new = [stepped, *new_moments]
    if target is not None:
        new.append(_moved(target, stepped, update.target_tau) if update.target_moves else target)
    kept = [torch.where(applied, n, old) for n, old in zip(new, carry, strict=True)]
    stats = torch.stack([loss, q, norm, applied.to(torch.float32)])
    return kept, [stats, priority]


def _gradient(
    update: Update, online: _Online, views: list[Tensor], rows: list[Tensor], parts: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(mean loss [], mean q [], gradient [P], priority [B]) of a batch, taken in equal parts one after another, so that
    only one part's activations are kept. rows: the tensors of the batch, of which `parts` are transitions."""
    size, sums, priority = rows[0].shape[0] // update.accumulate, [], []
    for k in range(update.accumulate):
        piece = rows if update.accumulate == 1 else [t[k * size : (k + 1) * size] for t in rows]
        batch, frozen = _transitions(update, piece[:parts]), tuple(piece[parts:])
        with torch.enable_grad():
            out = update.variant.loss(online, batch, frozen, update.variant_options)
            loss = (out.loss * batch.weight).mean()
            # A user's module may hold parameters that its output does not depend on: their gradient is zero.
            gradients = torch.autograd.grad(loss, views, allow_unused=True, materialize_grads=True)
        found = [loss.detach(), out.q.mean(), update.layout.flat(gradients)]
        sums = [a + b for a, b in zip(sums, found, strict=True)] if sums else found
        priority.append(out.priority.detach())
    if update.accumulate == 1:
        return sums[0], sums[1], sums[2], priority[0]
    loss, q, gradient = (s / update.accumulate for s in sums)
    return loss, q, gradient, torch.cat(priority)


class _Online:
    """The network that learns, as a variant sees it."""

    def __init__(
        self, update: Update, views: list[Tensor], statistics: list[Tensor], noise: Tensor | None, other: Tensor | None
    ) -> None:
        self._update, self._views, self.statistics = update, views, statistics
        self._noise, self._other = noise, other

    def __call__(self, obs: dict[str, Tensor], fractions: Tensor | None = None) -> Tensor:
        """As it learns: with gradients, and where it normalises by its batch, gathering statistics."""
        views = [*self._views, *self.statistics]
        output, self.statistics = self._update.learning_forward(views, obs, fractions, self._noise)
        return output

    def bootstrap(self, obs: dict[str, Tensor], fractions: Tensor | None = None) -> Tensor:
        """As it acts, with noise of its own: a constant."""
        with torch.no_grad():
            views = [*(v.detach() for v in self._views), *self.statistics]
            return self._update.forward(views, obs, fractions, self._other)


def _moved(target: Tensor, params: Tensor, share: Tensor | float) -> Tensor:
    """The target, so far towards the parameters. A share of 1 copies to the bit, which a difference added again would
    not."""
    if isinstance(share, float):
        return params if share == 1.0 else target + share * (params - target)
    return torch.where(share == 1.0, params, target + share * (params - target))


def _network(update: Update, flat: Tensor, noise: Tensor | None = None) -> Network:
    views = update.layout.views(flat)
    return lambda obs, fractions=None: update.forward(views, obs, fractions, noise)


def _loop(update: Update) -> Repeat:
    """Repeat the step in Python: the reference."""

    def repeat(carry: list[Tensor], rows: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        outputs = []
        for u in range(rows[0].shape[0]):
            carry, out = _step(update, carry, [r[u] for r in rows])
            outputs.append(out)
        return carry, [torch.stack(column) for column in zip(*outputs, strict=True)]

    return repeat


def _scan(update: Update, step: Traced) -> Repeat:
    """Repeat the traced step as one loop inside the graph."""
    from torch._higher_order_ops.scan import scan

    size = 1 + update.moments + update.target_inside

    def combine(carry: list[Tensor], row: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        out = step.graph(*carry, *row)
        return out[:size], out[size:]

    def repeat(carry: list[Tensor], rows: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        # The loop cannot look at tensors outside of it, so each row brings what is constant.
        constants = [c.expand(rows[0].shape[0], *c.shape).clone() for c in step.constants]
        return scan(combine, carry, [*rows, *constants])

    return repeat


@dataclass(frozen=True)
class Traced:
    """The step as a flat graph, gradient and all."""

    graph: Callable[..., list[Tensor]]  # (carry…, row…, constants…) -> (carry…, outputs…)
    constants: list[Tensor]  # buffers of the network that are not gathered


def _traced(update: Update, examples: Sequence[Tensor]) -> Traced:
    """Tracing executes, so it is given copies."""
    from torch.fx.experimental.proxy_tensor import make_fx

    params, target, *rest = [e.clone() for e in examples]
    moments, rows = rest[: update.moments], [r[0] for r in rest[update.moments + 1 :]]
    carry = [params, *moments]
    if update.target_inside:
        carry.append(target)
    else:
        batch = _transitions(update, rows[1:])
        rows += update.variant.frozen(_network(update, target), batch, update.variant_options)

    def flat(*tensors: Tensor) -> list[Tensor]:
        new, outputs = _step(update, tensors[: len(carry)], tensors[len(carry) :])
        return [*new, *outputs]

    with torch.no_grad():
        made = make_fx(flat)(*[t.detach() for t in carry], *[t.detach() for t in rows])
    return Traced(made, _lifted(made))


def _lifted(made: Any) -> list[Tensor]:
    """Turn the tensors that a traced graph holds into arguments of it, after the others."""
    held = [node for node in made.graph.nodes if node.op == "get_attr"]
    constants = {node.target: getattr(made, node.target) for node in held}
    last = [node for node in made.graph.nodes if node.op == "placeholder"][-1]
    with made.graph.inserting_after(last):
        given = {name: made.graph.placeholder(f"constant_{name}") for name in reversed(list(constants))}
    for node in held:
        node.replace_all_uses_with(given[node.target])
        made.graph.erase_node(node)
    made.recompile()
    return list(constants.values())
