"""A process that does the work of bench/parts when it is asked, and says how long its processor time was."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

from bench.measure import ROOT, serve

WORKS: dict[str, Callable[[], object]] = {}


def make(part: str) -> dict[str, Any]:
    if not (ROOT / "bench" / "parts" / f"{part}.py").exists():
        return {"ready": False}
    WORKS[part] = importlib.import_module(f"bench.parts.{part}").make()
    return {"ready": True}


def work(part: str) -> dict[str, Any]:
    began = time.process_time()  # not the clock's: what neighbours take is theirs
    WORKS[part]()
    return {"seconds": time.process_time() - began}


if __name__ == "__main__":
    serve({"make": make, "work": work})
