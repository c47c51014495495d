"""Observations from one worker to a reader through a bounded multiprocessing.Queue, as trainers with collector
processes do it: one queue per collector, one item per transition, or arrays of many."""

from __future__ import annotations

import multiprocessing
import time
from typing import Any

from bench.measure import serve


def carry(observations: int, slots: int, count: int, shape: list[int], sources: int) -> dict[str, Any]:
    """`count` items of so many observations, each copied to where a replay would have it. → seconds from the first to
    the last, seconds in `put` and in `get`, and the sum of all that arrived."""
    import numpy as np

    context = multiprocessing.get_context("fork")  # the quickest to start, and this process has one thread
    queue, back = context.Queue(slots), context.Queue()
    worker = context.Process(target=_work, args=(queue, back, observations, count, shape, sources), daemon=True)
    worker.start()
    store = np.ones((slots, observations, *shape), np.uint8)
    store[0] = _obs(queue.get())
    began, got = time.perf_counter(), 0.0
    for k in range(1, count):
        asked = time.perf_counter()
        item = queue.get()
        got += time.perf_counter() - asked
        store[k % slots] = _obs(item)
    seconds = time.perf_counter() - began
    put = back.get()
    worker.join()
    return {"seconds": seconds, "put_s": put, "get_s": got, "sum": int(store.sum(dtype=np.int64))}


def _obs(item: Any) -> Any:
    return item[0] if isinstance(item, tuple) else item


def _work(queue: Any, back: Any, observations: int, count: int, shape: list[int], sources: int) -> None:
    import numpy as np

    rows = np.random.default_rng(0).integers(0, 256, (sources, observations, *shape), dtype=np.uint8)
    put = 0.0
    for k in range(count):
        row = rows[k % sources]
        item = row.copy() if observations > 1 else (row[0].copy(), 1, 0.5, False)  # an environment makes a new one
        began = time.perf_counter()
        queue.put(item)
        put += time.perf_counter() - began
    back.put(put)


if __name__ == "__main__":
    serve({"carry": carry})
