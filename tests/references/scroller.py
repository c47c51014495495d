"""Scroller written for reading: one game, its level a list, its picture asked for pixel by pixel. The kernels must
agree with it, in arithmetic of whole numbers."""

from __future__ import annotations

import numpy as np

from hotloop.core.random import ENV, below, stream_key

TILE, WIDE, TALL = 64, 40, 60  # of a tile and of the runner


class Scroller:
    def __init__(self, frame: int, length: int, max_steps: int, seed: int, lane: int) -> None:
        self.frame, self.length, self.max_steps = frame, length, max_steps
        self.key, self.count = np.uint64(stream_key(seed, ENV, lane)), 0
        self.begin()

    def begin(self) -> None:
        self.goal = 3 + self.length
        self.level: dict[int, int | None] = dict.fromkeys(range(self.goal + 12), 0)
        obstacle = 0
        while 9 + 10 * obstacle <= self.goal:
            kind, late = (below(self.key, self.count, 2 * obstacle + d, n) for d, n in ((0, 4), (1, 5)))
            wide, height = [(2, None), (3, None), (2, 1), (2, 2)][kind]
            for c in range(9 + 10 * obstacle + late, 9 + 10 * obstacle + late + wide):
                if c < self.goal:
                    self.level[c] = height
            obstacle += 1
        self.x, self.y, self.rise, self.age, self.furthest = 3 * TILE, 0, 0, 0, 3 * TILE

    def floor(self) -> int:
        under = [self.level[self.x // TILE], self.level[(self.x + WIDE - 1) // TILE]]
        solid = [h * TILE for h in under if h is not None]
        return max(solid) if solid else -4 * TILE

    def step(self, action: int) -> tuple[float, bool, bool]:
        """(reward, terminated, truncated); `measures` then says how far it got."""
        runs, jumps = action in (1, 3), action in (2, 3)
        self.count += 1
        self.age += 1
        before, dead = self.x, False
        for _ in range(4):
            if jumps and self.y == self.floor() and self.rise == 0:
                self.rise = 24
            for _ in range(8 if runs and not dead else 0):
                ahead = self.level[(self.x + WIDE) // TILE]
                if self.y >= (-4 * TILE if ahead is None else ahead * TILE):
                    self.x += 1
            self.y += self.rise
            self.rise -= 2
            if self.y <= self.floor():
                self.y, self.rise = self.floor(), 0
            dead = dead or self.y < -TILE
        self.furthest = max(self.furthest, self.x)
        won = self.x >= self.goal * TILE
        self.measures = [(self.furthest - 3 * TILE) / TILE, float(won)]
        reward = (self.x - before) / TILE - 3 * dead + 3 * won
        return reward, dead or won, self.age >= self.max_steps and not (dead or won)

    def picture(self) -> np.ndarray:
        size, unit = self.frame, max(self.frame // 12, 1)
        return np.array([[self.pixel(r, c, unit) for c in range(size)] for r in range(size)], np.uint8)

    def pixel(self, row: int, column: int, unit: int) -> int:
        """Rows are counted from the top, heights from the ground's surface."""
        up = self.frame - 4 * unit - row  # 1: the row above the surface
        feet = self.y * unit // TILE
        if feet < up <= feet + max(TALL * unit // TILE, 1) and 3 * unit <= column < 3 * unit + max(
            WIDE * unit // 64, 1
        ):
            return 255
        left = self.x - 3 * TILE
        tile = max(c for c in self.level if (c * TILE - left) * unit // TILE <= column)
        begin = max((tile * TILE - left) * unit // TILE, 0)
        if tile == self.goal and 0 < up <= 6 * unit and column < begin + max(unit // 3, 1):
            return 200
        height = self.level[tile]
        if height is None:
            return 0
        return 90 if up <= 0 else 150 if up <= height * unit else 0
