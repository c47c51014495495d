"""Looks for the exploration rate among the script's own variables, once per window. It only reads."""

from __future__ import annotations

import re
import sys
from typing import Any

from .recorder import HERE, Recorder, now

NAMES = re.compile(
    r"^_?(cur(rent)?_|act(ion)?_)?(eps|epsilon|exploration|explore|random)(_?(rate|threshold|prob|probability|eps|now|t))?$",
    re.IGNORECASE,
)
FRAMES = 12


class Epsilon:
    def __init__(self, rec: Recorder) -> None:
        self.rec = rec
        self.own: dict[str, bool] = {}  # file -> whether it is the script's or beside it

    def look(self, frame: Any) -> None:
        """frame: where the main thread is."""
        found: dict[str, float] = {}
        count = 0
        while frame is not None and count < FRAMES:
            code = frame.f_code
            if self.is_own(code.co_filename) and not code.co_filename.startswith(HERE):
                self.among(frame.f_locals, found)
                owner = frame.f_locals.get("self") if code.co_name != "<module>" else None
                if hasattr(owner, "__dict__"):
                    self.among(vars(owner), found)
            frame = frame.f_back
            count += 1
        main = sys.modules.get("__main__")
        self.among(getattr(main, "__dict__", {}), found)
        for name, value in found.items():
            self.rec.row("epsilon", name, value, now() - self.rec.began)

    def is_own(self, file: str) -> bool:
        known = self.own.get(file)
        if known is None:
            known = self.own[file] = "site-packages" not in file and file[:1] != "<" and "/lib/python" not in file
        return known

    @staticmethod
    def among(values: Any, found: dict[str, float]) -> None:
        for name in list(values):
            if isinstance(name, str) and len(name) < 40 and name not in found and NAMES.match(name):
                value = values[name]
                if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
                    found[name] = float(value)
