"""The worker of `transport`: a process that copies observations into a ring, as often as it is asked on stdin."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from typing import Any

OBS = (84, 84, 4)
OBS_BYTES = 84 * 84 * 4
RINGS = {"blocks": (32, 8), "transitions": (1, 256)}  # name -> observations in a block, blocks: of equal size together
SOURCES = 7  # blocks that a worker copies from in turn; not the number of slots, so that a slot always changes


def sizes() -> dict[str, int]:
    from hotloop.collect.ring import bytes_for

    return {name: bytes_for(observations * OBS_BYTES, slots) for name, (observations, slots) in RINGS.items()}


def rings(parts: Any) -> dict[str, Any]:
    from hotloop.collect.ring import Ring

    return {name: Ring(parts[name], obs * OBS_BYTES, slots) for name, (obs, slots) in RINGS.items()}


def sources(observations: int) -> Any:
    """[SOURCES, observations, *OBS]: what both sides send, noise throughout."""
    import numpy as np

    return np.random.default_rng(0).integers(0, 256, (SOURCES, observations, *OBS), dtype=np.uint8)


class Worker:
    """As its reader sees it."""

    def __init__(self, descriptor: int) -> None:
        command = [sys.executable, "-m", "bench.stages._transport", str(descriptor)]
        self._process = subprocess.Popen(
            command, pass_fds=(descriptor,), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.answer()

    def ask(self, **request: Any) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def main(descriptor: int) -> None:
    from hotloop.collect.memory import attached

    ends = rings(attached(descriptor, sizes()).parts)
    data = {name: sources(observations).reshape(SOURCES, -1) for name, (observations, _) in RINGS.items()}
    for end in ends.values():
        end.take_over(1)
        end.made(0)
        end.claim(0.0)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        end, rows = ends[request["ring"]], data[request["ring"]]
        observations = RINGS[request["ring"]][0]
        if request["do"] == "wait":  # with nobody who reads
            while (slot := end.claim(0.0)) is not None:
                slot[...] = rows[0]
                end.made(observations)
                end.publish(observations, 0)
            began, used = time.perf_counter(), _used_s()
            end.claim(request["seconds"])
            print(json.dumps({"cores": (_used_s() - used) / (time.perf_counter() - began)}), flush=True)
            continue
        before = end.counts().blocked_ns
        for k in range(request["count"]):
            while (slot := end.claim(1.0)) is None:
                pass
            slot[...] = rows[k % SOURCES]
            end.made(observations)
            end.publish(observations, 0)
        print(json.dumps({"blocked_s": (end.counts().blocked_ns - before) / 1e9}), flush=True)


def _used_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main(int(sys.argv[1]))
