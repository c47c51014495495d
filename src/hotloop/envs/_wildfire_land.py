"""Landscapes: drawn from a key or read from a file, and what follows from them, the chances of fire to spread and the
planes that are seen. Knows no fire and no fuel break.

The chances are those of Alexandridis et al. 2008 (doi 10.1016/j.amc.2008.06.046): a burning cell lights a neighbour
with p0 (1 + p_veg)(1 + p_den) exp(c1 V) exp(c2 V (cos θ − 1)) exp(a φ), at most 1, where p_veg and p_den are the
neighbour's, V is the wind in m/s, θ the angle between it and the way the fire goes, φ the slope that way in degrees.
The paper itself was not at hand. Constants and formula are those that several public programs independently quote
from its tables, without a contradiction among them; not verified: that the slope is the neighbour's height over the
burning cell (taken so because fire climbs), that V is the burning cell's, the classes of density by canopy cover, and
that a cell burns one tick. Spotting is left out.
"""

from __future__ import annotations

import math

import numpy as np

from hotloop.core.jit import kernel
from hotloop.core.random import uniform

# Layers of a landscape, float32 [N, 5, cells]. Cells in reading order, north at the top.
VEGETATION, CANOPY, ELEVATION, WIND_SPEED, WIND_FROM = range(5)
LAYERS = ("vegetation", "canopy", "elevation", "wind_speed", "wind_from")
NONE, AGRICULTURAL, THICKETS, PINE = range(4)  # classes of vegetation; where there is none, nothing burns

P0, C1, C2, A = 0.58, 0.045, 0.131, 0.078
P_VEGETATION = np.array([-1.0, -0.3, 0.0, 0.4])
P_DENSITY = np.array([-0.4, 0.0, 0.3])  # sparse, normal, dense: canopy cover below 1/3, below 2/3, and above

# Neighbours, in the order of the bits of a way: east, south-east, south, …; x to the east, y to the south.
DX = np.array([1, 1, 0, -1, -1, -1, 0, 1])
DY = np.array([0, 1, 1, 1, 0, -1, -1, -1])
ONE_CHANCE = 1 << 16  # chances are whole numbers of 1/65536, so that drawing against them is exact everywhere

# Planes of an observation that a landscape decides. Slope in 45°, wind in 20 m/s.
FUEL, COVER, SLOPE_EAST, SLOPE_SOUTH, WIND_EAST, WIND_SOUTH = range(6)
PLANES = 6

# Drawn landscapes: how much of the cells is of which class, and how coarse and how strong the layers are.
SHARES = np.array([0.15, 0.2, 0.35, 0.3])
RELIEF_METRES = 150.0
_COARSE, _FINE = np.array([4.0, 5.0, 10.0]), np.array([2.0, 2.5, 5.0])  # cells: vegetation, canopy, elevation


@kernel
def draw_layers(i, key, height, width, most_wind, layers, field):
    """A landscape from `key`. field [cells] is scratch."""
    cells = height * width
    _noise(key, 0, height, width, field)
    order = np.argsort(field)
    first = 0
    for kind in range(4):
        last = cells if kind == PINE else first + int(SHARES[kind] * cells)
        for k in range(first, last):
            layers[i, VEGETATION, order[k]] = kind
        first = last
    _noise(key, 1, height, width, field)
    for c in range(cells):
        kind = int(layers[i, VEGETATION, c])
        layers[i, CANOPY, c] = 0.0 if kind == NONE else 0.1 * kind + 0.7 * field[c]
    _noise(key, 2, height, width, field)
    speed = most_wind * uniform(key, 6, 0)
    direction = 360.0 * uniform(key, 6, 1)
    for c in range(cells):
        layers[i, ELEVATION, c] = RELIEF_METRES * field[c]
        layers[i, WIND_SPEED, c] = speed
        layers[i, WIND_FROM, c] = direction


@kernel
def _noise(key, layer, height, width, field):
    """Smooth noise in [0, 1): values on a coarse and a fine lattice, interpolated."""
    for c in range(height * width):
        field[c] = 0.0
    for octave in range(2):
        spacing = _COARSE[layer] if octave == 0 else _FINE[layer]
        weight = 2.0 / 3.0 if octave == 0 else 1.0 / 3.0
        across = int(width / spacing) + 2
        down = int(height / spacing) + 2
        lattice = np.empty((down, across))
        for k in range(down * across):
            lattice[k // across, k % across] = uniform(key, 2 * layer + octave, k)
        for y in range(height):
            v = y / spacing
            row = int(v)
            v = _smooth(v - row)
            for x in range(width):
                u = x / spacing
                column = int(u)
                u = _smooth(u - column)
                north = lattice[row, column] * (1 - u) + lattice[row, column + 1] * u
                south = lattice[row + 1, column] * (1 - u) + lattice[row + 1, column + 1] * u
                field[y * width + x] += weight * (north * (1 - v) + south * v)


@kernel
def _smooth(t):
    return t * t * (3.0 - 2.0 * t)


@kernel
def follow(i, height, width, metres, layers, chance, planes, burnable):
    """From the layers of landscape i: the chances [cells, 8], the planes [6, cells] and the burnable cells -> how
    many of these."""
    count = 0
    for c in range(height * width):
        _planes(i, c, height, width, metres, layers, planes)
        _chances(i, c, height, width, metres, layers, chance)
        if layers[i, VEGETATION, c] != NONE:
            burnable[i, count] = c
            count += 1
    return count


@kernel
def _chances(i, c, height, width, metres, layers, chance):
    y, x = c // width, c % width
    speed = np.float64(layers[i, WIND_SPEED, c])
    towards = math.radians(np.float64(layers[i, WIND_FROM, c]))
    wind_x, wind_y = -speed * math.sin(towards), speed * math.cos(towards)
    for d in range(8):
        nx, ny = x + DX[d], y + DY[d]
        chance[i, c, d] = 0
        if nx < 0 or ny < 0 or nx >= width or ny >= height:
            continue
        n = ny * width + nx
        kind = int(layers[i, VEGETATION, n])
        if kind == NONE:
            continue
        length = math.sqrt(2.0) if DX[d] != 0 and DY[d] != 0 else 1.0
        along = (wind_x * DX[d] + wind_y * DY[d]) / length  # V cos θ
        rise = np.float64(layers[i, ELEVATION, n]) - np.float64(layers[i, ELEVATION, c])
        slope = math.degrees(math.atan(rise / (metres * length)))
        fuel = (1.0 + P_VEGETATION[kind]) * (1.0 + P_DENSITY[density(layers[i, CANOPY, n])])
        p = P0 * fuel * math.exp(C1 * speed + C2 * (along - speed) + A * slope)
        chance[i, c, d] = ONE_CHANCE if p >= 1.0 else int(p * ONE_CHANCE + 0.5)


@kernel
def density(cover):
    """Class of density: 0 sparse, 1 normal, 2 dense."""
    share = np.float64(cover)  # plain Python would compare in float32
    return 0 if share < 1.0 / 3.0 else (1 if share < 2.0 / 3.0 else 2)


@kernel
def _planes(i, c, height, width, metres, layers, planes):
    y, x = c // width, c % width
    kind = int(layers[i, VEGETATION, c])
    fuel = 0.0
    if kind != NONE:
        fuel = (1.0 + P_VEGETATION[kind]) * (1.0 + P_DENSITY[density(layers[i, CANOPY, c])])
    planes[i, FUEL, c] = fuel / ((1.0 + P_VEGETATION[PINE]) * (1.0 + P_DENSITY[2]))
    planes[i, COVER, c] = layers[i, CANOPY, c]
    west, east = y * width + max(x - 1, 0), y * width + min(x + 1, width - 1)
    north, south = max(y - 1, 0) * width + x, min(y + 1, height - 1) * width + x
    planes[i, SLOPE_EAST, c] = _slope(i, west, east, metres * (east - west), layers)
    planes[i, SLOPE_SOUTH, c] = _slope(i, north, south, metres * ((south - north) // width), layers)
    towards = math.radians(np.float64(layers[i, WIND_FROM, c]))
    speed = np.float64(layers[i, WIND_SPEED, c])
    planes[i, WIND_EAST, c] = -speed * math.sin(towards) / 20.0
    planes[i, WIND_SOUTH, c] = speed * math.cos(towards) / 20.0


@kernel
def _slope(i, below, above, metres, layers):
    rise = np.float64(layers[i, ELEVATION, above]) - np.float64(layers[i, ELEVATION, below])
    return math.degrees(math.atan(rise / metres)) / 45.0
