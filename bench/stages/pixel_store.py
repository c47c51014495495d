"""Bytes that one stored transition takes in the replay, where a network sees eight frames of 128×128: by its plan, and
by what the process grows when it is made."""

from __future__ import annotations

import os
from typing import Any

from bench.measure import Row, stage

MUST, AIM = 20.0, 17.0  # KiB; both stacks of each transition would take 256
WORKLOADS = ("scroller", "mario")


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    from dataclasses import replace

    from hotloop import api
    from hotloop.replay.store import Store

    rows, settings = [], {}
    for workload in WORKLOADS:
        config = api.configure(workload, "seed")
        spec, options = config.world().spec(), config.replay
        (frame,) = spec.observation
        assert frame.seen == (8, 128, 128) and frame.dtype == "uint8"
        Store(spec, replace(options, capacity=64), 1, config.learner.gamma)  # compiles, so that the next only allocates
        grown = []
        for _ in range(1 if quick else 3):
            before = _resident()
            store = Store(spec, options, config.lanes, config.learner.gamma)
            grown.append((_resident() - before) / store.plan.capacity / 1024)
            planned = store.plan.total / store.plan.capacity / 1024
            del store
        rows.append(Row(f"{workload}, by the plan", "KiB", (planned,), "less", MUST, AIM))
        rows.append(Row(f"{workload}, by what the process grew", "KiB", tuple(grown), "less", MUST, AIM))
        settings[workload] = {"capacity": options.capacity, "lanes": config.lanes, "seen": list(frame.seen)}
    return settings, rows


def _resident() -> int:
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    stage(run)
