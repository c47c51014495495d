"""snake: eat without hitting the walls or yourself. Owns the rules, the three observations and their kernels.
The body is kept as rows of bits and as a ring of cells, so that a step costs a few bit tests whatever the length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hotloop.core.errors import UserError
from hotloop.core.jit import kernel
from hotloop.core.options import option
from hotloop.core.random import below
from hotloop.core.types import Arrays, BatchedEnv, EnvSpec, Field, Policy, Steps
from hotloop.envs._bitboard import ONE, at_wall, blocked, euler_gain, flood, inside, select_free
from hotloop.envs._lanes import COUNT, KEY, checked, copied, restore, start_streams

STEP_REWARD, FOOD_REWARD, DEATH_REWARD, CLOSER_REWARD = -0.01, 10.0, -10.0, 0.5
START_LENGTH = 3

# How an episode ended. 1 to 4 are also the columns of the measures, after the score; a won game counts as no death.
ALIVE, WALL, SELF, ENTRAPMENT, TIMEOUT, WON = range(6)
MEASURES = ("score", "death_wall", "death_self", "death_entrapment", "death_timeout")

BASIC, FLOOD, GRID = range(3)  # the observations, as the kernels know them
KINDS = {"basic": BASIC, "flood": FLOOD, "grid": GRID}

# Columns of `lane`, int32 [N, 11]. Cells are counted from 1, as in _bitboard. Without food (a won board) the food
# stands on the head. EULER and BORDER (body cells at a wall) are kept for the observation `flood` alone.
X, Y, DIRECTION, LENGTH, HEAD, FOOD_X, FOOD_Y, AGE, EULER, BORDER, END = range(11)

# A picture: pixels to a cell, and its colours.
_PIXELS = 20
_EDGE, _FLOOR, _BODY, _HEAD, _FOOD = (58, 66, 78), (24, 28, 34), (86, 168, 98), (168, 230, 150), (232, 92, 74)

# Directions: 0 up, 1 right, 2 down, 3 left.
_DX = np.array([0, 1, 0, -1])
_DY = np.array([-1, 0, 1, 0])


@dataclass(frozen=True)
class Options:
    size: int = option(10, "cells along one side of the board", ge=4, le=32)
    observation: Literal["basic", "flood", "grid"] = option(
        "basic", "basic: 10 numbers; flood: 13, with the room each move leaves; grid: planes for a CNN"
    )
    max_steps: int = option(500, "steps after which an episode is cut", ge=1)
    timeout_reward: float = option(-5.0, "added to the reward of the step that cuts the episode")


def spec(options: Options) -> EnvSpec:
    size = options.size
    seen = {
        "basic": Field("obs", (10,), "float32"),  # danger ahead, left, right; food up, right, down, left; up right down
        "flood": Field("obs", (13,), "float32"),  # and the share of the free cells that each move can reach
        "grid": Field("obs", (3, size, size), "uint8"),  # head, rest of the body, food: 0 or 1
    }
    return EnvSpec("snake", (seen[options.observation],), 3, measures=MEASURES)


def bounds(options: Options) -> dict[str, tuple[float, float]]:
    """Least and greatest value of each part of the observation."""
    return {"obs": (0, 1)}


def make(options: Options, lanes: int, first_lane: int = 0) -> BatchedEnv:
    return _Snake(checked(options, lanes), lanes, first_lane)


def heuristic(options: Options, env: BatchedEnv) -> Policy:
    """Of the moves that do not kill: the one with most room (`flood` alone), then towards the food, then straight."""
    if options.observation == "grid":
        raise UserError("env.observation = 'grid': the snake heuristic reads numbers; choose basic or flood")

    def act(obs: Arrays, mask: np.ndarray | None) -> np.ndarray:
        seen = obs["obs"]
        lane = np.arange(len(seen))
        direction = np.where(seen[:, 7:10].any(axis=1), seen[:, 7:10].argmax(axis=1), 3)
        worth = np.zeros((len(seen), 3))
        for move, turn in enumerate((0, 3, 1)):
            worth[:, move] = seen[lane, 3 + (direction + turn) % 4] + 0.1 * (turn == 0) - 1e6 * seen[:, move]
        if seen.shape[1] == 13:
            worth += 1e3 * seen[:, 10:13]
        return worth.argmax(axis=1).astype(np.int32)

    return act


@kernel
def _begin(size, kind, stream, lane, rows, ring, fills, obs):
    seen = obs.reshape((obs.shape[0], obs.size // obs.shape[0]))
    for i in range(lane.shape[0]):
        _new_episode(i, size, kind, stream, lane, rows, ring)
    _show(0, lane.shape[0], size, kind, lane, rows, ring, fills, seen)


@kernel
def _step(
    size, kind, max_steps, timeout_reward, actions, stream, lane, rows, ring, fills,
    obs, reward, terminated, truncated, final_obs, measures,
):  # fmt: skip
    # Each stage is a loop over the lanes and not a function of one lane: a call that is handed arrays counts
    # references, which costs more than the move itself.
    seen = obs.reshape((lane.shape[0], obs.size // lane.shape[0]))
    final = final_obs.reshape(seen.shape)
    _move(size, kind, max_steps, timeout_reward, actions, stream, lane, rows, ring, reward)
    for i in range(lane.shape[0]):
        over = lane[i, END] != ALIVE
        cut = lane[i, AGE] >= max_steps and not over
        terminated[i] = over
        truncated[i] = cut
        if cut:
            lane[i, END] = TIMEOUT
        if over or cut:
            measures[i, 0] = lane[i, LENGTH] - START_LENGTH
            for cause in range(WALL, WON):
                measures[i, cause] = np.float32(lane[i, END] == cause)
            _show(i, i + 1, size, kind, lane, rows, ring, fills, final)
            _new_episode(i, size, kind, stream, lane, rows, ring)
    _show(0, lane.shape[0], size, kind, lane, rows, ring, fills, seen)


@kernel
def _move(size, kind, max_steps, timeout_reward, actions, stream, lane, rows, ring, reward):
    """One move of every lane: writes the reward and END. A death leaves the board as it was."""
    last = ring.shape[1] - 1
    for i in range(lane.shape[0]):
        stream[i, COUNT] += ONE
        lane[i, AGE] += 1
        x, y = np.int64(lane[i, X]), np.int64(lane[i, Y])
        direction = (np.int64(lane[i, DIRECTION]) + np.int64(actions[i] == 2) - np.int64(actions[i] == 1)) & 3
        nx, ny = x + _DX[direction], y + _DY[direction]
        if blocked(rows, i, nx, ny):
            lane[i, END] = _cause(i, nx, ny, size, lane, rows)
            reward[i] = DEATH_REWARD
            continue
        if kind == FLOOD:
            lane[i, EULER] -= euler_gain(rows, i, nx, ny)
            lane[i, BORDER] += at_wall(nx, ny, size)
        rows[i, ny] |= ONE << np.uint64(nx)
        head = (np.int64(lane[i, HEAD]) + 1) & last
        ring[i, head] = ny << 6 | nx
        lane[i, X], lane[i, Y], lane[i, DIRECTION], lane[i, HEAD] = nx, ny, direction, head
        food_x, food_y, length = np.int64(lane[i, FOOD_X]), np.int64(lane[i, FOOD_Y]), np.int64(lane[i, LENGTH])
        late = timeout_reward if lane[i, AGE] >= max_steps else 0.0
        if nx == food_x and ny == food_y:
            lane[i, LENGTH] = length + 1
            _place_food(i, 0, size, stream, lane, rows)
            if length + 1 < size * size:
                reward[i] = FOOD_REWARD + late
            else:
                lane[i, END] = WON
                reward[i] = FOOD_REWARD
            continue
        tail = np.int64(ring[i, (head - length) & last])
        tx, ty = tail & 63, tail >> 6
        rows[i, ty] &= ~(ONE << np.uint64(tx))
        if kind == FLOOD:
            lane[i, EULER] += euler_gain(rows, i, tx, ty)
            lane[i, BORDER] -= at_wall(tx, ty, size)
        closer = abs(food_x - x) + abs(food_y - y) - abs(food_x - nx) - abs(food_y - ny)
        reward[i] = STEP_REWARD + CLOSER_REWARD * closer / size + late


@kernel
def _cause(i, x, y, size, lane, rows):
    """Why the move onto the blocked cell (x, y) killed: entrapment where every other move would have, too."""
    hx, hy = np.int64(lane[i, X]), np.int64(lane[i, Y])
    # the head's four neighbours are the three moves and the neck, which is always blocked
    beside = blocked(rows, i, hx - 1, hy) & blocked(rows, i, hx + 1, hy)
    if beside & blocked(rows, i, hx, hy - 1) & blocked(rows, i, hx, hy + 1):
        return ENTRAPMENT
    if x < 1 or y < 1 or x > size or y > size:
        return WALL
    return SELF


@kernel
def _place_food(i, draw, size, stream, lane, rows):
    """Food on any free cell, each as likely; on the head where there is none."""
    free = size * size - np.int64(lane[i, LENGTH])
    if free == 0:
        lane[i, FOOD_X], lane[i, FOOD_Y] = lane[i, X], lane[i, Y]
    else:
        k = below(stream[i, KEY], stream[i, COUNT], draw, free)
        lane[i, FOOD_X], lane[i, FOOD_Y] = select_free(rows, i, size, k)


@kernel
def _new_episode(i, size, kind, stream, lane, rows, ring):
    empty = ~inside(size)
    rows[i, 0] = rows[i, size + 1] = ~np.uint64(0)
    for y in range(1, size + 1):
        rows[i, y] = empty
    lane[i, EULER] = 1  # an empty board is one piece without a hole
    lane[i, BORDER] = 0
    middle = size // 2 + 1
    for k in range(START_LENGTH):
        x = middle + 1 - START_LENGTH + k
        ring[i, k] = middle << 6 | x
        if kind == FLOOD:
            lane[i, EULER] -= euler_gain(rows, i, x, middle)
            lane[i, BORDER] += at_wall(x, middle, size)
        rows[i, middle] |= ONE << np.uint64(x)
    lane[i, X], lane[i, Y], lane[i, DIRECTION] = middle, middle, 1
    lane[i, LENGTH], lane[i, HEAD], lane[i, AGE], lane[i, END] = START_LENGTH, START_LENGTH - 1, 0, ALIVE
    _place_food(i, 1, size, stream, lane, rows)


@kernel
def _show(first, last, size, kind, lane, rows, ring, fills, seen):
    """Write the observations of lanes first … last - 1 into seen."""
    if kind == GRID:
        _show_grid(first, last, size, lane, ring, seen)
        return
    _show_basic(first, last, lane, rows, seen)
    if kind == FLOOD:
        _show_room(first, last, size, lane, rows, fills, seen)


@kernel
def _show_basic(first, last, lane, rows, seen):
    for i in range(first, last):
        x, y, direction = np.int64(lane[i, X]), np.int64(lane[i, Y]), np.int64(lane[i, DIRECTION])
        left, right = (direction - 1) & 3, (direction + 1) & 3
        seen[i, 0] = blocked(rows, i, x + _DX[direction], y + _DY[direction])
        seen[i, 1] = blocked(rows, i, x + _DX[left], y + _DY[left])
        seen[i, 2] = blocked(rows, i, x + _DX[right], y + _DY[right])
        food_x, food_y = np.int64(lane[i, FOOD_X]), np.int64(lane[i, FOOD_Y])
        seen[i, 3] = food_y < y
        seen[i, 4] = food_x > x
        seen[i, 5] = food_y > y
        seen[i, 6] = food_x < x
        seen[i, 7] = direction == 0
        seen[i, 8] = direction == 1
        seen[i, 9] = direction == 2


@kernel
def _show_room(first, last, size, lane, rows, fills, seen):
    """For straight, left, right: the share of the free cells that can be reached through the cell entered.

    Free pieces = Euler number + holes, and the body, being connected, makes one hole unless it touches a wall. Both
    are kept up to date move by move, so that a board in one piece, the usual case, is known without flooding it.
    """
    for i in range(first, last):
        pieces = np.int64(lane[i, EULER]) + np.int64(lane[i, BORDER] == 0)
        if pieces > 1:
            _flood_room(i, pieces, size, lane, rows, fills, seen)
            continue
        for move in range(3):
            seen[i, 10 + move] = np.float32(1) - seen[i, move]


@kernel
def _flood_room(i, pieces, size, lane, rows, fills, seen):
    """The same for a board in several pieces: each is flooded at most once, the last of two never."""
    x, y, direction = np.int64(lane[i, X]), np.int64(lane[i, Y]), np.int64(lane[i, DIRECTION])
    free = size * size - np.int64(lane[i, LENGTH])
    known = 0  # rows of `fills` that hold a flooded piece
    count = 0
    for move in range(3):
        if seen[i, move] != 0:
            seen[i, 10 + move] = 0.0
            continue
        towards = (direction + (3 if move == 1 else move // 2)) & 3
        nx, ny = x + _DX[towards], y + _DY[towards]
        same = -1
        for k in range(known):
            if fills[k, ny] >> np.uint64(nx) & ONE:
                same = k
        if same >= 0:
            seen[i, 10 + move] = seen[i, 10 + np.int64(fills[same, 0])]
        elif known == 1 and pieces == 2:
            seen[i, 10 + move] = (free - count) / free
        else:
            count = flood(rows, i, size, nx, ny, fills[known])
            fills[known, 0] = np.uint64(move)  # row 0 is wall: room to note whose piece this is
            known += 1
            seen[i, 10 + move] = count / free


@kernel
def _show_grid(first, last, size, lane, ring, seen):
    cells = size * size
    for i in range(first, last):
        for k in range(3 * cells):
            seen[i, k] = 0
        head = (np.int64(lane[i, Y]) - 1) * size + np.int64(lane[i, X]) - 1
        food = (np.int64(lane[i, FOOD_Y]) - 1) * size + np.int64(lane[i, FOOD_X]) - 1
        seen[i, head] = 1
        for k in range(1, lane[i, LENGTH]):
            cell = np.int64(ring[i, (lane[i, HEAD] - k) & (ring.shape[1] - 1)])
            seen[i, cells + ((cell >> 6) - 1) * size + (cell & 63) - 1] = 1
        if food != head:
            seen[i, 2 * cells + food] = 1


class _Snake:
    def __init__(self, options: Options, lanes: int, first_lane: int) -> None:
        size = options.size
        self.spec = spec(options)
        self.lanes = lanes
        self._size, self._kind, self._first_lane = size, KINDS[options.observation], first_lane
        self._limits = options.max_steps, options.timeout_reward
        self._stream = np.zeros((lanes, 2), np.uint64)
        self._lane = np.zeros((lanes, 11), np.int32)
        self._rows = np.zeros((lanes, size + 2), np.uint64)  # what is blocked, see _bitboard
        self._ring = np.zeros((lanes, 1 << (size * size).bit_length()), np.int16)  # body cells as y << 6 | x
        self._fills = np.zeros((3, size + 2), np.uint64)  # scratch of one observation, no state
        self._arrays = self._stream, self._lane, self._rows, self._ring, self._fills
        self._state = {"stream": self._stream, "lane": self._lane, "rows": self._rows, "ring": self._ring}

    def reset(self, seed: int, out: Steps) -> None:
        start_streams(seed, self._first_lane, self._stream)
        self._ring.fill(0)  # so that the state holds no trace of the games before
        _begin(self._size, self._kind, *self._arrays, out.obs["obs"])

    def step(self, actions: np.ndarray, out: Steps) -> None:
        _step(
            self._size, self._kind, *self._limits, actions, *self._arrays,
            out.obs["obs"], out.reward, out.terminated, out.truncated, out.final_obs["obs"], out.measures,
        )  # fmt: skip

    def state(self) -> Arrays:
        return copied(self._state)

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        restore(self._state, state)

    def render(self, lane: int = 0) -> str:
        x, y, direction, length, _, food_x, food_y, age = (int(v) for v in self._lane[lane, : AGE + 1])
        rows, numbers = self._rows[lane], range(1, self._size + 1)
        cells = {(cx, cy): "o" for cy in numbers for cx in numbers if int(rows[cy]) >> cx & 1}
        cells |= {(food_x, food_y): "*"} | {(x, y): "^>v<"[direction]}
        edge = "#" * (self._size + 2)
        board = ["#" + "".join(cells.get((cx, cy), " ") for cx in numbers) + "#" for cy in numbers]
        return "\n".join([edge, *board, edge, f"score {length - START_LENGTH}, step {age}"])

    def picture(self, lane: int = 0) -> np.ndarray:
        """One lane in colour: uint8 [H, W, 3]."""
        x, y, _, _, _, food_x, food_y = (int(v) for v in self._lane[lane, :AGE])
        side = self._size + 2
        cells = np.empty((side, side, 3), np.uint8)
        cells[:] = _EDGE
        cells[1:-1, 1:-1] = _FLOOR
        for cy in range(1, side - 1):
            for cx in range(1, side - 1):
                if int(self._rows[lane][cy]) >> cx & 1:
                    cells[cy, cx] = _BODY
        cells[food_y, food_x], cells[y, x] = _FOOD, _HEAD
        return cells.repeat(_PIXELS, axis=0).repeat(_PIXELS, axis=1)

    def close(self) -> None:
        pass
