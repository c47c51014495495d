"""Fires on a landscape with fuel breaks. Whether fire passes from a cell to a neighbour is drawn once per fire, the
same whatever is broken, so a fire is what can be reached from its ignition, and a break takes away one cell and what
is reached through it alone. Knows no observation and no reward.

Arrays of R fires: `ways` uint8 [R, cells], the neighbours each burnt cell would light; `lit` uint8 [R, cells], by
whom a cell was lit; `order` int16 [R, cells + 1], the burnt cells, each after the one that lit it, and one more that
means nothing.
"""

from __future__ import annotations

import numpy as np

from hotloop.core.jit import kernel
from hotloop.core.random import below, bits, mix
from hotloop.envs._wildfire_land import DX, DY

# Values of `lit`: 0 not burnt, 1 + the way by which fire came, IGNITED; OUT only while a fire is put out.
UNBURNT, IGNITED, OUT = 0, 9, 10
_16_BITS = np.uint64(0xFFFF)


@kernel
def burn(r, key, i, width, chance, burnable, count, b, broken, ways, lit, order):
    """Fire r of landscape i, with the breaks broken[b] -> how many cells burn. lit[r] has to be all 0."""
    start = np.int64(burnable[i, below(key, 0, 0, count)])
    if broken[b, start]:
        return 0
    order[r, 0] = start
    lit[r, start] = IGNITED
    head, tail = 0, 1
    while head < tail:
        c = np.int64(order[r, head])
        head += 1
        found = 0
        word = bits(key, c + 1, 0)
        for d in range(8):
            if d == 4:
                word = mix(word)  # a word is four draws of 16 bits
            draw = np.int64((word >> np.uint64(16 * (d & 3))) & _16_BITS)
            # Without branches: whether fire passes is a toss-up, and a branch guessed wrong costs more than all this.
            passes = draw < chance[i, c, d]
            found |= np.int64(passes) << d
            n = c + DY[d] * width + DX[d] if passes else c  # an edge of the map has chance 0 outwards
            lights = (lit[r, n] == UNBURNT) & (not broken[b, n])
            lit[r, n] = d + 1 if lights else lit[r, n]
            order[r, tail] = n
            tail += np.int64(lights)
        ways[r, c] = found
    return tail


@kernel
def put_out(r, size, i, width, broken, ways, lit, order, loose):
    """Take the cells broken[i] out of fire r, of which `size` cells burn -> how many still do. loose [cells] then
    begins with those that do no longer."""
    kept, gone = 0, 0
    for k in range(size):
        c = np.int64(order[r, k])
        how = np.int64(lit[r, c])
        if broken[i, c] or (how != IGNITED and lit[r, c - DY[how - 1] * width - DX[how - 1]] == OUT):
            lit[r, c] = OUT
            loose[gone] = c
            gone += 1
        else:
            order[r, kept] = c
            kept += 1
    for k in range(gone):
        c = np.int64(loose[k])
        if lit[r, c] == OUT and not broken[i, c]:
            kept = _light_again(r, c, kept, i, width, broken, ways, lit, order)
    lost = 0
    for k in range(gone):
        c = np.int64(loose[k])
        if lit[r, c] == OUT:
            lit[r, c] = UNBURNT
            loose[lost] = c
            lost += 1
    return kept


@kernel
def _light_again(r, c, kept, i, width, broken, ways, lit, order):
    """If some cell that still burns lights c: c burns again, and all that was out and is reached from it."""
    cells = lit.shape[1]
    for d in range(8):
        n = c - DY[d] * width - DX[d]
        if n < 0 or n >= cells or lit[r, n] == UNBURNT or lit[r, n] == OUT or not ways[r, n] >> d & 1:
            continue
        head = kept
        lit[r, c] = d + 1
        order[r, kept] = c
        kept += 1
        while head < kept:
            c = np.int64(order[r, head])
            head += 1
            for e in range(8):
                if ways[r, c] >> e & 1:
                    n = c + DY[e] * width + DX[e]
                    if lit[r, n] == OUT and not broken[i, n]:
                        lit[r, n] = e + 1
                        order[r, kept] = n
                        kept += 1
        return kept
    return kept


@kernel
def downstream(r, size, i, width, sign, lit, order, passed, flow):
    """Add to flow[i], or take away where sign is -1, for every cell of fire r how many burnt cells fire came to
    through it, itself counted. passed [cells] is scratch, all 0 before and after."""
    for k in range(size - 1, -1, -1):
        c = np.int64(order[r, k])
        how = np.int64(lit[r, c])
        here = passed[c] + 1
        passed[c] = 0
        flow[i, c] += sign * here
        if how != IGNITED:
            passed[c - DY[how - 1] * width - DX[how - 1]] += here
