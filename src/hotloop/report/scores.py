"""Scores of a few seeds in figures: interquartile mean, its interval, and what tells two settings apart. Knows numbers
only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from hotloop.report.curves import students_t

RESAMPLES = 10_000
_ALL = 5  # up to so many scores every resample there is is looked at

Statistic = Callable[[np.ndarray], np.ndarray]  # [..., n] -> [...]


def mean(values: np.ndarray) -> np.ndarray:
    return values.mean(-1)


def interquartile_mean(values: np.ndarray) -> np.ndarray:
    """[..., n] -> [...]: the mean without the lowest and the highest quarter of the scores, both rounded down (Agarwal
    et al. 2021, arXiv 2108.13264, section 4.3)."""
    cut = values.shape[-1] // 4
    return np.sort(values, -1)[..., cut : values.shape[-1] - cut].mean(-1)


def interval(values: Sequence[float], statistic: Statistic = interquartile_mean) -> tuple[float, float] | None:
    """95 % bootstrap interval over seeds, None for less than two of them. See `_levels`."""
    scores = np.asarray(values, np.float64)
    if len(scores) < 2:
        return None
    return _between(statistic(_resampled(scores, 0)), len(scores))


def difference(a: Sequence[float], b: Sequence[float]) -> tuple[float, tuple[float, float] | None]:
    """(interquartile mean of a − that of b, its interval)"""
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    found = float(interquartile_mean(x) - interquartile_mean(y))
    if min(len(x), len(y)) < 2:
        return found, None
    drawn = interquartile_mean(_drawn(x, 0)) - interquartile_mean(_drawn(y, 1))
    return found, _between(drawn, min(len(x), len(y)))


def improvement(a: Sequence[float], b: Sequence[float]) -> tuple[float, tuple[float, float] | None]:
    """(probability that a seed of a scores higher than a seed of b, ties counted half; its interval). Agarwal et al.
    2021, section 4.3; the statistic of Mann & Whitney 1947, doi 10.1214/aoms/1177730491."""
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    won = (x[:, None] > y) + 0.5 * (x[:, None] == y)  # [n, m]
    if min(len(x), len(y)) < 2:
        return float(won.mean()), None
    drawn = ((_shares(len(x), 0) @ won) * _shares(len(y), 1)).sum(1)
    return float(won.mean()), _between(drawn, min(len(x), len(y)))


def _between(drawn: np.ndarray, seeds: int) -> tuple[float, float]:
    low, high = np.quantile(drawn, _levels(seeds))
    return float(low), float(high)


def _levels(seeds: int) -> tuple[float, float]:
    """Which quantiles of the resamples hold 95 %. Those at 2.5 and 97.5 % would hold some 80 % with five seeds:
    resampling few values spreads them too little, and does not know how badly their own spread is known. Further out
    by Student's t and sqrt(n/(n-1)): Hesterberg 2015, doi 10.1080/00031305.2015.1089789, section 5.3."""
    z = students_t(seeds - 1) * math.sqrt(seeds / (seeds - 1))
    tail = 0.5 * math.erfc(z / math.sqrt(2))
    return tail, 1 - tail


def _resampled(scores: np.ndarray, seed: int) -> np.ndarray:
    """[R, n]"""
    if len(scores) <= _ALL:
        return np.array(list(product(scores, repeat=len(scores))))
    return _drawn(scores, seed)


def _drawn(scores: np.ndarray, seed: int) -> np.ndarray:
    n = len(scores)
    return scores[np.random.default_rng(seed).integers(0, n, (RESAMPLES, n))]


def _shares(n: int, seed: int) -> np.ndarray:
    """[R, n]: how much of a resample each score makes up."""
    return np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), RESAMPLES) / n
