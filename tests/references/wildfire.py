"""Fires and fuel breaks written for reading: sets of cells, tick by tick, and every fire burnt anew after every break.
The kernels must agree with it. Chances from the published formula, draws from the same random stream."""

from __future__ import annotations

import math

import numpy as np

from hotloop.core.random import ENV, below, bits, mix, stream_key

NEIGHBOURS = [(1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1)]  # x to the east, y to the south
P_VEGETATION = [-1.0, -0.3, 0.0, 0.4]  # none, agricultural, thickets, pine
LAYERS = ("vegetation", "canopy", "elevation", "wind_speed", "wind_from")
LAND, REWARD, SHOWN, HELD_OUT = range(4)  # what an episode's key is drawn from for

Cell = tuple[int, int]  # x, y


class Land:
    """layers [5, H, W]; cells are drawn by their number in reading order."""

    def __init__(self, layers: np.ndarray, metres: float) -> None:
        self.layers = dict(zip(LAYERS, np.asarray(layers, np.float64), strict=True))
        self.height, self.width = layers.shape[1:]
        self.metres = metres
        self.cells = [(x, y) for y in range(self.height) for x in range(self.width)]
        self.number = {c: k for k, c in enumerate(self.cells)}
        self.burnable = [c for c in self.cells if self.at("vegetation", c) != 0]
        self.chances = {(c, d): self.chance(c, d) for c in self.cells for d in range(8)}

    def at(self, layer: str, cell: Cell) -> float:
        return float(self.layers[layer][cell[1], cell[0]])

    def inside(self, cell: Cell) -> bool:
        return 0 <= cell[0] < self.width and 0 <= cell[1] < self.height

    def density(self, cell: Cell) -> float:
        cover = self.at("canopy", cell)
        return -0.4 if cover < 1 / 3 else 0.0 if cover < 2 / 3 else 0.3

    def fuel(self, cell: Cell) -> float:
        return (1 + P_VEGETATION[int(self.at("vegetation", cell))]) * (1 + self.density(cell))

    def chance(self, cell: Cell, d: int) -> int:
        """That fire passes from the cell to its neighbour in direction d, in 65,536ths."""
        (dx, dy), n = NEIGHBOURS[d], after(cell, d)
        if not self.inside(n) or self.at("vegetation", n) == 0:
            return 0
        distance = self.metres * math.hypot(dx, dy)
        slope = math.degrees(math.atan((self.at("elevation", n) - self.at("elevation", cell)) / distance))
        speed = self.at("wind_speed", cell)
        blows_towards = math.radians(self.at("wind_from", cell)) + math.pi  # clockwise from north
        fire_goes = math.atan2(dx, -dy)
        wind = math.exp(0.045 * speed) * math.exp(0.131 * speed * (math.cos(blows_towards - fire_goes) - 1))
        return min(65_536, int(0.58 * self.fuel(n) * wind * math.exp(0.078 * slope) * 65_536 + 0.5))

    def passes(self, key: int, cell: Cell, d: int) -> bool:
        """Whether fire `key` passes, be anything broken or not: 16 bits of the two words of the cell that burns."""
        word = bits(key, self.number[cell] + 1, 0)
        if d >= 4:
            word = mix(np.uint64(word))
        return int(word) >> 16 * (d % 4) & 0xFFFF < self.chances[cell, d]

    def burn(self, key: int, broken: set[Cell]) -> set[Cell]:
        """The cells that fire `key` burns."""
        start = self.burnable[below(key, 0, 0, len(self.burnable))]
        burning = set() if start in broken else {start}
        burnt: set[Cell] = set()
        while burning:
            lit = {after(cell, d) for cell in burning for d in range(8) if self.passes(key, cell, d)}
            burnt |= burning  # a cell burns one tick
            burning = lit - burnt - broken
        return burnt

    def planes(self) -> list[list[list[float]]]:
        """Fuel, canopy, slope to the east and to the south in 45°, wind to the east and to the south in 20 m/s."""
        planes: list[list[float]] = [[] for _ in range(6)]
        for x, y in self.cells:
            west, east = (max(x - 1, 0), y), (min(x + 1, self.width - 1), y)
            north, south = (x, max(y - 1, 0)), (x, min(y + 1, self.height - 1))
            speed, blows_from = self.at("wind_speed", (x, y)), math.radians(self.at("wind_from", (x, y)))
            values = [
                self.fuel((x, y)) / (1.4 * 1.3),
                self.at("canopy", (x, y)),
                self.slope(west, east, east[0] - west[0]),
                self.slope(north, south, south[1] - north[1]),
                -speed * math.sin(blows_from) / 20,
                speed * math.cos(blows_from) / 20,
            ]
            for plane, value in zip(planes, values, strict=True):
                plane.append(value)
        return [[plane[y * self.width : (y + 1) * self.width] for y in range(self.height)] for plane in planes]

    def slope(self, low: Cell, high: Cell, apart: int) -> float:
        rise = self.at("elevation", high) - self.at("elevation", low)
        return math.degrees(math.atan(rise / (apart * self.metres))) / 45


def after(cell: Cell, d: int) -> Cell:
    return cell[0] + NEIGHBOURS[d][0], cell[1] + NEIGHBOURS[d][1]


class Wildfire:
    """One lane. begin() is given the layers of the episode that begins, and key() says what it is drawn from."""

    def __init__(self, options, seed: int, lane: int, budget: int) -> None:
        self.options, self.budget = options, budget
        self.stream = np.uint64(stream_key(seed, ENV, lane))
        self.count = 0

    def key(self) -> np.uint64:
        return np.uint64(bits(self.stream, self.count, 0))

    def begin(self, layers: np.ndarray) -> None:
        self.land = Land(layers, self.options.cell_metres)
        self.episode = self.key()
        self.broken: set[Cell] = set()
        self.met: set[Cell] = set()  # the breaks that fires have met
        self.spent = 0
        self.before = self.after_fires(REWARD, self.options.fires, set())

    def after_fires(self, kind: int, number: int, broken: set[Cell]) -> list[set[Cell]]:
        return [self.land.burn(np.uint64(bits(self.episode, kind, f)), broken) for f in range(number)]

    def step(self, action: int) -> tuple[float, bool]:
        self.count += 1
        self.spent += 1
        self.broken.add(self.land.cells[action])
        over = self.spent == self.budget
        if not over and self.spent % self.options.cells_per_step:
            return 0.0, False
        self.met = set(self.broken)
        now = self.after_fires(REWARD, self.options.fires, self.met)
        spared = self.mean(self.before) - self.mean(now)
        self.before = now
        return self.options.reward_scale * spared, over

    def mean(self, fires: list[set[Cell]]) -> float:
        return sum(len(f) for f in fires) / (len(fires) * len(self.land.cells))

    def shown(self) -> list[set[Cell]]:
        if not self.options.shown_fires:
            return self.before
        return self.after_fires(SHOWN, self.options.shown_fires, self.met)

    def mask(self) -> list[bool]:
        return [self.land.at("vegetation", c) != 0 and c not in self.broken for c in self.land.cells]

    def observation(self) -> np.ndarray:
        """All planes but that of the flow, which depends on who lit whom: [9, H, W]"""
        fires, land = self.shown(), self.land
        maps = [
            [float(c in self.broken) for c in land.cells],
            [sum(c in f for f in fires) / len(fires) for c in land.cells],
            [1 - self.spent / self.budget for _ in land.cells],
        ]
        planes = np.array(land.planes())
        return np.concatenate([planes, np.array(maps).reshape(3, land.height, land.width)]).astype(np.float32)

    def measures(self) -> list[float]:
        held_out = [
            self.mean(self.after_fires(HELD_OUT, self.options.evaluation_fires, b)) for b in (self.broken, set())
        ]
        unbroken = self.mean(self.after_fires(REWARD, self.options.fires, set()))
        return [*held_out, self.mean(self.before), unbroken]
