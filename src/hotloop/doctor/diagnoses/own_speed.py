"""own_speed: the script prints a speed of its own, and it is not the speed. A count since the start over a later
window grows by itself; a mean since the start remembers what is long over."""

from __future__ import annotations

import re
from collections import defaultdict
from statistics import median

from hotloop.doctor.case import Case
from hotloop.doctor.finding import Finding
from hotloop.doctor.recording import Probe

UNIT = (
    r"(?:(?P<what>env(?:ironment)?[ -]?steps?|steps?|frames?|it(?:eration)?s?|exp(?:erience)?s?|transitions?|samples?)"
    r"\s*(?:/\s*s(?:ec(?:ond)?)?\b|per sec(?:ond)?))|\b(?:fps|sps)\b"
)
NUMBER = r"(?P<n>\d[\d,]*\.?\d*)"
AFTER, BEFORE = re.compile(NUMBER + r"\s*(?:" + UNIT + ")", re.I), re.compile("(?:" + UNIT + r")\W{0,4}" + NUMBER, re.I)
WRONG = 1.5


def find(case: Case) -> list[Finding]:
    if not case.throughput.pieces or case.throughput.unit != "env steps":
        return []
    said: dict[Probe, list[tuple[float, float]]] = defaultdict(list)
    for probe, text, at in case.learner.said:
        number = speed_in(text)
        if number is not None:
            said[probe].append((at / 1e9, number))
    out = []
    for probe, series in said.items():
        ratios = [(n / _true(case, at)) for at, n in series if _true(case, at) > 0 and n > 0]
        if len(ratios) < 2 or probe.at is None:
            continue
        tail = median(ratios[-max(1, len(ratios) // 4) :])
        head = median(ratios[: max(1, len(ratios) // 4)])
        if 1 / WRONG < tail < WRONG:
            continue
        what = "more" if tail > 1 else "less"
        factor = tail if tail > 1 else 1 / tail
        evidence = [f"it says {series[-1][1]:,.0f} per second where {_true(case, series[-1][0]):,.0f} were made"]
        if tail > 1.3 * head:
            evidence.append(
                f"its error grows, from {head:.1f}× to {tail:.1f}×: a count since the start over the time of a part"
            )
        elif case.throughput.before_learning_per_s:
            evidence.append("a mean since the start, in which the steps before learning count as well")
        out.append(
            Finding(
                name="own_speed",
                title=f"the script's own speed is {factor:.1f}× {what} than the true one",
                file=probe.at.function.file,
                line=probe.at.line,
                share=0.0,
                remedy="divide the env steps of a window by the seconds of the same window",
                evidence=tuple(evidence),
                tier="wrong",
            )
        )
    return out


def speed_in(text: str) -> float | None:
    found = BEFORE.search(text) or AFTER.search(text)
    try:
        return float(found["n"].replace(",", "")) if found else None
    except ValueError:
        return None


def _true(case: Case, at: float) -> float:
    """Env steps per second around a moment."""
    return min(case.throughput.pieces, key=lambda piece: abs(piece[0] - at))[1]
