"""Snake written for reading: one game, a list of cells, a search cell by cell. The kernels must agree with it.
Coordinates count from 0, y downwards; the food is drawn from the same random stream, out of a plain list."""

from __future__ import annotations

import numpy as np

from hotloop.core.random import ENV, below, stream_key

STEPS = [(0, -1), (1, 0), (0, 1), (-1, 0)]  # up, right, down, left


class Snake:
    def __init__(self, size: int, max_steps: int, timeout_reward: float, seed: int, lane: int) -> None:
        self.size, self.max_steps, self.timeout_reward = size, max_steps, timeout_reward
        self.key = np.uint64(stream_key(seed, ENV, lane))  # numba hands it out as a Python int
        self.count = 0
        self.begin()

    def begin(self) -> None:
        middle = self.size // 2
        self.body = [(middle, middle), (middle - 1, middle), (middle - 2, middle)]  # head first
        self.direction, self.age, self.score = 1, 0, 0
        self.food = self.draw_food(1)

    def draw_food(self, draw: int) -> tuple[int, int] | None:
        cells = [(x, y) for y in range(self.size) for x in range(self.size)]
        free = [cell for cell in cells if cell not in self.body]
        return free[below(self.key, self.count, draw, len(free))] if free else None

    def cell_after(self, action: int) -> tuple[int, tuple[int, int]]:
        direction = (self.direction + (0, -1, 1)[action]) % 4
        (x, y), (dx, dy) = self.body[0], STEPS[direction]
        return direction, (x + dx, y + dy)

    def outside(self, cell: tuple[int, int]) -> bool:
        return not (0 <= cell[0] < self.size and 0 <= cell[1] < self.size)

    def kills(self, cell: tuple[int, int]) -> bool:
        return self.outside(cell) or cell in self.body

    def step(self, action: int) -> tuple[float, bool, bool, str | None]:
        """→ reward, terminated, truncated, how the episode ended. The board is left as it ended; begin() goes on."""
        self.count += 1
        self.age += 1
        trapped = all(self.kills(self.cell_after(a)[1]) for a in range(3))
        direction, cell = self.cell_after(action)
        if self.kills(cell):
            return -10.0, True, False, "entrapment" if trapped else "wall" if self.outside(cell) else "self"
        before = self.distance()
        self.direction = direction
        self.body.insert(0, cell)
        if cell == self.food:
            self.score += 1
            self.food = self.draw_food(0)
            reward = 10.0
            if self.food is None:
                return reward, True, False, "won"
        else:
            self.body.pop()
            reward = -0.01 + 0.5 * (before - self.distance()) / self.size
        if self.age >= self.max_steps:
            return reward + self.timeout_reward, False, True, "timeout"
        return reward, False, False, None

    def distance(self) -> int:
        assert self.food is not None
        return abs(self.food[0] - self.body[0][0]) + abs(self.food[1] - self.body[0][1])

    def basic(self) -> list[float]:
        (x, y), (fx, fy) = self.body[0], self.food or self.body[0]
        danger = [self.kills(self.cell_after(a)[1]) for a in range(3)]
        food = [fy < y, fx > x, fy > y, fx < x]
        return [float(v) for v in danger + food + [self.direction == d for d in (0, 1, 2)]]

    def flood(self) -> list[float]:
        return self.basic() + [self.room(self.cell_after(a)[1]) for a in range(3)]

    def room(self, start: tuple[int, int]) -> float:
        if self.kills(start):
            return 0.0
        seen, todo = {start}, [start]
        while todo:
            x, y = todo.pop()
            for dx, dy in STEPS:
                cell = (x + dx, y + dy)
                if cell not in seen and not self.kills(cell):
                    seen.add(cell)
                    todo.append(cell)
        return min(1.0, len(seen) / (self.size * self.size - len(self.body)))

    def grid(self) -> np.ndarray:
        planes = np.zeros((3, self.size, self.size), np.uint8)
        for plane, cells in enumerate((self.body[:1], self.body[1:], [self.food] if self.food else [])):
            for x, y in cells:
                planes[plane, y, x] = 1
        return planes
