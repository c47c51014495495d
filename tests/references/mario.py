"""Mario written for reading: one episode on the bare emulator, its rewards by their definition, the game's memory read
byte by byte at the addresses that https://datacrystal.tcrf.net/wiki/Super_Mario_Bros./RAM_map names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hotloop.envs import _mario_console


@dataclass
class Decision:
    native: int
    shaped: float
    end: str  # "", lost, flag, stuck
    x: int
    screen: np.ndarray  # [H, W, 3]: the brighter of the last two


class Episode:
    """From the level's start."""

    def __init__(self, skip: int, stuck: int) -> None:
        self.console: Any = _mario_console.console(_mario_console.find_rom(""))
        self.console.load(self.console.start, None)
        self.skip, self.stuck = skip, stuck
        self.x, self.clock = self.look()[:2]
        self.begin, self.furthest, self.since = self.x, self.x, 0

    def look(self) -> tuple[int, int, bool, bool]:
        low, high = (self.console._data.memory.blocks[k] for k in (0, 1024))
        hundreds, tens, ones = high[0x7F8 - 1024 :][:3]
        x = low[0x6D] * 256 + low[0x86]
        lost = low[0x0E] in (0x0B, 0x06) or low[0xB5] > 1
        flag = low[0x0E] in (0x04, 0x05) or high[0x770 - 1024] == 2
        return x, 100 * hundreds + 10 * tens + ones, lost, flag

    def step(self, *pressed: str) -> Decision:
        native, moved, end = 0, 0, ""
        screens = []
        for _ in range(self.skip):
            self.console.press(_mario_console.buttons(*pressed))
            self.console.machine.step()
            screens.append(self.console.machine.get_screen())
            x, clock, lost, flag = self.look()
            native += max(-15, min(15, (x - self.x) + min(clock - self.clock, 0) - 15 * lost))
            moved += x - self.x
            self.x, self.clock = x, clock
            if lost or flag:
                end = "lost" if lost else "flag"
                break
        if self.x > self.furthest:
            self.furthest, self.since = self.x, 0
        else:
            self.since += 1
            if not end and self.since >= self.stuck > 0:
                end = "stuck"
        shaped = moved / 6 if moved > 0 else moved / 12
        shaped += {"": 0, "lost": -1, "flag": 2, "stuck": -0.5}[end]
        # Where an episode ended in the middle of a decision, its last screen is alone.
        pair = screens[-2:] if len(screens) == self.skip else screens[-1:]
        return Decision(native, shaped, end, self.x, np.max(pair, axis=0))


def played(actions: list[tuple[str, ...]], skip: int, stuck: int) -> list[Decision]:
    """Until the episode's end."""
    episode, decisions = Episode(skip, stuck), []
    for pressed in actions:
        decisions.append(episode.step(*pressed))
        if decisions[-1].end:
            break
    return decisions


def averaged(screen: np.ndarray, size: int) -> np.ndarray:
    """[H, W, 3] → grey [size, size], each pixel the mean over its area, in float64."""
    grey = screen @ np.array([0.299, 0.587, 0.114])

    def shares(long: int) -> np.ndarray:
        edges = np.arange(size + 1) * long / size
        pixels = np.arange(long)
        low = np.maximum(edges[:-1, None], pixels)
        high = np.minimum(edges[1:, None], pixels + 1)
        return np.maximum(high - low, 0) * size / long

    return shares(grey.shape[0]) @ grey @ shares(grey.shape[1]).T
