"""Optimizers as pure functions over the flat parameter vector, equal to torch.optim's up to rounding.

Each is (parameters, gradient, moments, scalars, options) -> (parameters, moments). What depends on the number of
the update alone comes as scalars, computed once per call: a power per element would cost more than the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from torch import Tensor

from hotloop.core.options import option

Step = Callable[["Tensor", "Tensor", "list[Tensor]", "Tensor", "Options"], "tuple[Tensor, list[Tensor]]"]
SCALARS = 3  # learning rate, and two bias corrections


@dataclass(frozen=True)
class Options:
    name: Literal["adam", "adamw", "rmsprop"] = option("adam", "adam, adamw or rmsprop")
    learning_rate: float = option(1e-3, "step size at the first update", gt=0)
    learning_rate_end: float = option(-1.0, "step size at the last update; below 0: it stays constant")
    learning_rate_shape: Literal["linear", "cosine"] = option(
        "linear", "how the step size goes to its end: in a line, or by half a cosine, slow at both ends"
    )
    eps: float = option(1e-8, "added to the denominator", gt=0)
    beta1: float = option(0.9, "decay of the first moment (adam, adamw)", ge=0, le=0.999999)
    beta2: float = option(0.999, "decay of the second moment (adam, adamw)", ge=0, le=0.999999)
    alpha: float = option(0.95, "decay of the squared gradient (rmsprop)", ge=0, le=0.999999)
    weight_decay: float = option(0.0, "decoupled weight decay (adamw)", ge=0)
    max_grad_norm: float = option(10.0, "gradients are scaled down to this norm; 0: never", ge=0)


@lru_cache(maxsize=8)  # agents that are trained at once ask for the same
def scalars(options: Options, first_update: int, updates: int, total_updates: int) -> np.ndarray:
    """[U, 3] float32: what the updates numbered first_update+1 … first_update+U need beside their gradients. Not to be
    written to."""
    t = np.arange(first_update + 1, first_update + updates + 1, dtype=np.float64)
    rate = np.full(updates, options.learning_rate)
    if options.learning_rate_end >= 0:
        done = np.clip((t - 1) / max(total_updates - 1, 1), 0.0, 1.0)
        if options.learning_rate_shape == "cosine":  # Loshchilov & Hutter 2017, arXiv 1608.03983, eq. 5, one period
            done = 0.5 - 0.5 * np.cos(np.pi * done)
        rate += (options.learning_rate_end - options.learning_rate) * done
    correction1, correction2 = 1.0 - options.beta1**t, 1.0 - options.beta2**t
    return np.stack([rate, 1.0 / correction1, 1.0 / np.sqrt(correction2)], axis=1).astype(np.float32)


def adam(p: Tensor, g: Tensor, moments: list[Tensor], s: Tensor, o: Options) -> tuple[Tensor, list[Tensor]]:
    """Kingma & Ba 2015, arXiv 1412.6980, algorithm 1."""
    m, v = moments
    m = m + (1.0 - o.beta1) * (g - m)
    v = v + (1.0 - o.beta2) * (g * g - v)
    return p - (s[0] * s[1]) * m / (v.sqrt() * s[2] + o.eps), [m, v]


def adamw(p: Tensor, g: Tensor, moments: list[Tensor], s: Tensor, o: Options) -> tuple[Tensor, list[Tensor]]:
    """Loshchilov & Hutter 2019, arXiv 1711.05101, algorithm 2: the decay does not pass through the moments."""
    return adam(p * (1.0 - s[0] * o.weight_decay), g, moments, s, o)


def rmsprop(p: Tensor, g: Tensor, moments: list[Tensor], s: Tensor, o: Options) -> tuple[Tensor, list[Tensor]]:
    """Tieleman & Hinton 2012, Coursera lecture 6.5, as torch.optim.RMSprop has it."""
    (v,) = moments
    v = v + (1.0 - o.alpha) * (g * g - v)
    return p - s[0] * g / (v.sqrt() + o.eps), [v]


STEPS: dict[str, Step] = {"adam": adam, "adamw": adamw, "rmsprop": rmsprop}
MOMENTS = {"adam": 2, "adamw": 2, "rmsprop": 1}
