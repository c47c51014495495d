"""The whole update of an MLP 4-120-84-2, batch 128: sample, gather, loss, gradient, Adam, target."""

from __future__ import annotations

from typing import Any

from bench.measure import Row, stage
from bench.stages import _update


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    return _update.compare(hidden=(120, 84), batch=128, bounds=_update.Bounds(ratio=(2.5, 4)), quick=quick)


if __name__ == "__main__":
    stage(run)
