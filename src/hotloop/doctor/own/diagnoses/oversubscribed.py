"""oversubscribed: more threads compute than there are cores."""

from __future__ import annotations

from hotloop.doctor.own.examined import Advice, Examined, of_result


def find(seen: Examined) -> list[Advice]:
    config = seen.config
    asked = config.threads * (2 if config.overlap else 1) + max(0, config.workers - 1)
    fewer = [r for r in seen.results if r.trial.change.get("threads") == 1]
    if asked <= seen.cores or config.threads == 1 or not fewer:
        return []
    evidence = f"{asked} threads and processes want to compute at once on {seen.cores} cores"
    return [of_result(fewer[0], "oversubscribed", "more threads than cores", evidence, 0.0)]
