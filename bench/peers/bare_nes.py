"""An NES emulator and nothing else: buttons, frames, and the start state again where an episode ended."""

from __future__ import annotations

import base64
import time
from typing import Any

from bench.measure import serve

_OPEN: list[Any] = []


def start(rom: str) -> dict[str, Any]:
    from stable_retro import RetroEmulator

    _OPEN.append(RetroEmulator(rom))
    return {}


def play(
    state: str, buttons: list[list[int]], actions: list[list[int]], ends: list[list[int]], skip: int
) -> dict[str, Any]:
    """Some lanes, one after the other: each decision holds its buttons for `skip` frames. → seconds, and the states in
    which the lanes then are."""
    import numpy as np

    machine, begin = _OPEN[0], base64.b64decode(state)
    pressed = [np.array(b, np.uint8) for b in buttons]
    last = []
    began = time.perf_counter()
    for lane, over in zip(actions, map(set, ends), strict=True):
        machine.set_state(begin)
        for t, action in enumerate(lane):
            machine.set_button_mask(pressed[action], 0)
            for _ in range(skip):
                machine.step()
            if t in over:
                machine.set_state(begin)
        last.append(base64.b64encode(machine.get_state()).decode())
    return {"seconds": time.perf_counter() - began, "states": last}


if __name__ == "__main__":
    serve({"start": start, "play": play})
