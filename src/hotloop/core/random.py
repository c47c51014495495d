"""Counter-based random numbers: a draw is a pure function of (seed, stream, lane, step, draw), so there is no
generator to save, to share or to race on, and lane 7 draws the same whatever the number of lanes or workers."""

from __future__ import annotations

import numpy as np

from hotloop.core.jit import kernel

# Streams keep purposes apart that share a seed. A new purpose takes a new number; numbers are never reused.
ENV, EXPLORE, SAMPLE, NETWORK, EVALUATE, POLICY, DRAWS, NOISE, ACTING_NOISE, HINDSIGHT = range(1, 11)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S11 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11)
_ONE = np.uint64(1)


@kernel
def mix(x):
    """SplitMix64's finaliser (Steele, Lea, Flood 2014): uint64 → uint64, every input bit reaches every output bit."""
    x = np.uint64(x)
    x = (x ^ (x >> _S30)) * _M1
    x = (x ^ (x >> _S27)) * _M2
    return x ^ (x >> _S31)


@kernel
def stream_key(seed, stream, lane):
    """The key of one lane's stream. Worth computing once where many draws follow."""
    key = mix(np.uint64(seed) + _GOLDEN)
    key = mix(key ^ (np.uint64(stream) * _GOLDEN))
    return mix(key ^ (np.uint64(lane) * _GOLDEN + _ONE))


@kernel
def bits(key, step, draw):
    """64 random bits of a stream, for a step and the number of the draw within it."""
    return mix(mix(np.uint64(key) + (np.uint64(step) + _ONE) * _GOLDEN) ^ (np.uint64(draw) * _M1))


@kernel
def uniform(key, step, draw):
    """float64 in [0, 1) with 53 random bits."""
    return np.float64(bits(key, step, draw) >> _S11) * (1.0 / 9007199254740992.0)


@kernel
def below(key, step, draw, n):
    """int64 in [0, n). The bias of scaling a 53-bit float is below n / 2^53."""
    return np.int64(uniform(key, step, draw) * n)
