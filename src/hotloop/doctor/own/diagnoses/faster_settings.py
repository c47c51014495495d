"""faster_settings: what was tried, costs no learning, and was faster beyond doubt."""

from __future__ import annotations

from hotloop.doctor.own.examined import Advice, Examined, of_result

LEAST = 1.03  # lower end of the interval


def find(seen: Examined) -> list[Advice]:
    out = []
    for result in seen.results:
        if result.trial.learning == "same learning" and result.trial.remedy and result.interval[0] >= LEAST:
            title = f"{result.trial.title} is faster here"
            evidence = f"{len(result.rounds)} rounds in turns with the settings as they are"
            out.append(of_result(result, "faster_settings", title, evidence, 1 - 1 / result.gain))
    return out
