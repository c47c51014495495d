"""Observations of 84×84×4 bytes from one worker process to the trainer: the ring against a memcpy in one process and
against a multiprocessing.Queue, in blocks of 32 and one at a time; and what a worker that waits costs."""

from __future__ import annotations

import time
from typing import Any

from bench.measure import Peer, Row, interleaved, ratios, stage
from bench.stages._transport import OBS, OBS_BYTES, RINGS, SOURCES, Worker, rings, sizes, sources

MUST_GB_PER_S, MUST_SHARE = 2.0, 0.7  # of a memcpy; one of them is enough


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    from hotloop.collect.memory import reserved

    observations = 3_000 if quick else 40_000
    queue_observations = observations // 8
    repeats = 2 if quick else 9
    segment = reserved(sizes(), "free some memory")
    ends = rings(segment.parts)
    with Worker(segment.descriptor) as worker, Peer("queue_transport") as queue:
        sides: dict[str, Any] = {"memcpy": lambda: _memcpy(observations)}
        for name, (each, slots) in RINGS.items():
            count, queued = observations // each, queue_observations // each
            wanted = {"observations": each, "slots": slots, "shape": list(OBS), "sources": SOURCES}
            sides[f"ring, {name}"] = lambda name=name, n=count: _ring(worker, ends[name], name, n)
            sides[f"queue, {name}"] = lambda n=queued, w=wanted: _queue(queue.ask("carry", count=n, **w), n, w)
            _assert_same_data(worker, ends[name], name, queue, wanted)
        found = interleaved(sides, repeats)
        worker.ask(do="wait", ring="blocks", seconds=0.5 if quick else 5.0)
        cores = worker.answer()["cores"]
    segment.close()
    settings = {"observations": observations, "by_queue": queue_observations, "rings": RINGS, "obs": list(OBS)}
    return settings, _rows(found, cores)


def _rows(found: dict[str, list[Any]], cores: float) -> list[Row]:
    rates = {side: [r["gb_per_s"] for r in runs] for side, runs in found.items()}
    shares = ratios(rates["ring, blocks"], rates["memcpy"])
    enough = [max(r / MUST_GB_PER_S, s / MUST_SHARE) for r, s in zip(rates["ring, blocks"], shares, strict=True)]
    what = f"ring, blocks: the better of rate / {MUST_GB_PER_S:g} GB/s and share of a memcpy / {MUST_SHARE:g}"
    rows = [Row(what, "×", tuple(enough), must=1.0), Row("ring, blocks: share of a memcpy's rate", "×", shares)]
    for name in RINGS:
        faster = ratios(rates[f"ring, {name}"], rates[f"queue, {name}"])
        rows.append(Row(f"{name}: ring / multiprocessing.Queue", "×", faster, must=1.0))
    rows += [Row(f"{side}", "GB/s", tuple(values)) for side, values in rates.items()]
    for side, runs in found.items():
        if side == "memcpy":
            continue
        inside = "waiting" if side.startswith("ring") else "inside put, get"
        for end in ("worker", "trainer"):
            values = tuple(r[end] for r in runs)
            rows.append(Row(f"{side}: share of the time that the {end} is blocked", "×", values, "less", note=inside))
    rows.append(Row("cores that a worker takes while it is blocked", "cores", (cores,), "less", must=0.03))
    return rows


def _ring(worker: Worker, end: Any, name: str, count: int) -> dict[str, float]:
    """Each block is copied out of the ring, as into a replay. Timed from the first record to the last."""
    import numpy as np

    each, slots = RINGS[name]
    store = np.ones((slots, each * OBS_BYTES), np.uint8)
    waited, began = end.counts().waited_ns, 0.0
    worker.ask(do="send", ring=name, count=count)
    for k in range(count):
        while (record := end.peek(1.0)) is None:
            pass
        if not began:
            began, waited = time.perf_counter(), end.counts().waited_ns
        store[k % slots] = record[1]
        end.release()
    seconds = time.perf_counter() - began
    answer = worker.answer()
    return {
        "gb_per_s": (count - 1) * each * OBS_BYTES / seconds / 1e9,
        "worker": min(1.0, answer["blocked_s"] / seconds),
        "trainer": (end.counts().waited_ns - waited) / 1e9 / seconds,
        "sum": int(store.sum(dtype=np.int64)),
    }


def _queue(answer: dict[str, float], count: int, wanted: dict[str, Any]) -> dict[str, float]:
    carried = (count - 1) * wanted["observations"] * OBS_BYTES
    return {
        "gb_per_s": carried / answer["seconds"] / 1e9,
        "worker": min(1.0, answer["put_s"] / answer["seconds"]),
        "trainer": answer["get_s"] / answer["seconds"],
    }


def _memcpy(observations: int) -> dict[str, float]:
    """The same blocks from the same sources to as much memory, by one process."""
    import numpy as np

    each, slots = RINGS["blocks"]
    rows = sources(each).reshape(SOURCES, -1)
    store = np.ones((slots, each * OBS_BYTES), np.uint8)
    count = observations // each
    began = time.perf_counter()
    for k in range(count):
        store[k % slots] = rows[k % SOURCES]
    return {"gb_per_s": count * each * OBS_BYTES / (time.perf_counter() - began) / 1e9}


def _assert_same_data(worker: Worker, end: Any, name: str, queue: Peer, wanted: dict[str, Any]) -> None:
    """What stands in the reader's memory at the end is the same on both sides, to the sum of all bytes."""
    count = 2 * wanted["slots"] + 3
    ours = _ring(worker, end, name, count)["sum"]
    theirs = queue.ask("carry", count=count, **wanted)["sum"]
    assert ours == theirs, f"the sides did not carry the same: {ours} and {theirs}"


if __name__ == "__main__":
    stage(run)
