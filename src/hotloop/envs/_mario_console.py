"""The NES of this process, of which there can be one: finds and checks the ROM, starts the game from power-on, and
swaps the states of as many lanes as are wanted. Knows neither rewards nor episodes."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hotloop.core.errors import MissingExtra, UserError

INTEGRATION = Path(__file__).parent / "_mario_integration"  # where stable-retro finds the game's variables in memory
BUTTONS = ("B", "", "SELECT", "START", "UP", "DOWN", "LEFT", "RIGHT", "A")
SCREEN = (224, 240)  # height and width that the emulator shows

# What the game's variables `player`, `mode` and `task` say.
FLAGPOLE, WALKS_OFF, LOSES_LIFE, IN_CONTROL, DIES = 4, 5, 6, 8, 11
PLAYING, LEVEL_WON, LEVEL_RUNS = 1, 2, 3

# The blocks of level 1-1 as they lie in memory when it begins: what tells this game, however it is drawn, from others.
_BLOCKS = 0x500, 0x6A0
_LEVEL_1_1 = "148fc024f3cc"
_PATIENCE = 600  # frames from power-on to the first level, three times what it takes


def find_rom(path: str) -> Path:
    """The ROM a user named, or the one in an installed gym-super-mario-bros, which is not imported."""
    if not path:
        package = importlib.util.find_spec("gym_super_mario_bros")
        folders = list(package.submodule_search_locations or []) if package else []
        found = [rom for f in folders if (rom := Path(f) / "_roms" / "super-mario-bros.nes").is_file()]
        if not found:
            raise UserError(
                "mario needs a ROM of Super Mario Bros.: give yours with --env.rom PATH, or "
                "pip install --no-deps gym-super-mario-bros, whose wheel holds one"
            )
        return found[0]
    rom = Path(path).expanduser()
    try:
        data = rom.read_bytes()
    except OSError as why:
        raise UserError(f"env.rom = {path!r}: {why.strerror}") from None
    if data[:4] != b"NES\x1a" or len(data) < 16 + data[4] * 16_384 + data[5] * 8_192:
        raise UserError(f"env.rom = {path!r}: not an NES ROM, or not all of one")
    if rom.suffix != ".nes":  # the emulator chooses its core by it
        raise UserError(f"env.rom = {path!r}: its name has to end in .nes")
    return rom


class Console:
    """Load a state, press buttons for a frame, look."""

    def __init__(self, rom: Path) -> None:
        try:
            from stable_retro import RetroEmulator
            from stable_retro.data import GameData
        except ImportError:
            raise MissingExtra("mario", "mario") from None
        self.rom = rom
        try:
            self.machine: Any = RetroEmulator(str(rom))
        except RuntimeError as why:
            raise UserError(f"env.rom = {str(rom)!r}: {why}") from None
        self._data: Any = GameData()
        self.machine.configure_data(self._data)
        self._data.load(str(INTEGRATION / "data.json"), str(INTEGRATION / "scenario.json"))
        self.look: Any = self._data.lookup_all  # () -> the game's variables by name
        self.holder: object = None  # whose state is loaded
        try:
            self._play_to_first_level()
        except BaseException:
            self.close()  # at once: the traceback would keep the emulator, and no other could be opened
            raise
        state = bytearray(self.machine.get_state())
        self._noise = state.index(b"NREG") + 8  # after its tag and length
        # The cartridge's own memory, which this game does not use, holds what was in the process's memory before.
        rest = state.index(b"WRAM") + 8
        size = int.from_bytes(state[rest - 4 : rest], "little")
        state[rest : rest + size] = bytes(size)
        self.machine.set_state(bytes(state))
        self.start = np.zeros(len(state), np.uint8)
        self.save(self.start)
        self.start_screen = self.machine.get_screen()
        self.start_x = self.look()["x_in_page"]

    def _play_to_first_level(self) -> None:
        """From power-on, pressing START now and then, until the player is in control."""
        for frame in range(_PATIENCE):
            self.press(buttons("START") if frame % 20 > 17 else buttons())
            self.machine.step()
            now = self.look()
            if (now["mode"], now["task"], now["player"]) == (PLAYING, LEVEL_RUNS, IN_CONTROL):
                break
        memory = b"".join(self._data.memory.blocks[k] for k in (0, 1024))
        if not hashlib.sha1(memory[slice(*_BLOCKS)]).hexdigest().startswith(_LEVEL_1_1):
            raise UserError(f"env.rom = {str(self.rom)!r}: not Super Mario Bros.; its level 1-1 did not begin")

    def close(self) -> None:
        """Free the emulator of this process."""
        self.machine = self._data = self.look = None

    def press(self, mask: np.ndarray) -> None:
        self.machine.set_button_mask(mask, 0)

    def save(self, out: np.ndarray) -> None:
        """The machine's state → out [bytes] uint8. Two bytes of the sound's noise, which the core does not restore and
        nothing reads, are left out, so that the same game has the same state."""
        out[:] = np.frombuffer(self.machine.get_state(), np.uint8)
        out[self._noise : self._noise + 2] = 0

    def load(self, state: np.ndarray, holder: object) -> None:
        self.machine.set_state(state.tobytes())
        self.holder = holder

    def screen_after(self, state: np.ndarray) -> np.ndarray:
        """What the frame after a state shows, [H, W, 3]; the state itself has no picture. Nobody's is loaded then."""
        self.load(state, None)
        self.press(buttons())
        self.machine.step()
        return self.machine.get_screen()


_open: list[Console] = []  # the one of this process, while there is one


def console(rom: Path) -> Console:
    """This process's, opened where it is not. Another ROM takes the place of the former."""
    if not _open or _open[0].rom != rom:
        while _open:
            _open.pop().close()  # first: the emulator allows no second one
        _open.append(Console(rom))
    return _open[0]


def buttons(*names: str) -> np.ndarray:
    """What is pressed, as the emulator takes it."""
    return np.array([name in names for name in BUTTONS], np.uint8)


def masks(actions: Sequence[Sequence[str]]) -> np.ndarray:
    """Actions as names of buttons → [A, buttons]"""
    return np.array([buttons(*names) for names in actions])
