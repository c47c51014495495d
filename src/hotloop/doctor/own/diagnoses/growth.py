"""growth: the memory of the process grows while nothing that should is filling up."""

from __future__ import annotations

from hotloop.doctor.own.examined import Advice, Examined

LEAST_PER_MINUTE = 50 * 2**20


def find(seen: Examined) -> list[Advice]:
    per_minute = seen.baseline.resident_growth / max(seen.baseline.seconds, 1e-9) * 60
    if per_minute < LEAST_PER_MINUTE or seen.baseline.seconds < 2:
        return []
    return [
        Advice(
            "growth", "memory grows",
            f"{per_minute / 2**20:.0f} MiB per minute, after the replay was allocated and touched",
            "look into the environment: hotloop's own memory is taken before step 1", 0.0, "same learning",
        )
    ]  # fmt: skip
