"""Random numbers as pure functions of their keys: uniform, apart from each other, and the same for ever."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from hotloop.core import random

# Hand-computed with Python's integers from the formulas. A change here changes every run that was ever recorded.
MASK = 2**64 - 1
GOLDEN, M1, M2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * M1) & MASK
    x = ((x ^ (x >> 27)) * M2) & MASK
    return x ^ (x >> 31)


def stream_key(seed: int, stream: int, lane: int) -> int:
    key = mix((seed + GOLDEN) & MASK)
    key = mix(key ^ (stream * GOLDEN & MASK))
    return mix(key ^ ((lane * GOLDEN + 1) & MASK))


def bits(key: int, step: int, draw: int) -> int:
    return mix(mix((key + (step + 1) * GOLDEN) & MASK) ^ (draw * M1 & MASK))


def test_splitmix_s_published_values():
    """SplitMix64 from state 1234567, as its reference implementation gives them."""
    state, published = 1234567, [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [mix((state + (i + 1) * GOLDEN) & MASK) for i in range(3)] == published


u64, small = st.integers(0, 2**63 - 1), st.integers(0, 2**40)


@given(u64, st.integers(1, 6), small, small, st.integers(0, 1000))
def test_the_formulas_in_whole_numbers(seed, stream, lane, step, draw):
    key = stream_key(seed, stream, lane)
    assert int(random.stream_key(np.int64(seed), np.int64(stream), np.int64(lane))) & MASK == key
    assert int(random.bits(np.uint64(key), np.int64(step), np.int64(draw))) & MASK == bits(key, step, draw)
    number = random.uniform(np.uint64(key), step, draw)
    assert number == (bits(key, step, draw) >> 11) / 2**53 and 0 <= number < 1
    assert random.below(np.uint64(key), step, draw, 7) == int(number * 7)


def test_golden():
    key = random.stream_key(0, random.ENV, 0)
    assert [int(random.bits(np.uint64(key), s, d)) & MASK for s, d in ((0, 0), (0, 1), (1, 0))] == [
        bits(stream_key(0, 1, 0), s, d) for s, d in ((0, 0), (0, 1), (1, 0))
    ]
    assert (random.ENV, random.EXPLORE, random.SAMPLE, random.NETWORK, random.EVALUATE, random.POLICY) == (
        1,
        2,
        3,
        4,
        5,
        6,
    )


def draws(axis: str, n: int = 20_000) -> np.ndarray:
    key = np.uint64(random.stream_key(3, random.SAMPLE, 5))
    if axis == "step":
        return np.array([random.uniform(key, i, 0) for i in range(n)])
    if axis == "draw":
        return np.array([random.uniform(key, 0, i) for i in range(n)])
    make = {
        "lane": lambda i: (3, random.SAMPLE, i),
        "seed": lambda i: (i, random.SAMPLE, 5),
        "stream": lambda i: (3, i, 5),
    }[axis]
    return np.array([random.uniform(np.uint64(random.stream_key(*make(i))), 0, 0) for i in range(n)])


@pytest.mark.parametrize("axis", ["step", "draw", "lane", "seed", "stream"])
def test_draws_are_uniform_and_neighbours_independent(axis):
    found = draws(axis)
    assert kstest(found, "uniform").pvalue > 1e-4
    cells = np.histogram2d(found[:-1], found[1:], bins=8, range=[[0, 1], [0, 1]])[0]
    assert chisquare(cells.ravel()).pvalue > 1e-4
    assert len(np.unique(found)) == len(found)


def test_purposes_and_lanes_do_not_share_numbers():
    keys = {int(random.stream_key(seed, s, lane)) for seed in range(8) for s in range(1, 7) for lane in range(64)}
    assert len(keys) == 8 * 6 * 64


@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_below_reaches_every_number_and_no_other(n):
    key = np.uint64(random.stream_key(1, random.POLICY, 0))
    counts = np.bincount([random.below(key, i, 2, n) for i in range(4_000)], minlength=n)
    assert len(counts) == n and counts.min() > 0
    assert n == 1 or chisquare(counts).pvalue > 1e-4


def test_plain_python_gives_the_same():
    code = (
        "import numpy as np; np.seterr(over='ignore')\n"
        "from hotloop.core import random as r\n"
        "print([int(r.bits(np.uint64(r.stream_key(s, 2, l)), t, d)) & (2**64 - 1)"
        " for s in (0, 2**63 - 1) for l in (0, 9) for t in (0, 5) for d in (0, 3)])"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={**os.environ, "NUMBA_DISABLE_JIT": off},
        ).stdout
        for off in "01"
    ]  # fmt: skip
    assert outputs[0] == outputs[1]
    expected = [
        bits(stream_key(s, 2, lane), t, d) for s in (0, 2**63 - 1) for lane in (0, 9) for t in (0, 5) for d in (0, 3)
    ]
    assert outputs[0].strip() == str(expected)
