"""scroller: run to the right through a level of walls and pits, seen as pixels. The native stand-in for mario, with the
same frames and measures, in one numba kernel; `busy` makes a step as dear as an emulator's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hotloop.core.jit import kernel
from hotloop.core.options import option
from hotloop.core.random import below, mix
from hotloop.core.types import Arrays, BatchedEnv, EnvSpec, Policy, Steps
from hotloop.envs._lanes import COUNT, KEY, checked, copied, restore, start_streams
from hotloop.envs._pixels import frame_field

MEASURES = ("distance", "flag")  # furthest tile reached, of `length`; 1 where that was the flag
ACTIONS = ("wait", "right", "jump", "right and jump")

TILE = 64  # units of length in one tile
TICKS, RUN, JUMP, GRAVITY = 4, 8, 24, 2  # ticks in an env step; units per tick, and per tick²
WIDTH, HEIGHT = 40, 60  # of the runner
START, VIEW, BELOW = 3, 12, 4  # tiles: from the picture's left to the runner, seen at once, of ground seen
SEGMENT, FLAT = 10, 6  # tiles to one obstacle; tiles before the first
PIT = -BELOW
DEATH_REWARD, FLAG_REWARD = -3.0, 3.0

# What a pixel shows, as grey. PALETTE has the colours of the same things.
SKY, GROUND, WALL, FLAG, RUNNER = 0, 90, 150, 200, 255
PALETTE = {
    SKY: (92, 148, 252),
    GROUND: (172, 92, 40),
    WALL: (60, 140, 60),
    FLAG: (240, 240, 240),
    RUNNER: (200, 40, 40),
}

# Columns of `lane`, int32 [N, 5]. X is the runner's left side and Y his feet, 0 the ground, in units.
X, Y, RISE, FURTHEST, AGE = range(5)


@dataclass(frozen=True)
class Options:
    frame: int = option(84, "pixels along one side of a frame", ge=24, le=256)
    stack: int = option(4, "frames a network sees", ge=1, le=16)
    length: int = option(60, "tiles from the start to the flag; two env steps run one tile", ge=12, le=1_000)
    max_steps: int = option(250, "steps after which an episode is cut", ge=1)
    busy: int = option(0, "rounds of idle arithmetic per env step, a few ns each: an emulator's cost", ge=0)


def spec(options: Options) -> EnvSpec:
    return EnvSpec("scroller", (frame_field(options.frame, options.stack),), len(ACTIONS), measures=MEASURES)


def make(options: Options, lanes: int, first_lane: int = 0) -> BatchedEnv:
    return _Scroller(checked(options, lanes), lanes, first_lane)


def heuristic(options: Options, env: BatchedEnv) -> Policy:
    """Run, and jump where the next tiles are not flat. Looks at the level, not at the picture."""
    assert isinstance(env, _Scroller)

    def act(obs: Arrays, mask: np.ndarray | None) -> np.ndarray:
        state = env.state()
        front = (state["lane"][:, X] + WIDTH) // TILE
        ahead = [np.take_along_axis(state["level"], (front + k)[:, None], 1)[:, 0] for k in (0, 1)]
        here = state["lane"][:, Y] // TILE
        return np.where((ahead[0] != here) | (ahead[1] > here), 3, 1).astype(np.int32)

    return act


@kernel
def _begin(size, stream, lane, level, obs):
    for i in range(lane.shape[0]):
        _new_episode(i, stream, lane, level)
        _draw(i, size, lane, level, obs[i])


@kernel
def _step(
    size, max_steps, busy, actions, stream, lane, level, idle, obs, reward, terminated, truncated, final_obs, measures
):
    for i in range(lane.shape[0]):
        stream[i, COUNT] += np.uint64(1)
        lane[i, AGE] += 1
        before = lane[i, X]
        dead = _move(i, actions[i], lane, level)
        furthest = max(lane[i, FURTHEST], lane[i, X])
        lane[i, FURTHEST] = furthest
        won = lane[i, X] >= (level.shape[1] - VIEW) * TILE
        reward[i] = np.float32(lane[i, X] - before) / TILE + DEATH_REWARD * dead + FLAG_REWARD * won
        terminated[i] = dead or won
        truncated[i] = lane[i, AGE] >= max_steps and not terminated[i]
        if terminated[i] or truncated[i]:
            measures[i, 0] = np.float32(furthest - START * TILE) / TILE
            measures[i, 1] = won
            _draw(i, size, lane, level, final_obs[i])
            _new_episode(i, stream, lane, level)
        _draw(i, size, lane, level, obs[i])
        for _ in range(busy):
            idle[i] = mix(idle[i])


@kernel
def _move(i, action, lane, level):
    """One env step of the runner → whether he fell into a pit."""
    x, y, rise = np.int64(lane[i, X]), np.int64(lane[i, Y]), np.int64(lane[i, RISE])
    runs, jumps = action & 1 == 1, action >= 2
    dead = False
    for _ in range(TICKS):
        floor = _floor(i, x, level)
        if jumps and y == floor and rise == 0:
            rise = JUMP
        if runs and not dead:
            column = (x + WIDTH - 1 + RUN) // TILE
            x = x + RUN if np.int64(level[i, column]) * TILE <= y else min(x + RUN, column * TILE - WIDTH)
        y += rise
        rise -= GRAVITY
        floor = _floor(i, x, level)
        if y <= floor:
            y, rise = floor, 0
        dead = dead or y < -TILE
    lane[i, X], lane[i, Y], lane[i, RISE] = x, y, rise
    return dead


@kernel
def _floor(i, x, level):
    """What the runner stands on: the higher of the two tiles he can be over."""
    return max(np.int64(level[i, x // TILE]), np.int64(level[i, (x + WIDTH - 1) // TILE])) * TILE


@kernel
def _new_episode(i, stream, lane, level):
    """A new level: every SEGMENT tiles a pit of two or three tiles, or a wall of one or two."""
    lane[i, X], lane[i, Y], lane[i, RISE], lane[i, AGE] = START * TILE, 0, 0, 0
    lane[i, FURTHEST] = START * TILE
    columns = level.shape[1]
    for c in range(columns):
        level[i, c] = 0
    # Nothing to jump beyond the flag. Draws of one step are told apart by their number.
    for k in range((columns - VIEW - START - FLAT) // SEGMENT + 1):
        kind = below(stream[i, KEY], stream[i, COUNT], 2 * k, 4)
        first = START + FLAT + k * SEGMENT + below(stream[i, KEY], stream[i, COUNT], 2 * k + 1, SEGMENT - 5)
        for c in range(first, first + (3 if kind == 1 else 2)):
            if c < columns - VIEW:
                level[i, c] = PIT if kind < 2 else kind - 1


@kernel
def _draw(i, size, lane, level, frame):
    """The picture: `unit` pixels to a tile, the runner always at the same place."""
    unit = max(size // VIEW, 1)
    left = np.int64(lane[i, X]) - START * TILE
    ground = size - BELOW * unit
    frame[:, :] = SKY
    column = left // TILE
    while column < level.shape[1]:
        begin = (column * TILE - left) * unit // TILE
        if begin >= size:
            break
        end = (column * TILE + TILE - left) * unit // TILE
        begin = max(begin, 0)
        height = np.int64(level[i, column])
        if height > 0:
            frame[ground - height * unit : ground, begin:end] = WALL
        if height > PIT:
            frame[ground:, begin:end] = GROUND
        if column == level.shape[1] - VIEW:
            frame[ground - 6 * unit : ground, begin : begin + max(unit // 3, 1)] = FLAG
        column += 1
    feet = min(ground - np.int64(lane[i, Y]) * unit // TILE, size)
    head = max(feet - max(HEIGHT * unit // TILE, 1), 0)
    frame[head:feet, START * unit : START * unit + max(WIDTH * unit // TILE, 1)] = RUNNER


class _Scroller:
    def __init__(self, options: Options, lanes: int, first_lane: int) -> None:
        self.spec = spec(options)
        self.lanes = lanes
        self._size, self._first_lane = options.frame, first_lane
        self._limits = options.max_steps, options.busy
        self._stream = np.zeros((lanes, 2), np.uint64)
        self._lane = np.zeros((lanes, 5), np.int32)
        self._level = np.zeros((lanes, START + options.length + VIEW), np.int8)  # height of each tile; PIT has no floor
        self._idle = np.ones(lanes, np.uint64)  # where busy work goes: no state, nothing reads it
        self._state = {"stream": self._stream, "lane": self._lane, "level": self._level}

    def reset(self, seed: int, out: Steps) -> None:
        start_streams(seed, self._first_lane, self._stream)
        _begin(self._size, self._stream, self._lane, self._level, out.obs["obs"])

    def step(self, actions: np.ndarray, out: Steps) -> None:
        _step(
            self._size, *self._limits, actions, self._stream, self._lane, self._level, self._idle,
            out.obs["obs"], out.reward, out.terminated, out.truncated, out.final_obs["obs"], out.measures,
        )  # fmt: skip

    def state(self) -> Arrays:
        return copied(self._state)

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        restore(self._state, state)

    def picture(self, lane: int = 0) -> np.ndarray:
        """One lane in colour: uint8 [H, W, 3]."""
        frame = np.zeros((240, 240), np.uint8)
        _draw(lane, 240, self._lane, self._level, frame)
        colours = np.zeros((256, 3), np.uint8)
        for grey, colour in PALETTE.items():
            colours[grey] = colour
        return colours[frame]

    def render(self, lane: int = 0) -> str:
        x, y, _, _, age = (int(v) for v in self._lane[lane])
        first, here, feet = x // TILE - START, (x + WIDTH // 2) // TILE, max(y // TILE, -1)
        heights = {c: int(self._level[lane, c]) for c in range(first, min(first + 4 * VIEW, self._level.shape[1]))}
        rows = [
            "".join("@" if (c, row) == (here, feet) else "#" if h > max(row, PIT) else " " for c, h in heights.items())
            for row in range(6, -2, -1)
        ]
        goal = self._level.shape[1] - VIEW - START
        return "\n".join([*rows, f"tile {x / TILE - START:.1f} of {goal}, step {age}"])

    def close(self) -> None:
        pass
