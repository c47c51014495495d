"""How many updates lie between two changes of the target network: one weight of it is looked at after each update."""

from __future__ import annotations

import ctypes
from typing import Any

from .forwards import Forwards
from .recorder import Recorder

LOOK_AFTER = 3  # updates, by when every network that takes part has been seen
TYPES = {"torch.float32": ctypes.c_float, "torch.float64": ctypes.c_double}


class Targets:
    def __init__(self, rec: Recorder, forwards: Forwards) -> None:
        self.rec, self.forwards = rec, forwards
        self.updates = 0
        self.watched: dict[int, list[Any]] = {}  # module -> [parameter, address, cell, value, update of last change]

    def after_update(self) -> None:
        self.updates += 1
        if self.updates % 64 == LOOK_AFTER or self.updates == LOOK_AFTER:
            self.look()
        for number, seen in self.watched.items():
            param, address, cell, value, last = seen
            if param.data_ptr() != address:
                seen[1:4] = cell_of(param)
            elif cell.value == value:
                continue
            else:
                seen[3] = cell.value
            key = ("target gap", 0, 0, 0, number, self.updates - last)
            self.rec.counts[key] = self.rec.counts.get(key, 0) + 1
            seen[4] = self.updates

    def look(self) -> None:
        """Networks shaped like the learning one that are not it."""
        modules = {number: module for number, module in self.forwards.modules.values() if number >= 0}
        learning = modules.get(self.forwards.learning)
        if learning is None:
            return
        shapes = [p.shape for p in learning.parameters()]
        for number, module in modules.items():
            if number in self.watched or module is learning or [p.shape for p in module.parameters()] != shapes:
                continue
            param = list(module.parameters())[-1]  # a bias of the last layer: it gets a gradient whatever is observed
            if param.device.type == "cpu" and str(param.dtype) in TYPES:
                self.watched[number] = [param, *cell_of(param), self.updates]


def cell_of(param: Any) -> list[Any | None]:
    """[address, the first weight as it stands in memory, its value]"""
    address = param.data_ptr()
    cell = TYPES[str(param.dtype)].from_address(address)
    return [address, cell, cell.value]
