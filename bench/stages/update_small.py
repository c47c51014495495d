"""The whole update of an MLP 4-64-2, batch 32: sample, gather, loss, gradient, Adam, target."""

from __future__ import annotations

from typing import Any

from bench.measure import Row, stage
from bench.stages import _update


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    return _update.compare(
        hidden=(64,), batch=32, bounds=_update.Bounds(ratio=(5, 15), microseconds=(100, 20)), quick=quick
    )


if __name__ == "__main__":
    stage(run)
