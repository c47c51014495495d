"""mario: Super Mario Bros., level 1-1, in an NES emulator (stable-retro; the ROM is yours). Owns options, rewards and
the ends of episodes; `_mario_console` owns the machine, `_processes` spreads lanes over processes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from hotloop.core.errors import UserError
from hotloop.core.options import option
from hotloop.core.random import below, uniform
from hotloop.core.types import Arrays, BatchedEnv, EnvSpec, Steps
from hotloop.envs import _mario_console
from hotloop.envs._lanes import COUNT, checked, copied, restore, start_streams
from hotloop.envs._mario_console import DIES, FLAGPOLE, IN_CONTROL, LEVEL_WON, LOSES_LIFE, SCREEN, WALKS_OFF, Console
from hotloop.envs._pixels import Shrink, as_text, frame_field
from hotloop.envs._processes import Spread

MEASURES = ("distance", "flag")  # furthest pixel from the level's start (the flag of 1-1: some 3,120); 1 if the flag

_RIGHT_ONLY = ((), ("RIGHT",), ("RIGHT", "A"), ("RIGHT", "B"), ("RIGHT", "A", "B"))
_SIMPLE = (*_RIGHT_ONLY, ("A",), ("LEFT",))
_COMPLEX = (*_SIMPLE, ("LEFT", "A"), ("LEFT", "B"), ("LEFT", "A", "B"), ("DOWN",), ("UP",))
ACTIONS = {"right_only": _RIGHT_ONLY, "simple": _SIMPLE, "complex": _COMPLEX}

GOES_ON, LOST, WON, STUCK = range(4)  # how an env step left the episode

NATIVE_DEATH, CLIP = -15, 15
FORWARD, BACKWARD, ENDS = 1 / 6, 1 / 12, (0.0, -1.0, 2.0, -0.5)  # the shaped reward: per pixel, and by the above
FASTEST = 5  # pixels per frame: more is a pipe or a new area, and no way that was made
PAGE, PAGES = 256, 16  # pixels to a page of the level; pages of which a start is kept

# Columns of `lane`, int32 [N, 6]. BEST is the furthest X of the area, from which being stuck is counted; RECORDED the
# last page of which this episode has kept a start.
X, CLOCK, BEST, FURTHEST, STUCK_FOR, RECORDED = range(6)


@dataclass(frozen=True)
class Options:
    rom: str = option("", "path of the ROM; empty: the one in an installed gym-super-mario-bros")
    actions: Literal["right_only", "simple", "complex"] = option("simple", "which buttons: 5, 7 or 12 actions")
    frame: int = option(84, "pixels along one side of a frame", ge=80, le=224)
    skip: int = option(4, "emulated frames per env step", ge=1, le=60)
    stack: int = option(4, "frames a network sees", ge=1, le=16)
    reward: Literal["native", "shaped"] = option(
        "native",
        "native: pixels + clock, death -15, all within ±15 a frame; shaped: pixels / 6, death -1, flag +2, stuck -0.5",
    )
    stuck_env_steps: int = option(40, "env steps without getting further after which an episode ends; 0: never", ge=0)
    recorded_starts: float = option(
        0.0, "share of episodes that start where an earlier one of the lane has been, page by page", ge=0, le=1
    )
    processes: int = option(0, "that emulate, each some of the lanes; 0: one per core, 1: this one", ge=0, le=256)


def spec(options: Options) -> EnvSpec:
    actions = len(ACTIONS[options.actions])
    return EnvSpec("mario", (frame_field(options.frame, options.stack),), actions, measures=MEASURES)


def judged(options: Options) -> Options:
    """From the level's start, also where learning begins elsewhere."""
    return replace(options, recorded_starts=0.0)


def make(options: Options, lanes: int, first_lane: int = 0) -> BatchedEnv:
    checked(options, lanes)
    _mario_console.find_rom(options.rom)
    processes = min(lanes, options.processes or cores())
    if processes == 1:
        return _Mario(options, lanes, first_lane)
    return Spread(__name__, replace(options, processes=1), lanes, first_lane, processes)


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Mario:
    """Lanes that take turns in the emulator of this process."""

    def __init__(self, options: Options, lanes: int, first_lane: int) -> None:
        self.spec = spec(options)
        self.lanes = lanes
        self._options, self._first_lane = options, first_lane
        self._rom = _mario_console.find_rom(options.rom)
        self._masks = _mario_console.masks(ACTIONS[options.actions])
        self._shrink = Shrink(*SCREEN, options.frame)
        self._tokens = [object() for _ in range(lanes)]  # what the console knows its holder by
        size = len(_mario_console.console(self._rom).start)
        self._stream = np.zeros((lanes, 2), np.uint64)
        self._lane = np.zeros((lanes, 6), np.int32)
        self._machine = np.zeros((lanes, size), np.uint8)
        # Where episodes of a lane have been, the newest of each page: where it was (0: no episode has), state, frame.
        pages = PAGES if options.recorded_starts else 0
        self._been_x = np.zeros((lanes, pages), np.int32)
        self._been_machine = np.zeros((lanes, pages, size), np.uint8)
        self._been_frame = np.zeros((lanes, pages, options.frame, options.frame), np.uint8)
        self._state = {"stream": self._stream, "lane": self._lane, "machine": self._machine}
        if pages:
            self._state |= {
                "been_x": self._been_x,
                "been_machine": self._been_machine,
                "been_frame": self._been_frame,
            }

    def reset(self, seed: int, out: Steps) -> None:
        for array in self._state.values():
            array.fill(0)  # so that the state holds no trace of the games before
        start_streams(seed, self._first_lane, self._stream)
        for i in range(self.lanes):
            self._begin(i, out.obs["obs"][i])

    def _begin(self, i: int, frame: np.ndarray) -> None:
        """An episode: at the level's start, or where this lane has been in an earlier one."""
        console, page = _mario_console.console(self._rom), self._drawn_page(i)
        if page < 0:
            self._machine[i] = console.start
            self._shrink(console.start_screen, console.start_screen, frame)
        else:
            self._machine[i], frame[:] = self._been_machine[i, page], self._been_frame[i, page]
        console.load(self._machine[i], self._tokens[i])
        now = console.look()
        x = now["x_page"] * PAGE + now["x_in_page"]
        self._lane[i] = x, now["clock"], x, x, 0, x // PAGE

    def _drawn_page(self, i: int) -> int:
        """Where to start; -1 is the level's start."""
        key, count = self._stream[i]
        known = np.flatnonzero(self._been_x[i])
        if not len(known) or uniform(key, count, 0) >= self._options.recorded_starts:
            return -1
        return int(known[below(key, count, 1, len(known))])

    def step(self, actions: np.ndarray, out: Steps) -> None:
        if actions.min() < 0 or actions.max() >= self.spec.num_actions:
            raise UserError(f"mario has actions 0 … {self.spec.num_actions - 1}; got {actions}")
        out.truncated.fill(False)  # the game's clock ends what lasts too long
        for i in range(self.lanes):
            self._stream[i, COUNT] += np.uint64(1)
            out.reward[i], end = self._decide(i, self._masks[actions[i]], out.obs["obs"][i])
            out.terminated[i] = end != GOES_ON
            if end != GOES_ON:
                out.final_obs["obs"][i] = out.obs["obs"][i]
                out.measures[i] = self._lane[i, FURTHEST] - _mario_console.console(self._rom).start_x, end == WON
                self._begin(i, out.obs["obs"][i])

    def _decide(self, i: int, pressed: np.ndarray, frame: np.ndarray) -> tuple[float, int]:
        """One env step of one lane: (reward, how it left the episode)."""
        console, lane, options = _mario_console.console(self._rom), self._lane[i], self._options
        if console.holder is not self._tokens[i]:
            console.load(self._machine[i], self._tokens[i])
        console.press(pressed)
        best = lane[BEST]
        moved, native, end = self._emulate(console, lane, frame)
        lane[STUCK_FOR] = 0 if lane[BEST] != best else lane[STUCK_FOR] + 1
        if end == GOES_ON:
            console.save(self._machine[i])
            if 0 < options.stuck_env_steps <= lane[STUCK_FOR]:
                end = STUCK
            elif options.recorded_starts:
                self._remember(i, console.look(), frame)
        if options.reward == "native":
            return native, end
        return moved * (FORWARD if moved > 0 else BACKWARD) + ENDS[end], end

    def _emulate(self, console: Console, lane: np.ndarray, frame: np.ndarray) -> tuple[int, int, int]:
        """`skip` frames, fewer where the episode ends → (pixels moved, native reward, how it ended)."""
        step, look, skip = console.machine.step, console.look, self._options.skip
        x, clock = int(lane[X]), int(lane[CLOCK])
        moved = native = 0
        end, first = GOES_ON, None
        for k in range(skip):
            step()
            now = look()
            to, ticks = now["x_page"] * PAGE + now["x_in_page"], min(now["clock"] - clock, 0)
            pixels, x, clock = to - x, to, now["clock"]
            if abs(pixels) > FASTEST:
                pixels, lane[BEST] = 0, x
            player = now["player"]
            if player in (DIES, LOSES_LIFE) or now["y_page"] > 1:
                end = LOST
            elif player in (FLAGPOLE, WALKS_OFF) or now["mode"] == LEVEL_WON:
                end = WON
            moved += pixels
            native += max(-CLIP, min(CLIP, pixels + ticks + (NATIVE_DEATH if end == LOST else 0)))
            if end != GOES_ON:
                break
            if k == skip - 2:
                first = console.machine.get_screen()
        screen = console.machine.get_screen()
        self._shrink(screen if first is None else first, screen, frame)
        lane[X], lane[CLOCK] = x, clock
        lane[BEST], lane[FURTHEST] = max(lane[BEST], x), max(lane[FURTHEST], x)
        return moved, native, end

    def _remember(self, i: int, now: Mapping[str, int], frame: np.ndarray) -> None:
        """Keep where the lane stands as a start of later episodes: once per page, and not in the air, where much may
        be lost already."""
        page = int(self._lane[i, X]) // PAGE
        if self._lane[i, RECORDED] < page < PAGES and now["player"] == IN_CONTROL and not now["airborne"]:
            self._been_x[i, page] = self._lane[i, X]
            self._been_machine[i, page], self._been_frame[i, page] = self._machine[i], frame
            self._lane[i, RECORDED] = page

    def state(self) -> Arrays:
        return copied(self._state)

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        restore(self._state, state)
        _mario_console.console(self._rom).holder = None

    def picture(self, lane: int = 0) -> np.ndarray:
        """One lane in colour, uint8 [H, W, 3]."""
        return _mario_console.console(self._rom).screen_after(self._machine[lane])

    def render(self, lane: int = 0) -> str:
        screen, small = self.picture(lane), np.zeros((128, 128), np.uint8)
        Shrink(*SCREEN, 128)(screen, screen, small)
        now = _mario_console.console(self._rom).look()
        x, clock = int(self._lane[lane, X]), int(self._lane[lane, CLOCK])
        place = f"world {now['world'] + 1}-{now['level'] + 1}, x {x}, clock {clock}, lives {now['lives'] + 1}"
        return f"{as_text(small, 96)}\n{place}"

    def close(self) -> None:
        pass
