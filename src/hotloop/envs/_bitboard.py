"""Sets of cells of a square board as rows of bits: counting, choosing and flooding without a loop over cells.
Cells are (x, y), both from 1; a row is a uint64 with bit x set where the cell is blocked. Bits 0 and size + 1 and
rows 0 and size + 1 are the wall, always blocked, so that no neighbour needs a bounds check. Knows no snake."""

from __future__ import annotations

import numpy as np

from hotloop.core.jit import inline, kernel

ONE = np.uint64(1)
_7 = np.uint64(7)
_S1, _S2, _S3, _S4, _S6, _S8, _S16, _S56 = (np.uint64(n) for n in (1, 2, 3, 4, 6, 8, 16, 56))
_M1, _M2, _M4 = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333), np.uint64(0x0F0F0F0F0F0F0F0F)
_BYTES = np.uint64(0x0101010101010101)


@kernel
def popcount(bits):
    """Number of set bits. LLVM turns this into one instruction."""
    bits = bits - ((bits >> _S1) & _M1)
    bits = (bits & _M2) + ((bits >> _S2) & _M2)
    bits = (bits + (bits >> _S4)) & _M4
    return np.int64((bits * _BYTES) >> _S56)


@kernel
def inside(size):
    """The row with every cell set and no wall."""
    return ((ONE << np.uint64(size)) - ONE) << ONE


@kernel
def at_wall(x, y, size):
    """1 where the cell (x, y) touches the wall."""
    return np.int64(x == 1 or y == 1 or x == size or y == size)


@inline
def blocked(rows, i, x, y):
    """1 where the cell (x, y) of board i is blocked."""
    return (rows[i, y] >> np.uint64(x)) & ONE


@kernel
def select_free(rows, i, size, k):
    """The k-th free cell in reading order, as (x, y)."""
    row = inside(size)
    for y in range(1, size + 1):
        free = ~rows[i, y] & row
        here = popcount(free)
        if k < here:
            for _ in range(k):
                free &= free - ONE
            return popcount((free ^ (free & (free - ONE))) - ONE), y
        k -= here
    return 0, 0


def _euler_table() -> np.ndarray:
    """For the blocked bits of a 3×3 neighbourhood, by how much its centre, made free, raises `free cells - adjacent
    pairs + full 2×2 squares` (the Euler number of the free cells, joined by their edges)."""
    code = np.arange(512)
    n, w, e, s = ((code >> b & 1) == 0 for b in (1, 3, 5, 7))
    nw, ne, sw, se = ((code >> b & 1) == 0 for b in (0, 2, 6, 8))
    sides = n.astype(np.int8) + w + e + s
    squares = (n & w & nw).astype(np.int8) + (n & e & ne) + (s & w & sw) + (s & e & se)
    return (1 - sides + squares).astype(np.int8)


_EULER = _euler_table()


@inline
def euler_gain(rows, i, x, y):
    """By how much the Euler number of the free cells rises when (x, y) is freed; blocking it lowers it as much."""
    shift = np.uint64(x - 1)
    code = ((rows[i, y - 1] >> shift) & _7) | ((rows[i, y] >> shift) & _7) << _S3
    return np.int64(_EULER[np.int64(code | ((rows[i, y + 1] >> shift) & _7) << _S6)])


@inline
def _whole_runs(free, seed):
    """Every run of free bits that holds a seed. A carry runs up from the lowest seed; doubling steps go down."""
    fill = (((free + seed) ^ free) | seed) & free
    fill |= free & (fill >> _S1)
    free &= free >> _S1
    fill |= free & (fill >> _S2)
    free &= free >> _S2
    fill |= free & (fill >> _S4)
    free &= free >> _S4
    fill |= free & (fill >> _S8)
    free &= free >> _S8
    return fill | (free & (fill >> _S16))


@kernel
def flood(rows, i, size, x, y, fill):
    """Set in fill[0 … size + 1] the free cells joined to the free cell (x, y), and return their number.
    Sweeps down and up until neither finds more."""
    for r in range(size + 2):
        fill[r] = np.uint64(0)
    row = inside(size)
    fill[y] = _whole_runs(~rows[i, y] & row, ONE << np.uint64(x))
    top, bottom = y, y
    more = True
    while more:
        more = False
        r = top + 1
        while r <= min(bottom + 1, size):
            free = ~rows[i, r] & row
            seed = (fill[r] | fill[r - 1]) & free
            if seed != fill[r]:
                fill[r] = _whole_runs(free, seed)
                bottom = max(bottom, r)
                more = True
            r += 1
        r = bottom - 1
        while r >= max(top - 1, 1):
            free = ~rows[i, r] & row
            seed = (fill[r] | fill[r + 1]) & free
            if seed != fill[r]:
                fill[r] = _whole_runs(free, seed)
                top = min(top, r)
                more = True
            r -= 1
    count = 0
    for r in range(top, bottom + 1):
        count += popcount(fill[r])
    return count
