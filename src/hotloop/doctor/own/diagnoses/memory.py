"""memory: the replay takes most of what is free, so that anything else may push the machine out of memory."""

from __future__ import annotations

from hotloop.doctor.own.examined import Advice, Examined

MOST = 0.5


def find(seen: Examined) -> list[Advice]:
    free, taken = seen.free_bytes, seen.baseline.replay_bytes
    if not free or taken < MOST * free:
        return []
    capacity = int(seen.config.replay.capacity * MOST * free / taken)
    return [
        Advice(
            "memory", "the replay takes most of the memory",
            f"{taken / 2**30:.1f} GiB of the {free / 2**30:.1f} GiB that were free for "
            f"{seen.config.replay.capacity:,} transitions",
            f"--replay.capacity {capacity}", taken / free, "changes learning (the replay forgets sooner)",
        )
    ]  # fmt: skip
